"""The page about configuration keys and decoder state."""

from __future__ import annotations

from collections.abc import Iterator

from pa_spec.contract import (
    Setting,
    model_objects,
    model_tensors,
    settings,
    state_bindings,
    state_group_kinds,
)
from pa_spec.reference.markdown import code, codes, table


def configuration_parts() -> Iterator[str]:
    """Yield the parts of the page."""
    yield "## Configuration keys"
    yield setting_table()
    yield "## Keys of a model"
    yield object_table()
    yield "## State groups"
    yield group_table()
    yield binding_table()
    yield "## Tensors of a step"
    yield tensor_table()


def setting_table() -> str:
    """Write the configuration keys as a table."""
    return table(
        ("key", "type", "default", "allowed", "meaning", "read into"),
        (
            (code(r.key), r.type, _default(r), r.allowed, r.meaning, _reader(r))
            for r in settings().values()
        ),
    )


def group_table() -> str:
    """Write the kinds of decoder state as a table."""
    return table(
        ("kind", "one row for each", "row", "meaning"),
        ((code(r.kind.value), r.owner, r.row, r.meaning) for r in state_group_kinds().values()),
    )


def binding_table() -> str:
    """Write the name templates as a table."""
    return table(
        ("binding", "kind", "direction", "default", "also seen"),
        (
            (code(r.name), r.kind.value, r.direction, code(r.default), codes(r.also_seen))
            for r in state_bindings().values()
        ),
    )


def object_table() -> str:
    """Write the objects of a model's configuration as a table."""
    return table(
        ("object", "keys", "meaning"),
        ((code(r.object), codes(r.keys), r.meaning) for r in model_objects().values()),
    )


def tensor_table() -> str:
    """Write the tensors of a step as a table."""
    return table(
        ("key", "direction", "default", "shape", "element types", "meaning"),
        (
            (
                code(r.key),
                r.direction,
                code(r.default) if r.default else "absent",
                r.shape,
                codes(tuple(each.value for each in r.types)),
                r.meaning,
            )
            for r in model_tensors().values()
        ),
    )


def _default(row: Setting) -> str:
    return "unset" if row.default is None else code(row.default)


def _reader(row: Setting) -> str:
    if row.status == "active":
        return f"`EngineConfig.{row.field}`"
    if row.status == "params":
        return f"`GeneratorParams.{row.field}`"
    return f"pending: {row.feature}" if row.feature else "unused"
