"""Tensor names with a layer id: their templates, checked and expanded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pa_spec.checker.exported.section import Section
from pa_spec.checker.text import shown
from pa_spec.contract.configuration import StateBinding, state_bindings
from pa_spec.state import GroupKind


@dataclass(frozen=True, slots=True)
class Template:
    """A tensor name with one %d. key: where the configuration gives it, or would."""

    text: str
    key: str

    def expand(self, layer_id: int) -> str:
        """Return a layer's tensor name."""
        return self.text.replace("%d", str(layer_id))

    def layer_of(self, name: str) -> int | None:
        """Return the layer whose tensor has this name, None when none has."""
        head, _, tail = self.text.partition("%d")
        if not (name.startswith(head) and name.endswith(tail)):
            return None
        digits = name[len(head) : len(name) - len(tail)]
        # Ten digits hold every int32; more would be costly to convert.
        usable = digits.isascii() and digits.isdecimal() and len(digits) <= 10
        return int(digits) if usable and digits == str(int(digits)) else None


def read_templates(
    kinds: frozenset[GroupKind], inputs: Section, outputs: Section
) -> Mapping[str, Template]:
    """Return the usable templates of the kinds of state that a decoder has, by binding name.

    Reports V78 (no usable template) and V79 (two of them name the same tensors).
    """
    found: dict[str, Template] = {}
    taken: dict[tuple[str, str], str] = {}
    for row in state_bindings().values():
        if row.kind not in kinds:
            continue
        section = inputs if row.direction == "input" else outputs
        template = _read_template(row, section)
        if template is None:
            continue
        other = taken.setdefault((row.direction, template.text), row.name)
        if other != row.name:
            place = section.place(row.name)
            section.findings.add("V79", place, row.name, shown(template.text), other=other)
            found.pop(other, None)  # whose the tensors are cannot be told
        else:
            found[row.name] = template
    return found


def as_template(text: str, key: str = "") -> Template | None:
    """Return a text as a template, None when it has not exactly one %d or another %."""
    return Template(text, key) if text.count("%") == 1 and "%d" in text else None


def _read_template(row: StateBinding, section: Section) -> Template | None:
    place = section.place(row.name)
    value = section.values.get(row.name, row.default)
    if not isinstance(value, str):
        section.findings.add("V78", place, row.name, shown(value), case="text")
        return None
    found = as_template(value, place.inside)
    if found is None:
        case = "placeholder" if value else "missing"
        section.findings.add("V78", place, row.name, shown(value), case=case)
    return found
