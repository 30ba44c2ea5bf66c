"""What `model.decoder` of a configuration says, as far as it can be used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pa_spec.checker.exported.manifest import Manifest, read_manifest
from pa_spec.checker.exported.section import Section, as_int
from pa_spec.checker.exported.template import Template, read_templates
from pa_spec.checker.finding import Findings
from pa_spec.checker.setting import is_given, setting_value
from pa_spec.checker.text import shown

CONFIG_FILE = "genai_config.json"

_REQUIRED = ("filename", "num_hidden_layers", "num_key_value_heads", "head_size")


@dataclass(frozen=True, slots=True)
class Decoder:
    """A decoder's configuration; None stands for what is not given or was reported as unusable.

    section, inputs, outputs: the JSON objects. is_dynamic: the engine's dynamic path is selected.
    block_size: token slots of a block. templates: usable ones, by binding name. window: the object
    `sliding_window`.
    """

    section: Section
    inputs: Section
    outputs: Section
    is_dynamic: bool
    block_size: int | None
    num_layers: int | None
    num_heads: int | None
    kv_num_heads: int | None
    head_size: int | None
    manifest: Manifest
    templates: Mapping[str, Template]
    window: Section | None = None

    @property
    def findings(self) -> Findings:
        """Where everything about it is reported."""
        return self.section.findings


def read_decoder(root: Section) -> Decoder | None:
    """Read `model.decoder`, or report why it cannot be."""
    model = root.section("model")
    if model is None:
        if not root.has("model"):
            root.missing("model", "root")
        return None
    model.check_keys(required=("decoder", "vocab_size", "context_length"))
    model.text("type")
    for name in ("encoder", "embedding", "vision", "speech"):
        model.section(name)
    decoder = model.section("decoder")
    if decoder is None:
        if not model.has("decoder"):
            model.missing("decoder")
        return None
    decoder.check_keys(required=_REQUIRED)
    _check_unused(decoder)
    inputs, outputs = _names(decoder, "inputs"), _names(decoder, "outputs")
    if inputs is None or outputs is None:
        return None
    is_dynamic = _is_dynamic(root)
    num_layers = _extent(decoder, "num_hidden_layers")
    manifest = read_manifest(decoder, num_layers, is_dynamic=is_dynamic)
    block_size = None
    if is_given(root.values, "engine.dynamic_batching"):
        block_size = setting_value(root.values, "engine.dynamic_batching.block_size")
    return Decoder(
        section=decoder,
        inputs=inputs,
        outputs=outputs,
        is_dynamic=is_dynamic,
        block_size=None if block_size is None else int(block_size),
        num_layers=num_layers,
        num_heads=_extent(decoder, "num_attention_heads", is_required=False),
        kv_num_heads=_extent(decoder, "num_key_value_heads"),
        head_size=_extent(decoder, "head_size"),
        manifest=manifest,
        templates=read_templates(manifest.kinds, inputs, outputs),
        window=_window(decoder),
    )


def _check_unused(decoder: Section) -> None:
    """Check values that nothing here depends on, as readers do."""
    decoder.integer("hidden_size")
    decoder.integer("conv_cache_size", least=0)
    decoder.integer("state_update_capacity", least=0)
    decoder.section("run_options")
    kinds = decoder.values.get("layer_types", [])
    if not isinstance(kinds, list) or not all(isinstance(each, str) for each in kinds):
        decoder.wrong("layer_types", "texts")


def _is_dynamic(root: Section) -> bool:
    """Return whether the dynamic path is selected; V74 spoke about an engine that is no object."""
    if not root.has("engine"):
        return False
    engine = root.values["engine"]
    return not isinstance(engine, Mapping) or "dynamic_batching" in engine


def _window(decoder: Section) -> Section | None:
    found = decoder.section("sliding_window")
    if found is not None:
        found.check_keys()
    return found


def _names(decoder: Section, name: str) -> Section | None:
    """Return `inputs` or `outputs`; where it is not given every name is the default one."""
    if decoder.has(name):
        return decoder.section(name)
    return Section({}, decoder.place(name).inside, decoder.file, decoder.findings)


def _extent(decoder: Section, name: str, *, is_required: bool = True) -> int | None:
    """Return a number of the decoder's geometry (V82 where it is not positive)."""
    if not decoder.has(name):
        if is_required:
            decoder.missing(name)
        return None
    value = as_int(decoder.values[name])
    if value is not None and value < 1:
        actual = shown(decoder.values[name])
        decoder.findings.add("V82", decoder.place(name), name, actual, case="extent")
        return None
    return decoder.integer(name)
