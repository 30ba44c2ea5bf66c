"""Resolves a config.json to what transformers' own modelling code makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from pa_spec.checker.finding import Findings, Place
from pa_spec.checker.huggingface.config.declared_key import check_declared
from pa_spec.checker.huggingface.config.field import Fields
from pa_spec.checker.huggingface.config.identity import Identity, identify
from pa_spec.checker.huggingface.config.manifest import state_manifest
from pa_spec.checker.huggingface.config.outside import check_outside
from pa_spec.checker.huggingface.config.tie import read_tie
from pa_spec.checker.huggingface.decoder.block import resolve_blocks
from pa_spec.checker.huggingface.decoder.chunked import resolve_chunked
from pa_spec.checker.huggingface.decoder.dense import Decoder, resolve_dense
from pa_spec.checker.huggingface.decoder.latent import resolve_latent
from pa_spec.checker.huggingface.decoder.layer_width import PER_LAYER
from pa_spec.checker.huggingface.decoder.mixed import resolve_mixed
from pa_spec.checker.huggingface.decoder.two_widths import resolve_two_widths
from pa_spec.checker.meaning import ModelMeaning
from pa_spec.element_type import ElementType

_RESOLVERS: Mapping[str, Callable[[Identity, ElementType], Decoder | None]] = MappingProxyType(
    {
        "dense": lambda identity, _: resolve_dense(identity),
        "latent": lambda identity, _: resolve_latent(identity),
        "mixed": resolve_mixed,
        "two_widths": lambda identity, _: resolve_two_widths(identity),
        "chunked": lambda identity, _: resolve_chunked(identity),
        "blocks": lambda identity, _: resolve_blocks(identity),
    }
)
"""By the resolver that a family names in spec/models; it is given the type of activations."""

_OTHER_NAMES = MappingProxyType(
    {
        "half": ElementType.FLOAT16,
        "float": ElementType.FLOAT32,
        "double": ElementType.FLOAT64,
        "float8_e4m3fn": ElementType.FLOAT8E4M3FN,
    }
)
"""Names of torch that ONNX spells otherwise."""

_INTEGERS = (
    ElementType.INT8,
    ElementType.UINT8,
    ElementType.INT32,
    ElementType.INT64,
    ElementType.BOOL,
)
"""Types that no model's parameters are made in."""

_CACHED = (ElementType.FLOAT16, ElementType.BFLOAT16, ElementType.FLOAT32)


def resolve_config(
    config: Mapping[str, Any], findings: Findings, place: Place
) -> ModelMeaning | None:
    """Resolve a configuration; None after the violations that say why it cannot be.

    The ids that end a turn are left out: more files than this one name them.
    """
    identity = identify(config, findings, place)
    if identity is None:
        return None
    fields, outer = identity.fields, identity.outer
    _refuse_per_layer(identity)
    element_type = read_element_type(fields, outer)
    cached = element_type if element_type in _CACHED else ElementType.FLOAT32
    decoder = _RESOLVERS[identity.family.resolver](identity, cached)
    vocab_size = fields.count("vocab_size")
    is_tied = read_tie(identity)
    check_declared(fields, identity.family)
    check_outside(identity)
    if decoder is None or fields.is_broken or outer.is_broken:
        return None
    return ModelMeaning(
        model_type=outer.text("model_type"),
        architecture=identity.architecture,
        family=identity.family.model_type,
        vocab_size=vocab_size,
        hidden_size=decoder.hidden_size,
        context_tokens=_context(fields, decoder),
        layers=decoder.layers,
        ropes=decoder.ropes,
        has_tied_embeddings=is_tied,
        element_type=element_type,
        cache_element_type=cached,
        manifest=state_manifest(decoder, cached, fields),
        final_softcap=decoder.final_softcap,
    )


def _refuse_per_layer(identity: Identity) -> None:
    """Refuse what transformers lets every family say: other values in single layers."""
    if identity.family.resolver != "two_widths" and identity.fields.raw(PER_LAYER):
        allowed = "the same values in all layers, in this family"
        found = identity.fields.raw(PER_LAYER)
        identity.fields.refuse("config.unsupported", PER_LAYER, found, allowed=allowed)


def read_element_type(fields: Fields, outer: Fields) -> ElementType | None:
    """Return the type of the weights, None where no key says it; dtype is the newer key and wins.

    In a nested file the outer keys come first.
    """
    found = _written_type(outer)
    if outer is fields:
        return found
    inside = _written_type(fields)
    if found is not None and inside is not None and found is not inside:
        name, winner = _type_key(fields), _type_key(outer)
        fields.report(
            "config.disagreement",
            name,
            fields.raw(name),
            winner=f"the file's {winner}",
            value=outer.raw(winner),
        )
    return inside if found is None else found


def _type_key(fields: Fields) -> str:
    return "dtype" if "dtype" in fields else "torch_dtype"


def _written_type(fields: Fields) -> ElementType | None:
    older, newer = fields.text("torch_dtype"), fields.text("dtype")
    key = _type_key(fields)
    name = newer or older
    if fields.is_broken or key not in fields:
        return None
    known = {each.value: each for each in ElementType if each not in _INTEGERS}
    known |= _OTHER_NAMES
    if name not in known:
        allowed = f"one of {', '.join(each.value for each in _CACHED)}"
        fields.refuse("config.unknown_value", key, name, allowed=allowed)
        return None
    if older and newer and known.get(older) is not known[newer]:
        fields.report("config.disagreement", "torch_dtype", older, winner="dtype", value=newer)
    return known[name]


def _context(fields: Fields, decoder: Decoder) -> int:
    """Return the positions that the model supports.

    A stretching factor counts where one embedding serves every layer; where layer types have
    their own, max_position_embeddings has it in already.
    """
    written = fields.count("max_position_embeddings")
    return decoder.ropes[0].context_tokens if len(decoder.ropes) == 1 else written
