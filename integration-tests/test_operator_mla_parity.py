"""transformers' DeepSeek-V2 and V3 attention agree with LATENT and SEPARATE on every backend.

Method: the module's own forward with its own cache, sequence by sequence, against packed calls over
shuffled blocks: prompts, chunks and decode steps, YaRN with both its factors. Absorbed, and not
absorbed (values padded with zeros to the width of keys). In-op rotation has the bits of the model's
own; V2's multiplies complex numbers in an order of its own, so for it quarter turns must agree,
which make every product exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from dense_rows import context_of, dense_rows
from every_backend import bits, eligible
from gqa_oracle import Attribute, group_query_attention, lengths
from latent_oracle import LatentLayer, LatentSizes
from latent_side import (
    MAX_TOKENS,
    LayerForm,
    LayerSide,
    absorbed_form,
    decompressed_form,
    without_rotary,
)
from pa_kernels import signature_of
from pa_kernels.testing import ProblemOptions, expect_close, random_paged_problem
from torch import Tensor
from transformers import DynamicCache
from transformers.models.deepseek_v2.modeling_deepseek_v2 import apply_rotary_emb
from transformers.models.deepseek_v3.modeling_deepseek_v3 import (
    apply_rotary_pos_emb,
    apply_rotary_pos_emb_interleave,
)

FAMILIES = ("v2", "v3 pairs", "v3 halves")
STEPS = ((13, 1, 33), (1, 20, 1), (1, 1, 1), (9, 1, 1), (1, 17, 0), (1, 1, 1))
"""New tokens of three sequences; blocks of 16, so that prompts and chunks cross their edges."""
LITE_YARN = {"factor": 40.0, "mscale": 0.707, "mscale_all_dim": 0.707}
SIZES = {
    "small": LatentSizes(),
    "no query latent": LatentSizes(query_latent=None, yarn=LITE_YARN),
    "wide latent": LatentSizes(num_heads=3, latent=64, nope=24, rope=16, value=40),
    "factor of one": LatentSizes(yarn={"factor": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0}),
}
REAL = LatentSizes(
    num_heads=16, latent=512, nope=128, rope=64, value=128, hidden=256, yarn=LITE_YARN
)
"""DeepSeek-V2-Lite's heads: rows of 576, of which 512 are values."""
FORMS = {"absorbed": absorbed_form, "not absorbed": decompressed_form}
Form = Callable[[LatentLayer], LayerForm]


def expect_parity(layer: LatentLayer, form: LayerForm, steps: tuple[tuple[int, ...], ...]) -> None:
    """Run the steps on both sides, each with its own caches, and compare after every one."""
    generator = torch.Generator().manual_seed(8)
    drawn = [
        [torch.randn(count, layer.sizes.hidden, generator=generator) for count in step]
        for step in steps
    ]
    expected = module_outputs(layer, drawn)
    first = LayerSide(layer, form, len(steps[0])).inputs(drawn[0])
    for kernel in eligible(signature_of(first, form.attributes)):
        side = LayerSide(layer, form, len(steps[0]))
        for hidden, wanted in zip(drawn, expected, strict=True):
            expect_close(side.step(hidden, kernel), wanted)


def module_outputs(layer: LatentLayer, drawn: list[list[Tensor]]) -> list[Tensor]:
    """Return the module's own output of every step, its sequences packed."""
    caches = [DynamicCache() for _ in drawn[0]]
    past = [0] * len(caches)
    outputs = []
    for step in drawn:
        rows = []
        for index, hidden in enumerate(step):
            if len(hidden):
                rows.append(layer.forward(hidden, past[index], caches[index]))
            past[index] += len(hidden)
        outputs.append(torch.cat(rows))
    return outputs


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_layer_gives_what_the_module_gives(family: str, sizes: LatentSizes, form: Form) -> None:
    layer = LatentLayer(family, sizes)

    expect_parity(layer, form(layer), STEPS)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_layer_of_real_sizes_gives_what_the_module_gives(family: str, form: Form) -> None:
    layer = LatentLayer(family, REAL)

    expect_parity(layer, form(layer), ((19, 40), (1, 1), (7, 1), (1, 1)))


@pytest.mark.spec("V21")
@pytest.mark.parametrize("sizes", [*SIZES.values(), REAL], ids=[*SIZES, "real"])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_scale_is_of_the_decompressed_width(family: str, sizes: LatentSizes) -> None:
    layer = LatentLayer(family, sizes)

    assert layer.scale == pytest.approx(layer.module.scaling, rel=1e-12)


