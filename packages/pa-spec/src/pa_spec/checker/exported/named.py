"""The inputs and outputs of a step beside state, against the graph's (V80, V96, V97)."""

from __future__ import annotations

from collections.abc import Sequence

from pa_spec.checker.exported.decoder import Decoder
from pa_spec.checker.exported.feed import Feed
from pa_spec.checker.exported.section import Section
from pa_spec.checker.graph.graph import Graph, GraphTensor
from pa_spec.checker.tensor_text import shape_text, type_text
from pa_spec.contract.configuration import ModelTensor, model_tensors
from pa_spec.inference.shape import SymbolicShape

_EMBEDDINGS = "inputs_embeds"
_UNKNOWN = "unknown"
_MISSED = ("V78", "V79", "V80", "exported.not_dynamic")


def check_named(decoder: Decoder, graph: Graph, feed: Feed, blamed: frozenset[str]) -> None:
    """Check the tensors of a step; inputs that were meant to be one of them leave the feed."""
    for row in model_tensors().values():
        if row.is_template:
            continue
        name = name_of(decoder, row.key)
        if not name:
            continue
        found = (graph.inputs if row.direction == "input" else graph.outputs).get(name)
        if found is None:
            _check_absent(decoder, graph, feed, row, is_blamed=name in blamed)
        elif name not in blamed:
            # Where shapes contradict themselves, an output's was said to.
            is_sound = graph.is_sound or row.direction == "input"
            _check_tensor(decoder, row, found, is_sound=is_sound)


def name_of(decoder: Decoder, key: str) -> str:
    """Return the name of a tensor of a step: the given one or the default, "" for none.

    A name that is no text is reported by `check_names`.
    """
    row = model_tensors()[key]
    name = _section(decoder, row).values.get(key, row.default)
    return name if isinstance(name, str) else ""


def check_names(decoder: Decoder) -> None:
    """Report names of tensors that are no text; V78 is about those of state."""
    for key, row in model_tensors().items():
        section = _section(decoder, row)
        if section.has(key):
            section.text(key)


def check_slips(decoder: Decoder, root: Section) -> None:
    """Report keys of the file, and of names of tensors, that are nearly known ones.

    One whose value was missed elsewhere was reported there.
    """
    missed = {each.place.inside for each in decoder.findings if each.id in _MISSED}
    root.check_keys("root", required=missed)
    for section in (decoder.inputs, decoder.outputs):
        inside = [each for each in missed if each.startswith(f"{section.key}.")]
        section.check_keys(required={each.rpartition(".")[2] for each in inside})


def _section(decoder: Decoder, row: ModelTensor) -> Section:
    return decoder.inputs if row.direction == "input" else decoder.outputs


def _check_tensor(
    decoder: Decoder, row: ModelTensor, found: GraphTensor, *, is_sound: bool
) -> None:
    """Check an element type, and where is_sound the shape."""
    findings, place = decoder.findings, _section(decoder, row).place(row.key)
    words, shape = type_text(found.tensor), found.tensor.shape
    if row.key == "position_ids":
        if words not in ("int64", _UNKNOWN):
            findings.add("V96", place, found.name, words, case="dtype")
        elif shape is not None and not _are_positions(shape):
            findings.add("V96", place, found.name, shape_text(shape), case="shape")
    elif row.types:
        if not _has_type_of(row, found):
            allowed = " or ".join(each.value for each in row.types)
            findings.add("exported.tensor", place, found.name, words, allowed=allowed)
        elif is_sound and not _has_shape_of(row, shape):
            actual = shape_text(shape)
            findings.add("exported.tensor", place, found.name, actual, allowed=row.shape)


def has_other_ids(decoder: Decoder, graph: Graph) -> bool:
    """Return whether the token ids are of a type or rank that `check_named` reports."""
    row = model_tensors()["input_ids"]
    found = graph.inputs.get(name_of(decoder, row.key))
    return found is not None and not (
        _has_type_of(row, found) and _has_shape_of(row, found.tensor.shape)
    )


def _has_type_of(row: ModelTensor, found: GraphTensor) -> bool:
    return type_text(found.tensor) == _UNKNOWN or found.tensor.element_type in row.types


def _has_shape_of(row: ModelTensor, shape: SymbolicShape) -> bool:
    """Return whether a shape may be that of a step's tensor: its rank, and numbers like [3]."""
    wanted = row.shape.removeprefix("[").partition("]")[0].split(",")
    if shape is None:
        return True
    return len(shape) == len(wanted) and not any(
        word.strip().isdecimal() and isinstance(extent, int) and extent != int(word)
        for word, extent in zip(wanted, shape, strict=True)
    )


def _are_positions(shape: Sequence[object]) -> bool:
    if len(shape) == 1:
        return True
    return len(shape) == 2 and (shape[0] == 3 or not isinstance(shape[0], int))


def _check_absent(
    decoder: Decoder, graph: Graph, feed: Feed, row: ModelTensor, *, is_blamed: bool
) -> None:
    """Report a tensor that the graph does not have, unless a step can do without it."""
    findings, section = decoder.findings, _section(decoder, row)
    place, name = section.place(row.key), name_of(decoder, row.key)
    if row.key == "input_ids":
        embeddings = section.values.get(_EMBEDDINGS, _EMBEDDINGS)
        if isinstance(embeddings, str) and feed.take(embeddings):
            findings.add("V97", place, name, f"embeddings {embeddings}", case="embeds")
            return
    hidden = decoder.outputs.values.get("hidden_states", "hidden_states")
    if row.key == "logits" and hidden in graph.outputs:
        findings.add("V97", place, name, f"output {hidden}", case="lm_head")
        return
    is_expected = row.is_required or section.has(row.key)
    is_input = row.direction == "input"
    similar = feed.claim(name, is_required=row.is_required) if is_input and is_expected else ""
    if not is_blamed and (row.is_required or similar):
        hint = f"; {similar} is one that nothing feeds" if similar else ""
        findings.add("V80", place, name, f"no such {row.direction}{hint}", case=row.direction)
