"""Goal: inference agrees with the contract's formulas, and says less, never else, where it must.

Method: any legal call with known lengths; the same with some of them hidden.
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from pa_spec import ElementType, PagedAttentionAttributes, PagedAttentionInputs
from pa_spec.inference import (
    Extent,
    SymbolicCall,
    SymbolicShape,
    SymbolicTensor,
    infer_outputs,
)

FULL = ElementType.FLOAT32


def tensor(shape: SymbolicShape) -> SymbolicTensor:
    return SymbolicTensor(ElementType.FLOAT16, shape)


def shapes(call: SymbolicCall, outputs: tuple[bool, ...]) -> list[SymbolicShape]:
    return [None if each is None else each.shape for each in infer_outputs(call, outputs)]


def concrete(call: SymbolicCall, outputs: tuple[bool, ...]) -> tuple[SymbolicShape, ...]:
    """What the contract's tables say of a call without symbols (sections 4 to 6)."""
    attributes, inputs = call.attributes, call.inputs
    tokens, width = inputs.query.shape or ()
    is_latent = attributes.kv_cache_layout == "LATENT"
    in_row = attributes.num_heads
    if not is_latent and inputs.key is None:
        in_row += 2 * attributes.kv_num_heads
    assert isinstance(width, int)
    head_size = width // in_row
    if is_latent and attributes.v_head_size:
        head_size = attributes.v_head_size
    table, cache = inputs.block_table.shape or (), inputs.key_cache.shape or ()
    assert isinstance(table[1], int)
    assert isinstance(cache[1], int)
    known = (
        (tokens, attributes.num_heads * head_size),
        inputs.key_cache.shape,
        inputs.value_cache.shape if inputs.value_cache else None,
        (attributes.num_heads, tokens, table[1] * cache[1]),
    )
    return tuple(shape if named else None for shape, named in zip(known, outputs, strict=False))


@st.composite
def calls(draw: st.DrawFn) -> tuple[SymbolicCall, tuple[bool, ...]]:
    """Any legal call with lengths that are all known, and a legal list of outputs."""
    mode = draw(st.sampled_from(["separate", "packed", "latent"]))
    kv_heads = 1 if mode == "latent" else draw(st.integers(1, 4))
    heads = kv_heads * draw(st.integers(1, 6))
    head_size = 8 * draw(st.integers(1, 40))
    tokens, rows = draw(st.integers(0, 50)), draw(st.integers(1, 9))
    in_row = heads + 2 * kv_heads if mode == "packed" else heads
    cache = tensor((draw(st.integers(0, 99)), 2 ** draw(st.integers(4, 9)), kv_heads, head_size))
    key = None if mode == "packed" else tensor((tokens, kv_heads * head_size))
    width = 8 * draw(st.integers(0, head_size // 8)) if mode == "latent" else 0
    has_scores, has_caches = draw(st.booleans()), draw(st.booleans())
    is_latent = mode == "latent"
    outputs: tuple[bool, ...] = (True, has_caches, has_caches and not is_latent, has_scores)
    if not has_scores:
        outputs = outputs[: (2 if is_latent else 3) if has_caches else 1]
    attributes = PagedAttentionAttributes(
        num_heads=heads,
        kv_num_heads=kv_heads,
        kv_cache_layout="LATENT" if is_latent else "SEPARATE",
        v_head_size=width,
        qk_output=1 if has_scores else 0,
    )
    inputs = PagedAttentionInputs(
        query=tensor((tokens, in_row * head_size)),
        key=key,
        value=None if is_latent else key,
        key_cache=cache,
        value_cache=None if is_latent else cache,
        cumulative_sequence_length=tensor((rows + 1,)),
        past_seqlens=tensor((rows,)),
        block_table=tensor((rows, draw(st.integers(0, 30)))),
    )
    return SymbolicCall(attributes, inputs, output_qk_type=FULL), outputs


@given(calls())
def test_inference_agrees_with_the_contract_on_known_lengths(
    drawn: tuple[SymbolicCall, tuple[bool, ...]],
) -> None:
    call, outputs = drawn

    assert tuple(shapes(call, outputs)) == concrete(call, outputs)


@given(calls(), st.data())
def test_hidden_lengths_make_inference_say_less_never_else(
    drawn: tuple[SymbolicCall, tuple[bool, ...]], data: st.DataObject
) -> None:
    call, outputs = drawn
    values: dict[str, int] = {}
    hidden: dict[str, SymbolicTensor | None] = {}
    for name, known in call.inputs.named():
        hidden[name] = known
        if known is None or known.shape is None:
            continue
        kind = data.draw(st.sampled_from(["known", "symbols", "unknown", "no rank"]))
        names: tuple[Extent, ...] = tuple(f"{name}{axis}" for axis in range(len(known.shape)))
        if kind == "no rank":
            hidden[name] = tensor(None)
        elif kind != "known":
            mask = data.draw(st.tuples(*(st.booleans() for _ in names)))
            lengths = zip(known.shape, names, mask, strict=True)
            shown = tuple(
                (symbol if kind == "symbols" else None) if hide else extent
                for extent, symbol, hide in lengths
            )
            hidden[name] = tensor(shown)
            pairs = zip(names, known.shape, strict=True)
            values |= {str(symbol): extent for symbol, extent in pairs if isinstance(extent, int)}

    inputs: PagedAttentionInputs[SymbolicTensor] = PagedAttentionInputs(
        **hidden  # type: ignore[arg-type]
    )
    found = shapes(replace(call, inputs=inputs), outputs)

    for shape, expected in zip(found, concrete(call, outputs), strict=True):
        if shape is None or expected is None:
            assert expected is None or shape is None
            continue
        resolved = [values.get(each, each) if isinstance(each, str) else each for each in shape]
        for extent, length in zip(resolved, expected, strict=True):
            assert extent is None or extent == length
