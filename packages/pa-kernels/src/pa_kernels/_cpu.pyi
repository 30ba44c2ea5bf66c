# The compiled CPU backend. Pointers are addresses; 0 is an absent input.

from enum import Enum

class Dtype(Enum):
    FLOAT32 = 0
    BFLOAT16 = 1
    FLOAT16 = 2
    INT8 = 3
    FLOAT8E4M3FN = 4

class Scaling(Enum):
    NONE = 0
    PER_TENSOR = 1
    PER_CHANNEL = 2

class CallShape:
    # Sizes, strides (in elements, between rows) and attributes of a call.
    num_tokens: int
    batch_size: int
    num_heads: int
    kv_num_heads: int
    head_size: int
    v_head_size: int
    num_blocks: int
    block_size: int
    table_columns: int
    query_stride: int
    key_stride: int
    value_stride: int
    output_stride: int
    table_stride: int
    rotary_rows: int
    rotary_dim: int
    rotary_offset: int
    cos_stride: int
    sin_stride: int
    window_tokens: int
    rotary_interleaved: int
    dtype: Dtype
    cache_dtype: Dtype
    key_scaling: Scaling
    value_scaling: Scaling
    scale: float
    softcap: float
    norm_epsilon: float

class PreparedCall:
    # A shape bound to the instruction-set unit that serves it.
    def __init__(self, shape: CallShape, unit: str = "") -> None: ...
    def run(self, pointers: tuple[int, ...], threads: int) -> tuple[int, int, int, int] | None: ...
    # None, or (status, index, found, limit) of a refused call.
    @property
    def unit(self) -> str: ...

# Instruction-set units that this machine can run, fastest first.
def available_units() -> list[str]: ...

# to[i] = f(from[i]) over float32 arrays at these addresses, by the named unit; for tests.
def map_exp2(unit: str, source: int, target: int, count: int) -> None: ...
def map_tanh(unit: str, source: int, target: int, count: int) -> None: ...

# to[i] = source[i] through an element type and back.
def map_round(unit: str, dtype: Dtype, source: int, target: int, count: int) -> None: ...

class StateUnit:
    # The state operators for one activation type. Both return False, having changed nothing, when
    # lengths or row numbers address nothing or a row of the pool is written twice.
    def __init__(self, dtype: Dtype, unit: str = "") -> None: ...
    def causal_conv(
        self, sizes: tuple[int, ...], addresses: tuple[int, ...], threads: int
    ) -> bool: ...
    def gated_delta(
        self,
        sizes: tuple[int, ...],
        addresses: tuple[int, ...],
        scale_and_epsilon: tuple[float, float],
        threads: int,
    ) -> bool: ...

DELTA_CHUNK_TOKENS: int