def graph_rotated(family: str, heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotate [T, heads, rope] as the model's graph does; pairs stay beside each other."""
    part = heads.transpose(0, 1)[None]
    if family == "v2":
        turned = apply_rotary_emb(part, part, torch.complex(cosine, sine)[None])[0]
        return torch.as_tensor(turned)[0].transpose(0, 1)
    doubled = [torch.cat((each, each), dim=-1)[None] for each in (cosine, sine)]
    if family == "v3 halves":
        return torch.as_tensor(apply_rotary_pos_emb(part, part, *doubled)[0])[0].transpose(0, 1)
    # This one leaves the pairs' first members before the second ones.
    turned = torch.as_tensor(apply_rotary_pos_emb_interleave(part, part, *doubled)[0])
    pairs = turned[0].reshape(*turned.shape[1:3], 2, -1).transpose(-1, -2)
    return pairs.flatten(-2).transpose(0, 1)


@pytest.mark.parametrize("is_exact", [False, True], ids=["yarn", "quarter turns"])
@pytest.mark.parametrize("family", FAMILIES)
def test_rotation_in_the_operator_is_that_of_the_graph(family: str, *, is_exact: bool) -> None:
    layer = LatentLayer(family, SIZES["wide latent"])
    attributes = layer.absorbed_attributes
    hidden = torch.randn(40, layer.sizes.hidden, generator=torch.Generator().manual_seed(3))
    cosine, sine = layer.rotary_tables(MAX_TOKENS)
    if is_exact:
        quarter = (torch.arange(MAX_TOKENS)[:, None] * (1 + torch.arange(cosine.shape[1]))) % 4
        cosine = torch.tensor([1.0, 0.0, -1.0, 0.0])[quarter]
        sine = torch.tensor([0.0, 1.0, 0.0, -1.0])[quarter]
    side = LayerSide(layer, absorbed_form(layer), 1)
    inputs = replace(side.inputs([hidden]), cos_cache=cosine, sin_cache=sine)
    for kernel in eligible(signature_of(inputs, attributes)):
        own = replace(inputs, key_cache=inputs.key_cache.clone())
        output = kernel.run(own, attributes).output

        plain, plain_attributes = without_rotary(inputs, attributes)
        turned = replace(plain, key_cache=inputs.key_cache.clone())
        heads = []
        for name in ("query", "key"):
            flat = getattr(inputs, name)
            each = flat.reshape(40, -1, layer.sizes.latent + layer.sizes.rope)
            still, part = each[..., : layer.sizes.latent], each[..., layer.sizes.latent :]
            part = graph_rotated(family, part, cosine[:40], sine[:40])
            heads.append(torch.cat((still, part), dim=-1).flatten(1))
        turned = replace(turned, query=heads[0], key=heads[1])
        expected = kernel.run(turned, plain_attributes).output

        expect_close(output, expected)
        expect_close(own.key_cache, turned.key_cache)
        # torch multiplies complex numbers, V2's way, in an order of its own.
        if is_exact or family != "v2":
            assert torch.equal(output, expected)
            assert torch.equal(bits(own.key_cache + 0.0), bits(turned.key_cache + 0.0))


@pytest.mark.parametrize("quant_type", ["PER_TENSOR", "PER_CHANNEL"])
@pytest.mark.parametrize("cache_dtype", [torch.int8, torch.float8_e4m3fn], ids=["int8", "fp8"])
@pytest.mark.parametrize("head_size", [40, 576])
def test_a_quantized_latent_cache_agrees_with_grouped_query_attention(
    head_size: int, cache_dtype: torch.dtype, quant_type: str
) -> None:
    """ONNX Runtime's node has no latent layout: its values are whole rows, of which ours are the
    beginning."""
    width = 512 if head_size == 576 else 32
    options = ProblemOptions(
        cache_dtype=cache_dtype,
        quant_type=quant_type,
        num_heads=4,
        kv_num_heads=1,
        head_size=head_size,
        v_head_size=width,
        scale=0.1,
        softcap=6.0,
        window_tokens=21,
        rows=((0, 19), (18, 6), (37, 1)),
    )
    problem = random_paged_problem(head_size, options)
    attributes: dict[str, Attribute] = {
        "num_heads": 4,
        "kv_num_heads": 1,
        "scale": 0.1,
        "softcap": 6.0,
        "local_window_size": 21,
    }
    for kernel in eligible(problem.signature):
        own = problem.clone()
        output = kernel.output(own)
        for row in dense_rows(problem):
            context = context_of(own.inputs.key_cache, own.inputs.k_scale, row)
            past, new = context[: row.past].transpose(0, 1)[None], context[row.past :].flatten(1)
            tensors = {"query": problem.inputs.query[row.tokens][None]}
            tensors |= {"key": new[None], "value": new[None], "past_key": past, "past_value": past}
            tensors |= lengths(row.past, row.new)
            found = group_query_attention(tensors, attributes)["output"]
            heads = found[0].reshape(row.new, 4, head_size)[..., :width]
            expect_close(output[row.tokens], heads.flatten(1))
