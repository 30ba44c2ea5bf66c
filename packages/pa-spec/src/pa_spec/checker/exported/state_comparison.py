"""Fixed state of an exported graph against what the model's own configuration says of it."""

from __future__ import annotations

from collections.abc import Sequence

from pa_spec.checker.exported.binding import BoundPair
from pa_spec.checker.exported.decoder import Decoder
from pa_spec.checker.exported.reference import Reference
from pa_spec.checker.meaning import FixedRow, LayerKind
from pa_spec.checker.tensor_text import shape_text, type_text
from pa_spec.element_type import ElementType
from pa_spec.state import GroupKind


def compare_state(decoder: Decoder, pairs: Sequence[BoundPair], reference: Reference) -> None:
    """Report rows of fixed state that are not the model's, once for each kind."""
    layers = reference.meaning.layers
    reported: set[GroupKind] = set()
    for pair in pairs:
        if pair.kind in reported or pair.layer_id >= len(layers):
            continue
        fixed = [row for row in layers[pair.layer_id].fixed if row.kind is pair.kind]
        if fixed and not _fits(fixed[0], layers[pair.layer_id].kind, pair):
            reported.add(pair.kind)
            row, past = fixed[0], pair.past
            actual = f"{type_text(past.tensor)} {shape_text(past.tensor.shape)}"
            words = {"wanted": _wanted(row)}
            place = decoder.section.place("state_groups")
            decoder.findings.add("exported.state_differs", place, past.name, actual, **words)


def _fits(row: FixedRow, kind: LayerKind, pair: BoundPair) -> bool:
    shape, element_type = pair.past.tensor.shape, pair.past.tensor.element_type
    if shape is None or len(shape) < 2 or not all(isinstance(each, int) for each in shape[1:]):
        return True  # V84 says what is wrong with it.
    if row.kind is GroupKind.FIXED_RECURRENT:
        is_full = element_type in (None, ElementType.FLOAT32)
        return is_full and shape[1:] == row.row_shape
    *channels, columns = row.row_shape
    # Graphs, and the model's own code, keep all inputs of the kernel or all but the newest.
    other = columns - 1 if kind is LayerKind.CONV else columns + 1
    return shape[1:] in ((*channels, columns), (*channels, other))


def _wanted(row: FixedRow) -> str:
    full = "float32 " if row.kind is GroupKind.FIXED_RECURRENT else ""
    return f"{full}rows {shape_text(row.row_shape)}"
