"""The page about the operator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pa_spec.contract import (
    InputMode,
    OperatorAttribute,
    compatibility,
    decisions,
    host_quantities,
    input_modes,
    metadata_entries,
    metadata_facts,
    operator_attributes,
    operator_inputs,
    operator_outputs,
    type_constraints,
)
from pa_spec.reference.markdown import code, codes, table


def operator_parts() -> Iterator[str]:
    """Yield the parts of the page."""
    yield "## Inputs"
    yield input_table()
    yield "## Outputs"
    yield output_table()
    yield "## Attributes"
    yield attribute_table()
    yield "## Element types"
    yield type_table()
    yield "## Input modes"
    yield mode_table()
    yield "## Calls of old models"
    yield "A call of which all of this holds means what it always meant."
    yield compatibility_table()
    yield "## What attention_metadata says"
    yield from metadata_tables()
    yield "## Decisions"
    yield from _decisions()


def input_table() -> str:
    """Write the inputs as a table."""
    return table(
        ("index", "name", "type", "shape", "presence", "meaning", "when absent"),
        (
            (r.index, code(r.name), r.type, _shapes(r.shape), r.presence, r.meaning, r.absent)
            for r in operator_inputs()
        ),
    )


def output_table() -> str:
    """Write the outputs as a table."""
    return table(
        ("index", "name", "type", "shape", "presence", "meaning"),
        (
            (r.index, code(r.name), r.type, _shapes(r.shape), r.presence, r.meaning)
            for r in operator_outputs()
        ),
    )


def attribute_table() -> str:
    """Write the attributes as a table."""
    return table(
        ("name", "type", "default", "allowed", "meaning"),
        (
            (code(r.name), r.type, _default(r), _allowed(r), r.meaning)
            for r in operator_attributes()
        ),
    )


def type_table() -> str:
    """Write the type constraints as a table."""
    return table(
        ("name", "allowed", "not on a GPU", "meaning"),
        (
            (
                r.name,
                codes(each.value for each in r.allowed),
                codes(each.value for each in r.host_only),
                r.meaning,
            )
            for r in type_constraints().values()
        ),
    )


def mode_table() -> str:
    """Write the input modes as a table."""
    return table(
        ("mode", "kv_cache_layout", "key", "value", "value_cache", "head size"),
        (
            (r.name, code(r.kv_cache_layout.value), *_presence(r), r.head_size)
            for r in input_modes()
        ),
    )


def compatibility_table() -> str:
    """Write what holds of an old model's calls as a table."""
    return table(
        ("inputs and attributes", "are", "meaning"),
        ((codes(r.names), r.value, r.meaning) for r in compatibility().values()),
    )


def metadata_tables() -> Iterator[str]:
    """Yield the tables of entries and of what they bound, then what else holds."""
    yield table(
        ("entry", "name", "meaning", "0 stands for", "clamped"),
        ((r.index, code(r.name), r.meaning, r.unknown, r.clamped) for r in metadata_entries()),
    )
    yield table(
        ("quantity", "used for", "bound with metadata", "without"),
        ((code(r.name), r.used_for, r.bound, r.fallback) for r in host_quantities().values()),
    )
    yield "\n".join(f"- {row.statement}" for row in metadata_facts().values())


def _decisions() -> Iterator[str]:
    for row in decisions().values():
        about = f" ({', '.join(row.rules)})" if row.rules else ""
        yield f"**{row.question}** {row.decision} {row.reason}{about}".replace("M*S", "`M*S`")


def _shapes(shapes: Iterable[str]) -> str:
    # "[T, width] when …": only the shape itself is code.
    parts = (shape.partition("]") for shape in shapes)
    return " or ".join(code(head + end) + rest for head, end, rest in parts)


def _default(row: OperatorAttribute) -> str:
    return "required" if row.default is None else code(row.default)


def _allowed(row: OperatorAttribute) -> str:
    return codes(row.allowed) if row.type == "string" else ", ".join(row.allowed)


def _presence(row: InputMode) -> Iterator[str]:
    for there in (row.key, row.value, row.value_cache):
        yield "present" if there else "absent"
