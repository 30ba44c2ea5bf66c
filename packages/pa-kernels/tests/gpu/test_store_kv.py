"""store_kv on a device equals the oracle bit for bit, and touches nothing else.

Problems are drawn with shuffled and shared blocks, tokens that must not be stored, zero-token rows
and strided rows; the pools lie inside larger buffers whose margins must keep their pattern.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from pa_kernels.backends.cuda_build import cuda_unavailable
from pa_kernels.reference.prologue import Heads, store
from pa_kernels.reference.rows import token_places
from pa_kernels.testing import PagedProblem, random_options, random_paged_problem
from pa_spec import ContractViolation
from torch import Tensor

_REASON = cuda_unavailable()
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(_REASON is not None, reason=f"needs a CUDA build and device: {_REASON}"),
]
if _REASON is None:
    from pa_kernels.backends.cuda import TablePlaces, store_kv, store_kv_by_table

CASES = [(seed, dtype) for seed in range(24) for dtype in (torch.float16, torch.bfloat16)]
_MARGIN = 4096


def _bits(tensor: Tensor) -> Tensor:
    return tensor.contiguous().view(torch.int16).cpu()


def _tokens(problem: PagedProblem) -> tuple[Tensor, Tensor]:
    """Key and value as [T, K, D] views, strided as the problem has them."""
    options, inputs = problem.options, problem.inputs
    shape = (inputs.query.shape[0], options.kv_num_heads, options.head_size)
    if inputs.key is not None and inputs.value is not None:
        return inputs.key.view(shape), inputs.value.view(shape)
    first = options.num_heads * options.head_size
    width = options.kv_num_heads * options.head_size
    key = inputs.query[:, first : first + width]
    value = inputs.query[:, first + width : first + 2 * width]
    return key.view(shape), value.view(shape)


def _expected(problem: PagedProblem, slot: Tensor) -> tuple[Tensor, Tensor]:
    """The caches after the oracle has stored the tokens."""
    own = problem.clone()
    key, value = _tokens(own)
    heads = Heads(key.float(), key.float(), value.float())
    store(heads, own.inputs, slot)
    assert own.inputs.value_cache is not None
    return own.inputs.key_cache, own.inputs.value_cache


def _guarded(cache: Tensor) -> tuple[Tensor, Tensor]:
    """A copy of the cache on the device inside a buffer with margins, and the buffer."""
    buffer = torch.full((cache.numel() + 2 * _MARGIN,), -77.0, dtype=cache.dtype, device="cuda")
    view = buffer[_MARGIN:-_MARGIN].view(cache.shape)
    view.copy_(cache)
    return view, buffer


def _margins_are_untouched(buffer: Tensor) -> bool:
    return bool((buffer[:_MARGIN] == -77.0).all() and (buffer[-_MARGIN:] == -77.0).all())


def _draw(seed: int, dtype: torch.dtype, *, slots: bool) -> PagedProblem:
    options = replace(
        random_options(seed, dtype), has_slot_mapping=slots, has_qk_norm=False, rotary_dim=0
    )
    return random_paged_problem(seed, options)


@pytest.mark.parametrize(("seed", "dtype"), CASES)
def test_given_slots_store_what_the_oracle_stores(seed: int, dtype: torch.dtype) -> None:
    problem = _draw(seed, dtype, slots=True)
    inputs = problem.inputs
    assert inputs.value_cache is not None
    assert inputs.slot_mapping is not None
    expected_key, expected_value = _expected(problem, token_places(inputs).slot)
    key_cache, key_buffer = _guarded(inputs.key_cache)
    value_cache, value_buffer = _guarded(inputs.value_cache)
    key, value = _tokens(problem.clone("cuda"))

    store_kv(key, value, key_cache, value_cache, inputs.slot_mapping.cuda())

    assert torch.equal(_bits(key_cache), _bits(expected_key))
    assert torch.equal(_bits(value_cache), _bits(expected_value))
    assert _margins_are_untouched(key_buffer)
    assert _margins_are_untouched(value_buffer)


@pytest.mark.parametrize(("seed", "dtype"), CASES)
def test_derived_slots_store_what_the_oracle_stores(seed: int, dtype: torch.dtype) -> None:
    problem = _draw(seed, dtype, slots=False)
    inputs = problem.inputs
    assert inputs.value_cache is not None
    expected_key, expected_value = _expected(problem, token_places(inputs).slot)
    key_cache, key_buffer = _guarded(inputs.key_cache)
    value_cache, value_buffer = _guarded(inputs.value_cache)
    key, value = _tokens(problem.clone("cuda"))
    places = TablePlaces(
        inputs.cumulative_sequence_length.cuda(),
        inputs.past_seqlens.cuda(),
        inputs.block_table.cuda(),
    )

    store_kv_by_table(key, value, key_cache, value_cache, places)

    assert torch.equal(_bits(key_cache), _bits(expected_key))
    assert torch.equal(_bits(value_cache), _bits(expected_value))
    assert _margins_are_untouched(key_buffer)
    assert _margins_are_untouched(value_buffer)


@pytest.mark.parametrize("offset", [0, 1, 4])
def test_rows_at_any_address_are_stored(offset: int) -> None:
    # 1 and 4 elements off a 16-byte boundary: the narrow path.
    pool = torch.randn(10 * 2 * 24 + 8, device="cuda").to(torch.bfloat16)
    key = pool[offset : offset + 480].view(10, 2, 24)
    caches = [torch.zeros(2, 16, 2, 24, dtype=torch.bfloat16, device="cuda") for _ in range(2)]
    slots = torch.randperm(32, device="cuda")[:10].int()

    store_kv(key, key, caches[0], caches[1], slots)

    for cache in caches:
        assert torch.equal(cache.flatten(0, 1)[slots.long()], key)
        assert int((cache != 0).any(dim=-1).any(dim=-1).sum()) == 10


def test_slots_outside_the_pool_are_not_stored() -> None:
    key = torch.ones(5, 1, 16, dtype=torch.float16, device="cuda")
    caches = [torch.zeros(1, 16, 1, 16, dtype=torch.float16, device="cuda") for _ in range(2)]
    slots = torch.tensor([-1, 16, -(2**31), 2**31 - 1, 15], dtype=torch.int32, device="cuda")

    store_kv(key, key, caches[0], caches[1], slots)

    for cache in caches:
        assert torch.equal(cache[0, :, 0, 0].nonzero().flatten().cpu(), torch.tensor([15]))


def test_tokens_behind_the_last_boundary_are_not_stored() -> None:
    key = torch.ones(8, 1, 16, dtype=torch.float16, device="cuda")
    caches = [torch.zeros(4, 16, 1, 16, dtype=torch.float16, device="cuda") for _ in range(2)]

    def index(values: list[int]) -> Tensor:
        return torch.tensor(values, dtype=torch.int32, device="cuda")

    # Row 0 has no token, row 1 two, row 2 one whose position lies beyond its table.
    places = TablePlaces(index([0, 0, 2, 3]), index([0, 15, 32]), index([0] * 6).view(3, 2))
    places.block_table.copy_(torch.tensor([[3, 3], [2, 1], [0, 0]]))
    store_kv_by_table(key, key, caches[0], caches[1], places)

    for cache in caches:
        stored = cache.flatten(0, 1)[:, 0, 0].nonzero().flatten().cpu()
        assert torch.equal(stored, torch.tensor([16, 2 * 16 + 15]))


def test_offsets_beyond_32_bits_are_reached() -> None:
    heads, size, block_size = 8, 128, 256
    blocks = (2**31) // (heads * size * block_size) + 2
    shape = (blocks, block_size, heads, size)
    key_cache = torch.zeros(shape, dtype=torch.bfloat16, device="cuda")
    value_cache = torch.zeros(shape, dtype=torch.bfloat16, device="cuda")
    key = torch.randn(3, heads, size, device="cuda").to(torch.bfloat16)
    last = blocks * block_size - 1
    slots = torch.tensor([last, last - 1, 5], dtype=torch.int32, device="cuda")

    store_kv(key, key, key_cache, value_cache, slots)

    assert torch.equal(key_cache.flatten(0, 1)[slots.long()], key)
    assert torch.equal(value_cache.flatten(0, 1)[slots.long()], key)
    assert int(torch.count_nonzero(key_cache)) == int(torch.count_nonzero(key))


def test_a_captured_launch_reads_the_slots_of_its_replay() -> None:
    key = torch.randn(4, 2, 32, device="cuda").half()
    caches = [torch.zeros(4, 16, 2, 32, dtype=torch.float16, device="cuda") for _ in range(2)]
    slots = torch.arange(4, dtype=torch.int32, device="cuda")
    store_kv(key, key, caches[0], caches[1], slots)  # loads the kernel before the capture
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        store_kv(key, key, caches[0], caches[1], slots)
    for cache in caches:
        cache.zero_()

    slots.copy_(torch.tensor([60, -1, 7, 33], dtype=torch.int32))
    graph.replay()
    torch.cuda.synchronize()

    stored = caches[1].flatten(0, 1)
    assert torch.equal(stored[[60, 7, 33]], key[[0, 2, 3]])
    assert int((stored != 0).any(dim=-1).any(dim=-1).sum()) == 3


def _refused(rule_id: str, *, key: Tensor, cache: Tensor, slots: Tensor) -> None:
    before = cache.clone()
    with pytest.raises(ContractViolation) as caught:
        store_kv(key, key, cache, cache, slots)
    assert caught.value.rule_id == rule_id
    assert torch.equal(cache, before)


@pytest.mark.spec("V10", "V12", "V28", "V29", "V35", "V98", "V102", "V103")
def test_a_bad_call_names_its_rule_and_stores_nothing() -> None:
    key = torch.ones(3, 2, 16, dtype=torch.float16, device="cuda")
    cache = torch.zeros(2, 16, 2, 16, dtype=torch.float16, device="cuda")
    slots = torch.arange(3, dtype=torch.int32, device="cuda")
    _refused("V12", key=key[:, :1], cache=cache, slots=slots)
    _refused("V28", key=key, cache=cache[0], slots=slots)
    _refused("V29", key=key, cache=cache[:, :8].contiguous(), slots=slots)
    _refused("V10", key=key[..., :12], cache=cache[..., :12].contiguous(), slots=slots)
    _refused("V35", key=key, cache=cache, slots=slots[:2])
    _refused("V98", key=key, cache=cache, slots=slots.long())
    _refused("V98", key=key.float(), cache=cache.float(), slots=slots)
    _refused("V98", key=key.bfloat16(), cache=cache, slots=slots)
    _refused("V102", key=key, cache=cache, slots=slots.cpu())
    _refused("V103", key=key.transpose(1, 2).contiguous().transpose(1, 2), cache=cache, slots=slots)
    _refused("V103", key=key, cache=cache.transpose(0, 1), slots=slots)
