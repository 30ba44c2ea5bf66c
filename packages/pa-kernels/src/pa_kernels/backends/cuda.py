"""The compiled CUDA kernels. Import it only where `cuda_build.cuda_unavailable()` is None."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from pa_spec import ContractViolation, PagedAttentionError
from torch import Tensor

from pa_kernels import _cuda

_ELEMENT_TYPES = {
    torch.float16: _cuda.ElementType.FLOAT16,
    torch.bfloat16: _cuda.ElementType.BFLOAT16,
}
_MIN_BLOCK_SIZE = 16


class CudaLaunchFailed(PagedAttentionError):
    """A kernel could not be launched; carries the launcher's code and the runtime's."""

    def __init__(self, kernel: str, code: int, cuda_error: int) -> None:
        super().__init__(f"{kernel}: launcher status {code}, cudaError_t {cuda_error}")
        self.code = code
        self.cuda_error = cuda_error


@dataclass(frozen=True, slots=True)
class TablePlaces:
    """Where tokens belong when the caller has no slots: device tensors, all int32.

    cumulative_sequence_length: [B+1]. past_seqlens: [B]. block_table: [B, M].
    """

    cumulative_sequence_length: Tensor
    past_seqlens: Tensor
    block_table: Tensor


def store_kv(
    key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slots: Tensor
) -> None:
    """Write one step's keys and values into their slots.

    key, value: [T, K, D] half | bfloat16; heads contiguous, tokens may be strided.
    key_cache, value_cache: [N, S, K, D], contiguous, written in place.
    slots: [T] int32; -1 and slots outside the pool leave it untouched (input 10).

    Runs on the current stream and does not wait. Raises ContractViolation when a shape (V10, V12,
    V14, V28 to V31, V35), an element type (V98), a device (V102) or a stride (V103) differs.
    """
    params = _params_of(key, value, key_cache, value_cache)
    _check_index("slots", slots, key.device)
    if slots.shape != key.shape[:1]:
        raise ContractViolation("V35", "slots", f"[T={key.shape[0]}]", f"{list(slots.shape)}")
    params.slots = slots.data_ptr()
    params.slot_source = _cuda.SlotSource.GIVEN
    _launch(params, key.device)


def store_kv_by_table(
    key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, places: TablePlaces
) -> None:
    """Write one step's keys and values where the block tables put them.

    As `store_kv`, but the slot of token j of row b is that of position past_seqlens[b] + j.
    Tokens in unmapped blocks, beyond the table or behind the last boundary are not stored.
    """
    params = _params_of(key, value, key_cache, value_cache)
    _check_places(places, key.device)
    table = places.block_table
    params.cumulative = places.cumulative_sequence_length.data_ptr()
    params.past = places.past_seqlens.data_ptr()
    params.block_table = table.data_ptr()
    params.batch_size, params.table_columns = table.shape
    params.table_stride = table.stride(0)
    params.slot_source = _cuda.SlotSource.BLOCK_TABLE
    _launch(params, key.device)


def _params_of(
    key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor
) -> _cuda.StoreKvParams:
    _check_caches(key_cache, value_cache)
    _check_tokens("key", key, key_cache, "V12")
    _check_tokens("value", value, key_cache, "V14")
    if value.shape != key.shape:
        raise ContractViolation("V14", "value", f"{list(key.shape)}", f"{list(value.shape)}")
    params = _cuda.StoreKvParams()
    params.key = key.data_ptr()
    params.value = value.data_ptr()
    params.key_cache = key_cache.data_ptr()
    params.value_cache = value_cache.data_ptr()
    params.num_tokens = key.shape[0]
    params.num_blocks, params.block_size, kv_num_heads, head_size = key_cache.shape
    params.row_elements = kv_num_heads * head_size
    params.key_stride = key.stride(0)
    params.value_stride = value.stride(0)
    params.element_type = _ELEMENT_TYPES[key.dtype]
    return params


def _check_caches(key_cache: Tensor, value_cache: Tensor) -> None:
    for name, cache in (("key_cache", key_cache), ("value_cache", value_cache)):
        if cache.dim() != 4:
            raise ContractViolation("V28", name, "[N, S, K, D]", f"{list(cache.shape)}")
        if not cache.is_contiguous():
            raise ContractViolation("V103", name, "contiguous", f"strides {cache.stride()}")
        if cache.device.type != "cuda":
            raise ContractViolation("V102", name, "on a CUDA device", f"{cache.device}")
    if key_cache.dtype not in _ELEMENT_TYPES:
        raise ContractViolation("V98", "key_cache", "float16 or bfloat16", f"{key_cache.dtype}")
    block_size, head_size = key_cache.shape[1], key_cache.shape[3]
    if block_size < _MIN_BLOCK_SIZE or block_size & (block_size - 1):
        expected = f"a power of two of at least {_MIN_BLOCK_SIZE} slots"
        raise ContractViolation("V29", "key_cache", expected, f"{block_size}")
    if head_size % 8:
        raise ContractViolation("V10", "key_cache", "D divisible by 8", f"{head_size}")
    if value_cache.shape != key_cache.shape:
        expected, actual = f"{list(key_cache.shape)}", f"{list(value_cache.shape)}"
        raise ContractViolation("V31", "value_cache", expected, actual)
    _check_like("value_cache", value_cache, key_cache)


def _check_tokens(name: str, tokens: Tensor, cache: Tensor, rule_id: str) -> None:
    heads = tuple(cache.shape[2:])
    if tokens.dim() != 3 or tuple(tokens.shape[1:]) != heads:
        expected = f"[T, K={heads[0]}, D={heads[1]}]"
        raise ContractViolation(rule_id, name, expected, f"{list(tokens.shape)}")
    if tokens.shape[0] > 0 and not tokens[0].is_contiguous():
        raise ContractViolation("V103", name, "contiguous heads", f"strides {tokens.stride()}")
    _check_like(name, tokens, cache)


def _check_like(name: str, tensor: Tensor, cache: Tensor) -> None:
    if tensor.dtype != cache.dtype:
        raise ContractViolation("V98", name, f"{cache.dtype} like key_cache", f"{tensor.dtype}")
    if tensor.device != cache.device:
        raise ContractViolation("V102", name, f"on {cache.device}", f"{tensor.device}")


def _check_index(name: str, index: Tensor, device: torch.device) -> None:
    if index.dtype != torch.int32:
        raise ContractViolation("V98", name, "int32", f"{index.dtype}")
    if index.device != device:
        raise ContractViolation("V102", name, f"on {device}", f"{index.device}")
    if index.dim() and index.shape[-1] > 1 and index.stride(-1) != 1:
        raise ContractViolation("V103", name, "innermost contiguous", f"strides {index.stride()}")


def _check_places(places: TablePlaces, device: torch.device) -> None:
    boundaries, past, table = (
        places.cumulative_sequence_length,
        places.past_seqlens,
        places.block_table,
    )
    _check_index("cumulative_sequence_length", boundaries, device)
    _check_index("past_seqlens", past, device)
    _check_index("block_table", table, device)
    if past.dim() != 1 or past.shape[0] == 0:
        raise ContractViolation("V33", "past_seqlens", "[B]", f"{list(past.shape)}")
    rows = past.shape[0]
    if boundaries.shape != (rows + 1,):
        expected, actual = f"[B+1={rows + 1}]", f"{list(boundaries.shape)}"
        raise ContractViolation("V32", "cumulative_sequence_length", expected, actual)
    if table.dim() != 2 or table.shape[0] != rows:
        raise ContractViolation("V34", "block_table", f"[B={rows}, M]", f"{list(table.shape)}")


def _launch(params: _cuda.StoreKvParams, device: torch.device) -> None:
    with torch.cuda.device(device):
        params.stream = torch.cuda.current_stream(device).cuda_stream
        code, cuda_error = _cuda.store_kv(params)
    if code:
        raise CudaLaunchFailed("store_kv", code, cuda_error)
