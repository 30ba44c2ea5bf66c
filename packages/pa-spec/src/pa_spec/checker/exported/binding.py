"""State tensors that templates name, against the graph's real inputs and outputs (V80, V81)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pa_spec.checker.exported.decoder import Decoder
from pa_spec.checker.exported.feed import Feed
from pa_spec.checker.exported.likeness import are_compatible, have_same_type
from pa_spec.checker.exported.template import Template
from pa_spec.checker.finding import Place
from pa_spec.checker.graph.graph import Graph, GraphTensor
from pa_spec.checker.tensor_text import shape_text, type_text
from pa_spec.inference.shape import SymbolicTensor
from pa_spec.state import GroupKind

PAIRS = {
    GroupKind.PAGED_KV: (
        ("past_key_names", "present_key_names"),
        ("past_value_names", "present_value_names"),
    ),
    GroupKind.FIXED_CONV: (("past_conv_names", "present_conv_names"),),
    GroupKind.FIXED_RECURRENT: (("past_recurrent_names", "present_recurrent_names"),),
}
"""The templates of the inputs and outputs that belong together."""

_EXTENTS = ((1, "block_size"), (2, "kv_heads"), (3, "head_size"))


@dataclass(frozen=True, slots=True)
class BoundPair:
    """A state input and its output, both there and content so far."""

    kind: GroupKind
    layer_id: int
    past: GraphTensor
    present: GraphTensor


def bind_state(
    decoder: Decoder, graph: Graph, feed: Feed, blamed: frozenset[str]
) -> tuple[BoundPair, ...]:
    """Return the pairs of tensors that are there, and report V80 for those that are not.

    feed: inputs that were meant to be one of the missing leave it. blamed: names that were spoken
    about already. Layers of LATENT have no value cache.
    """
    latent, declared = _latent_caches(graph), _declared_outputs(graph)
    found: list[BoundPair] = []
    for kind in decoder.manifest.layers:
        for names in PAIRS[kind]:
            templates = [decoder.templates.get(name) for name in names]
            if None in templates:
                continue
            past, present = (each for each in templates if each is not None)
            binding = _Binding(decoder, graph, kind, past, present, latent, declared)
            found += _bind(binding, feed, blamed)
    return tuple(found)


def check_paged_geometry(decoder: Decoder, graph: Graph, pairs: Sequence[BoundPair]) -> None:
    """Check that paged caches are alike, and as the configuration says (V81).

    The configuration's heads are not those of a latent row, whose width its node decides.
    """
    latent = _latent_caches(graph)
    paged = [each for each in pairs if each.kind is GroupKind.PAGED_KV]
    caches = [each for each in paged if each.past.name not in latent]
    ranked: list[BoundPair] = []
    for each in caches:
        shape = each.past.tensor.shape
        if shape is not None and len(shape) != 4:
            place = decoder.section.place("state_groups")
            decoder.findings.add("V81", place, each.past.name, shape_text(shape), case="rank")
        elif shape is not None:
            ranked.append(each)
    for axis, case in _EXTENTS:
        _check_axis(decoder, ranked, axis, case)
    for each in ranked:
        _check_alike(decoder, ranked[0].past, each.past)


@dataclass(frozen=True, slots=True)
class _Binding:
    decoder: Decoder
    graph: Graph
    kind: GroupKind
    past: Template
    present: Template
    latent: frozenset[str]
    declared: Mapping[str, SymbolicTensor]

    def output(self, name: str) -> GraphTensor | None:
        """Return an output as the file declares it, also where its node yields another."""
        found = self.graph.outputs.get(name)
        if found is None or name not in self.declared:
            return found
        return replace(found, tensor=self.declared[name])

    @property
    def is_doubtful(self) -> bool:
        """Whether V82 said that no group is paged: this one's kind may be what is wrong."""
        manifest = self.decoder.manifest
        return not manifest.is_sound and not manifest.num_layers(GroupKind.PAGED_KV)

    def has_no_value(self, layer_id: int) -> bool:
        """Return whether these are value caches and the layer's key cache holds its values too."""
        keys = self.decoder.templates.get("past_key_names")
        is_value = self.past is self.decoder.templates.get("past_value_names")
        return is_value and keys is not None and keys.expand(layer_id) in self.latent

    def layers(self) -> Sequence[int]:
        """Return the layers, no more than a few beyond what the graph can have tensors for."""
        found = self.decoder.manifest.layers[self.kind]
        return found[: len(self.graph.inputs) + len(self.graph.outputs) + 1]


