"""Resolves decoders that list their layers one by one in block_configs (DeciLM)."""

from __future__ import annotations

from pa_spec.checker.huggingface.config.attention import Heads, read_heads
from pa_spec.checker.huggingface.config.field import Fields
from pa_spec.checker.huggingface.config.identity import Identity
from pa_spec.checker.huggingface.config.window import FULL
from pa_spec.checker.huggingface.decoder.dense import MAX_LAYERS, Decoder
from pa_spec.checker.huggingface.rope.family_rope import read_ropes
from pa_spec.checker.meaning import NO_WINDOW, LayerKind, LayerMeaning

_UNREADABLE = ("sparsify", "num_sink_tokens", "unshifted_sink", "is_mamba", "llama4")


def resolve_blocks(identity: Identity) -> Decoder | None:
    """Resolve a decoder layer by layer; None after the findings that say why not.

    transformers has no code for it, so what is returned follows from the file's own words alone
    and is reported as such.
    """
    fields, family = identity.fields, identity.family
    fields.report(
        "config.refused_family",
        "model_type",
        f"{family.model_type}: its modelling code travels with the checkpoint",
    )
    heads = read_heads(fields, family)
    fields.count("max_position_embeddings")
    blocks = fields.raw("block_configs")
    if not isinstance(blocks, list) or not 1 <= len(blocks) <= MAX_LAYERS:
        allowed = f"a list of 1 to {MAX_LAYERS} objects"
        fields.refuse("config.out_of_range", "block_configs", blocks, allowed=allowed)
        return None
    count = fields.raw("num_hidden_layers")
    if count not in (None, len(blocks)):
        allowed = f"{len(blocks)}, as many as block_configs has"
        fields.refuse("config.contradiction", "num_hidden_layers", count, allowed=allowed)
    if fields.is_broken:
        return None
    layers = tuple(_layer(fields, heads, block, index) for index, block in enumerate(blocks))
    rope = read_ropes(fields, family, heads.head_size).get(FULL)
    return None if rope is None else Decoder(layers, (rope,), heads.hidden_size)


def _layer(fields: Fields, heads: Heads, block: object, index: int) -> LayerMeaning:
    written = block.get("attention") if isinstance(block, dict) else None
    name = f"block_configs.{index}.attention"
    if not isinstance(written, dict):
        fields.refuse("config.wrong_type", name, written, case="object")
        return LayerMeaning(LayerKind.NONE)
    nullable = ("n_heads_in_group", "window_length", "no_op", "replace_with_linear")
    inside = fields.inside(name, written, nullable)
    if inside.flag("no_op") or inside.flag("replace_with_linear"):
        return LayerMeaning(LayerKind.NONE)
    for key in _UNREADABLE:
        if inside.raw(key) not in (None, False):
            inside.refuse("config.unsupported", key, inside.raw(key), allowed="null or false")
    group = inside.optional_count("n_heads_in_group")
    if group is None and not inside.is_broken:
        inside.refuse("config.missing", "n_heads_in_group", "nothing")
    if group is not None and heads.num_heads % group:
        allowed = f"a divisor of num_attention_heads={heads.num_heads}"
        inside.refuse("config.contradiction", "n_heads_in_group", group, allowed=allowed)
    return LayerMeaning(
        LayerKind.ATTENTION,
        num_heads=heads.num_heads,
        kv_num_heads=max(heads.num_heads // (group or 1), 1),
        head_size=heads.head_size,
        v_head_size=heads.head_size,
        window=inside.optional_count("window_length") or NO_WINDOW,
        rope=0,
        scale=float(heads.head_size) ** -0.5,
    )
