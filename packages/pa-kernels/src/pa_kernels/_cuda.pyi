# The compiled CUDA kernels. Pointers are addresses; 0 is an absent input.

from enum import Enum

class ElementType(Enum):
    FLOAT16 = 0
    BFLOAT16 = 1

class SlotSource(Enum):
    GIVEN = 0
    BLOCK_TABLE = 1

class StoreKvParams:
    # One launch of store_kv: addresses, sizes, strides in elements.
    key: int
    value: int
    key_cache: int
    value_cache: int
    slots: int
    cumulative: int
    past: int
    block_table: int
    stream: int
    num_tokens: int
    row_elements: int
    key_stride: int
    value_stride: int
    num_blocks: int
    block_size: int
    batch_size: int
    table_columns: int
    table_stride: int
    element_type: ElementType
    slot_source: SlotSource

# (status code, cudaError_t); 0 is success, 1 no instantiation, 2 a failed launch.
def store_kv(params: StoreKvParams) -> tuple[int, int]: ...

# Bytes of the vectors that the launch would move, 0 = it has no instantiation.
def store_kv_vector_bytes(params: StoreKvParams) -> int: ...