def _latent_caches(graph: Graph) -> frozenset[str]:
    return frozenset(
        each.name
        for node in graph.attention
        if node.attributes.get("kv_cache_layout") in ("LATENT", b"LATENT")
        for each in node.inputs[3:4]
        if each is not None
    )


def _declared_outputs(graph: Graph) -> dict[str, SymbolicTensor]:
    """Return what the file says of the outputs of nodes that keep state."""
    return {
        name: tensor
        for node in (*graph.attention, *graph.state)
        for name, tensor in zip(node.outputs, node.declared, strict=False)
        if name is not None and tensor is not None
    }


def _bind(binding: _Binding, feed: Feed, blamed: frozenset[str]) -> Iterator[BoundPair]:
    absent: dict[str, list[str]] = {"input": [], "output": []}
    for layer_id in binding.layers():
        names = binding.past.expand(layer_id), binding.present.expand(layer_id)
        past, present = binding.graph.inputs.get(names[0]), binding.output(names[1])
        if binding.has_no_value(layer_id):
            continue
        if past is None:
            feed.claim(names[0], is_required=True)
        if not blamed.isdisjoint(names):
            continue
        if past is None:
            absent["input"].append(names[0])
        if present is None:
            absent["output"].append(names[1])
        if past and present and _are_alike(binding, past, present):
            yield BoundPair(binding.kind, layer_id, past, present)
    if not binding.is_doubtful or len(absent["input"]) < len(binding.layers()):
        _report_absent(binding, binding.past, absent["input"], "input")
        _report_absent(binding, binding.present, absent["output"], "output")


def _report_absent(binding: _Binding, template: Template, names: Sequence[str], case: str) -> None:
    if not names:
        return
    place = Place(binding.decoder.section.file, template.key)
    others = f", nor are {len(names) - 1} more of {template.text}" if len(names) > 1 else ""
    section = binding.decoder.inputs if case == "input" else binding.decoder.outputs
    hint = section.hint(template.key.rpartition(".")[2])
    actual = f"no such {case}{others}{hint}"
    binding.decoder.findings.add("V80", place, names[0], actual, case=case)


def _are_alike(binding: _Binding, past: GraphTensor, present: GraphTensor) -> bool:
    findings = binding.decoder.findings
    place = Place(binding.decoder.section.file, binding.present.key)
    left, right = past.tensor, present.tensor
    if not have_same_type(left, right):
        words = {"element_type": type_text(left), "other": past.name}
        findings.add("V80", place, present.name, type_text(right), case="dtype", **words)
        return False
    if not are_compatible(left.shape, right.shape):
        words = {"shape": shape_text(left.shape), "other": past.name}
        actual = shape_text(right.shape)
        findings.add("V80", place, present.name, actual, case="dims", **words)
        return False
    return True


def _check_axis(decoder: Decoder, caches: Sequence[BoundPair], axis: int, case: str) -> None:
    """Report once when the caches' axis is another than the configuration says."""
    wanted = (decoder.block_size, decoder.kv_num_heads, decoder.head_size)[axis - 1]
    if wanted is None:
        return
    other = [each.past for each in caches if _static(each.past, axis) not in (None, wanted)]
    if not other:
        return
    key = {"block_size": "block_size", "kv_heads": "kv_num_heads"}.get(case, "head_size")
    others = f", as have {len(other) - 1} more" if len(other) > 1 else ""
    actual = shape_text(other[0].tensor.shape) + others
    place = decoder.section.place("state_groups")
    decoder.findings.add("V81", place, other[0].name, actual, case=case, **{key: wanted})


def _check_alike(decoder: Decoder, first: GraphTensor, each: GraphTensor) -> None:
    """Compare with the first cache; the number of blocks may differ, as it does with rings."""
    place = decoder.section.place("state_groups")
    if not have_same_type(first.tensor, each.tensor):
        words = {"element_type": type_text(first.tensor), "other": first.name}
        actual = type_text(each.tensor)
        decoder.findings.add("V81", place, each.name, actual, case="dtype", **words)
        return
    agreed = (decoder.block_size, decoder.kv_num_heads, decoder.head_size)
    for axis in range(1, 4):
        left, right = _static(first, axis), _static(each, axis)
        # An axis that the configuration fixes was compared with that.
        if agreed[axis - 1] is None and None not in (left, right) and left != right:
            words = {"shape": shape_text(first.tensor.shape), "other": first.name}
            actual = shape_text(each.tensor.shape)
            decoder.findings.add("V81", place, each.name, actual, case="geometry", **words)
            return


def _static(tensor: GraphTensor, axis: int) -> int | None:
    shape = tensor.tensor.shape
    extent = None if shape is None or len(shape) <= axis else shape[axis]
    return extent if isinstance(extent, int) else None
