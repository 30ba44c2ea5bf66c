"""Goal: what inference says of the outputs is what a call with those shapes has.

Method: calls with symbols, and rules with literal messages; calls of any lengths are in
test_inference_lengths.py.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from pa_spec import (
    ContractViolation,
    ElementType,
    PagedAttentionAttributes,
    PagedAttentionInputs,
)
from pa_spec.inference import (
    Extent,
    SymbolicCall,
    SymbolicShape,
    SymbolicTensor,
    infer_head_size,
    infer_outputs,
    is_packed,
)

HALF, INT8, FULL = ElementType.FLOAT16, ElementType.INT8, ElementType.FLOAT32
ALL = (True, True, True, True)
CACHES = (True, True, True)


def tensor(shape: SymbolicShape, element_type: ElementType | None = HALF) -> SymbolicTensor:
    return SymbolicTensor(element_type, shape)


CACHE = tensor(("num_blocks", "block_size", 2, 16))
TABLE = tensor(("batch_size", "max_num_blocks"), ElementType.INT32)
ROWS = tensor(("batch_size",), ElementType.INT32)
SEPARATE = SymbolicCall(
    PagedAttentionAttributes(num_heads=4, kv_num_heads=2),
    PagedAttentionInputs(
        query=tensor(("num_tokens", 64)),
        key=tensor(("num_tokens", 32)),
        value=tensor(("num_tokens", 32)),
        key_cache=CACHE,
        value_cache=CACHE,
        cumulative_sequence_length=ROWS,
        past_seqlens=ROWS,
        block_table=TABLE,
    ),
)


def changed(call: SymbolicCall, **inputs: SymbolicTensor | None) -> SymbolicCall:
    return replace(call, inputs=replace(call.inputs, **inputs))  # type: ignore[arg-type]


def with_attributes(call: SymbolicCall, **values: object) -> SymbolicCall:
    return replace(call, attributes=replace(call.attributes, **values))  # type: ignore[arg-type]


PACKED = changed(SEPARATE, query=tensor(("num_tokens", 128)), key=None, value=None)
LATENT = with_attributes(
    changed(
        SEPARATE,
        query=tensor(("num_tokens", 4 * 48)),
        key=tensor(("num_tokens", 48)),
        value=None,
        key_cache=tensor(("num_blocks", "block_size", 1, 48)),
        value_cache=None,
    ),
    kv_num_heads=1,
    kv_cache_layout="LATENT",
    v_head_size=32,
    scale=0.25,
)


def shapes(call: SymbolicCall, outputs: tuple[bool, ...] = CACHES) -> list[SymbolicShape]:
    return [None if each is None else each.shape for each in infer_outputs(call, outputs)]


def test_symbolic_lengths_stay_symbolic() -> None:
    cache = ("num_blocks", "block_size", 2, 16)

    assert shapes(SEPARATE) == [("num_tokens", 64), cache, cache]
    assert shapes(PACKED) == [("num_tokens", 64), cache, cache]
    assert shapes(LATENT, (True, True)) == [
        ("num_tokens", 128),
        ("num_blocks", "block_size", 1, 48),
    ]


def test_a_symbolic_width_passes_through_where_the_output_has_querys_width() -> None:
    separate = changed(SEPARATE, query=tensor(("num_tokens", "hidden")))
    latent = with_attributes(changed(LATENT, query=tensor(("t", "hidden"))), v_head_size=0)

    assert shapes(separate, (True,)) == [("num_tokens", "hidden")]
    assert shapes(latent, (True,)) == [("t", "hidden")]


def test_a_packed_symbolic_width_takes_the_head_size_from_the_cache() -> None:
    call = changed(PACKED, query=tensor(("num_tokens", "hidden")))

    assert shapes(call, (True,)) == [("num_tokens", 64)]
    assert shapes(changed(call, key_cache=tensor(None)), (True,)) == [("num_tokens", None)]


def test_latent_is_looked_at_before_packing() -> None:
    # Value is absent, as in packed query; the layout decides.
    assert not is_packed(LATENT)
    assert infer_head_size(LATENT) == 48
    assert not is_packed(changed(LATENT, key=None))


def test_the_value_width_makes_a_latent_output_without_any_shape() -> None:
    unknown = changed(LATENT, query=tensor(None), key_cache=tensor(None))

    assert shapes(unknown, (True,)) == [(None, 128)]


def test_cache_outputs_have_the_caches_types() -> None:
    cache = tensor(("num_blocks", 16, 2, 16), INT8)
    found = infer_outputs(changed(SEPARATE, key_cache=cache, value_cache=cache), CACHES)

    assert [each and each.element_type for each in found] == [HALF, INT8, INT8]


def test_a_type_outside_ours_is_passed_on_by_name() -> None:
    other = SymbolicTensor(None, ("t", 64), "float8e5m2")

    assert infer_outputs(changed(SEPARATE, query=other), (True,)) == (other,)


@pytest.mark.parametrize(
    ("table", "cache", "metadata", "context"),
    [
        (("b", 8), ("n", 16, 2, 16), None, 128),
        (("b", "m"), ("n", 16, 2, 16), None, None),
        (("b", 8), ("n", "s", 2, 16), None, None),
        (None, ("n", 16, 2, 16), None, None),
        (("b", 8), ("n", 16, 2, 16), (4, 100, 0), 100),
        (("b", 8), ("n", 16, 2, 16), (4, 0, 0), 128),
        (("b", 8), ("n", 16, 2, 16), (4, 1000), 128),
        (("b", "m"), ("n", 16, 2, 16), (4, 100), None),
        (("b", 8), ("n", 16, 2, 16), (), None),
    ],
)
def test_scores_are_as_wide_as_the_bound_or_the_table(
    table: SymbolicShape,
    cache: SymbolicShape,
    metadata: tuple[int, ...] | None,
    context: Extent,
) -> None:
    bounds = None if metadata is None else tensor((3,), ElementType.INT32)
    call = changed(
        SEPARATE, block_table=tensor(table), key_cache=tensor(cache), attention_metadata=bounds
    )
    call = replace(with_attributes(call, qk_output=1), metadata=metadata, output_qk_type=FULL)

    scores = infer_outputs(call, ALL)[3]

    assert scores == SymbolicTensor(FULL, (4, "num_tokens", context))


def test_empty_names_keep_their_places() -> None:
    call = with_attributes(LATENT, qk_output=2)

    found = infer_outputs(call, (True, False, False, True))

    assert [each is not None for each in found] == [True, False, False, True]
    assert infer_outputs(SEPARATE, (True, False, False)) == (
        tensor(("num_tokens", 64)),
        None,
        None,
    )


# Each: what is wrong, the message, and the nearest call that is accepted.
WRONG: list[object] = [
    pytest.param(
        changed(PACKED, query=tensor(("t", 132))),
        "query: expected a positive width divisible by num_heads + 2 * kv_num_heads = 8, "
        "got [t, 132] (V15)",
        changed(PACKED, query=tensor(("t", 136))),
        id="V15",
    ),
    pytest.param(
        changed(SEPARATE, query=tensor(("t", 66))),
        "query: expected a positive width divisible by num_heads=4, got [t, 66] (V58)",
        changed(SEPARATE, query=tensor(("t", 68))),
        id="V58",
    ),
    pytest.param(
        changed(LATENT, query=tensor((None, 190))),
        "query: expected a positive width divisible by num_heads=4, got [?, 190] (V18)",
        changed(LATENT, query=tensor((None, 192))),
        id="V18",
    ),
    pytest.param(
        with_attributes(LATENT, v_head_size=56),
        "v_head_size: expected 0, or 1 to head_size=48, got 56 (V19)",
        with_attributes(LATENT, v_head_size=48),
        id="V19",
    ),
    pytest.param(
        with_attributes(LATENT, v_head_size=-8),
        "v_head_size: expected 0 (the head size) or a positive width, got -8 (V6)",
        with_attributes(LATENT, v_head_size=8),
        id="V6",
    ),
    pytest.param(
        changed(SEPARATE, query=tensor(("t", 4, 16))),
        "query: expected [T, width], got [t, 4, 16] (V9)",
        changed(SEPARATE, query=tensor(None)),
        id="V9",
    ),
    pytest.param(
        with_attributes(SEPARATE, num_heads=0),
        "num_heads: expected a positive integer, got 0 (V1)",
        with_attributes(SEPARATE, num_heads=2),
        id="V1",
    ),
    pytest.param(
        with_attributes(SEPARATE, kv_num_heads=3),
        "kv_num_heads: expected a positive divisor of num_heads=4, got 3 (V2)",
        with_attributes(SEPARATE, kv_num_heads=4),
        id="V2",
    ),
    pytest.param(
        with_attributes(SEPARATE, kv_cache_layout="latent"),
        "kv_cache_layout: expected one of SEPARATE, LATENT, got 'latent' (V5)",
        SEPARATE,
        id="V5",
    ),
]


@pytest.mark.parametrize(("wrong", "message", "right"), WRONG)
def test_impossible_calls_have_no_outputs(
    wrong: SymbolicCall, message: str, right: SymbolicCall
) -> None:
    with pytest.raises(ContractViolation) as caught:
        infer_outputs(wrong, (True,))

    assert str(caught.value) == message
    assert infer_outputs(right, (True,))[0] is not None
