"""The page about models: families that the checker resolves, and those it refuses by name."""

from __future__ import annotations

from collections.abc import Iterator

from pa_spec.checker.huggingface.config.family import Family, families, nested_models, refusals
from pa_spec.reference.markdown import code, codes, table


def model_parts() -> Iterator[str]:
    """Yield the parts of the page."""
    yield (
        "`pa-spec check` resolves a config.json by its `model_type` to what transformers' own "
        "modelling code uses; a model type that is on none of these lists is not checked "
        "(config.unknown_family)."
    )
    yield "## Decoders"
    yield table(
        ("model_type", "architectures", "layers", "windows"),
        (_row(family) for _, family in sorted(families().items())),
    )
    yield "## Decoders inside a larger configuration"
    yield table(
        ("model_type", "key of the decoder", "what it is where it does not say"),
        (
            (code(each.model_type), code(each.text_key), code(each.text_model_type))
            for _, each in sorted(nested_models().items())
        ),
    )
    yield "## Refused by name"
    yield table(
        ("model_type", "reason"),
        ((code(each.model_type), each.reason) for _, each in sorted(refusals().items())),
    )


_LAYERS = {
    "dense": "attention",
    "latent": "latent attention",
    "mixed": "attention and fixed state",
    "two_widths": "attention of two widths",
    "chunked": "attention in chunks",
    "blocks": "blocks, each described by itself",
}
_WINDOWS = {
    "none": "none",
    "always": "sliding_window, in every layer",
    "flag": "sliding_window with use_sliding_window, in every layer",
    "upper": "from max_window_layers on, or layer_types",
    "upper_always": "from max_window_layers on, or layer_types",
    "lower_even": "even layers below max_window_layers, or layer_types",
    "pattern": "all but every n-th layer, or layer_types",
    "types": "every layer, or layer_types",
    "no_rope": "layers without rotation, or layer_types",
}


def _row(family: Family) -> tuple[str, ...]:
    layers = _LAYERS.get(family.resolver, family.resolver)
    windows = _WINDOWS.get(family.windows, family.windows)
    return code(family.model_type), codes(family.architectures), layers, windows
