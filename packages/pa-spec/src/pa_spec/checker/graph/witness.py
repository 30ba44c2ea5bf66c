"""Extents for a node whose shapes are symbolic: a call that stands for all that it may become.

Every axis has a role. Roles have different extents, so that a symbol in the wrong place shows:
a symbol keeps the extent of the first role it is seen in, and different symbols of one role are
taken to be equal, because nothing says that they are not.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from pa_spec.inference.shape import Extent, SymbolicShape, SymbolicTensor
from pa_spec.operator import PagedAttentionAttributes

_TOKENS, _ROWS, _BLOCKS, _COLUMNS, _POSITIONS, _OTHER = 7, 3, 11, 5, 8192, 13
DEFAULT_BLOCK_SIZE = 16
DEFAULT_HEAD_SIZE = 64

# Roles by input. Upper-case roles are lengths that a caller chooses; the others follow from the
# attributes and the head size.
_ROLES: dict[str, tuple[str, ...]] = {
    "key_cache": ("N", "S", "heads", "channels"),
    "value_cache": ("N", "S", "heads", "channels"),
    "query": ("T", "query"),
    "past_seqlens": ("B",),
    "cumulative_sequence_length": ("B+1",),
    "block_table": ("B", "M"),
    "key": ("T", "key"),
    "value": ("T", "key"),
    "cos_cache": ("P", "rotary"),
    "sin_cache": ("P", "rotary"),
    "slot_mapping": ("T",),
    "query_positions": ("T",),
    "head_sink": ("sinks",),
    "q_norm_weight": ("channels",),
    "k_norm_weight": ("channels",),
    "attention_metadata": ("bounds",),
}
_CHOSEN = frozenset("NSBMTP")
_MAX_SYMBOL = 200
_SUM = re.compile(r"\s*(.+?)\s*\+\s*(\d{1,9})\s*")


@dataclass(slots=True)
class Witness:
    """Extents chosen for one node.

    roles: extent of each role. symbols: extent of each symbol seen. undecided: inputs of which
    something that the rules speak about is unknown.
    """

    roles: dict[str, int]
    symbols: dict[str, int] = field(default_factory=dict)
    undecided: list[str] = field(default_factory=list)


def witness_shapes(
    attributes: PagedAttentionAttributes,
    tensors: Mapping[str, SymbolicTensor],
    block_size: int | None,
) -> tuple[dict[str, tuple[int, ...]], tuple[str, ...]]:
    """Return a shape for each input that is there, and the inputs that stay undecided."""
    shapes = {name: tensor.shape for name, tensor in tensors.items()}
    witness = Witness(_roles(attributes, shapes, block_size))
    _name_rows(witness, shapes)
    found: dict[str, tuple[int, ...]] = {}
    for name, roles in _ROLES.items():
        if name in shapes:
            found[name] = _shape(witness, name, shapes[name], roles)
    if "attention_bias" in shapes:
        found["attention_bias"] = _bias(witness, shapes["attention_bias"])
    for name in ("k_scale", "v_scale"):
        if name in shapes:
            quant_type = getattr(attributes, f"{name[0]}_quant_type")
            found[name] = _scale(witness, name, shapes[name], quant_type)
    return found, tuple(witness.undecided)


def _name_rows(witness: Witness, shapes: Mapping[str, SymbolicShape]) -> None:
    """Decide which symbol is the number of rows: the one that most inputs with rows say it is.

    Where they all differ it is the first that no cache and no query calls something else.
    """
    others = {
        extent
        for name in ("key_cache", "value_cache", "query")
        for extent in shapes.get(name) or ()
        if isinstance(extent, str)
    }
    said: list[str] = []
    for name in ("past_seqlens", "block_table", "cumulative_sequence_length"):
        shape = shapes.get(name)
        if shape and len(shape) == len(_ROLES[name]) and isinstance(shape[0], str):
            said.append(summed_symbol(shape[0])[0])
    if said:
        counts = Counter(said)
        symbol = max(counts, key=lambda each: (counts[each], each not in others))
        witness.symbols[symbol] = witness.roles["B seen"] = witness.roles["B"]


def head_size_of(attributes: PagedAttentionAttributes, shapes: Mapping[str, SymbolicShape]) -> int:
    """Return D from the first shape that says it, query's own first."""
    heads, kv_heads = attributes.num_heads, attributes.kv_num_heads
    width = _at(shapes, "query", 1)
    divisor = _query_heads(attributes, shapes)
    if width and divisor > 0 and width % divisor == 0:
        return width // divisor
    key = _at(shapes, "key", 1)
    for found in (
        _at(shapes, "key_cache", 3),
        _at(shapes, "value_cache", 3),
        key // kv_heads if key and kv_heads > 0 and heads > 0 else None,
        _at(shapes, "q_norm_weight", 0),
    ):
        if found:
            return found
    return DEFAULT_HEAD_SIZE


def _roles(
    attributes: PagedAttentionAttributes,
    shapes: Mapping[str, SymbolicShape],
    block_size: int | None,
) -> dict[str, int]:
    head_size = head_size_of(attributes, shapes)
    kv_heads = max(attributes.kv_num_heads, 1)
    rotated = head_size - max(attributes.rotary_offset, 0)
    if block_size is None or block_size < 16 or block_size & (block_size - 1):
        # A block size that is wrong in the configuration is reported there.
        block_size = DEFAULT_BLOCK_SIZE
    roles = {
        "T": _TOKENS,
        "B": _ROWS,
        "N": _BLOCKS,
        "M": _COLUMNS,
        "P": _POSITIONS,
        "S": block_size,
        "heads": kv_heads,
        "channels": head_size,
        "query": max(_query_heads(attributes, shapes), 1) * head_size,
        "key": kv_heads * head_size,
        "sinks": max(attributes.num_heads, 1),
        "rotary": max(rotated // 2, 0),
        "bounds": 3,
    }
    # A length that one input states outright is the length of its role.
    for name, places in reversed(_ROLES.items()):
        for axis, role in enumerate(places):
            stated = _at(shapes, name, axis)
            if role in _CHOSEN and stated is not None and len(shapes[name] or ()) == len(places):
                roles[role] = stated
    cumulative = _at(shapes, "cumulative_sequence_length", 0)
    if cumulative is not None and _at(shapes, "past_seqlens", 0) is None:
        roles["B"] = max(cumulative - 1, 0)
    return roles


def _query_heads(attributes: PagedAttentionAttributes, shapes: Mapping[str, SymbolicShape]) -> int:
    is_packed = "key" not in shapes and "value" not in shapes
    if is_packed and attributes.kv_cache_layout != "LATENT":
        return attributes.num_heads + 2 * attributes.kv_num_heads
    return attributes.num_heads


def _shape(
    witness: Witness, name: str, shape: SymbolicShape, roles: tuple[str, ...]
) -> tuple[int, ...]:
    if shape is None:
        witness.undecided.append(name)
        return tuple(_role(witness, role) for role in roles)
    if len(shape) != len(roles):
        return tuple(each if isinstance(each, int) else _OTHER for each in shape)
    found = []
    if name == "block_table" and _is_turned(witness, shape):
        roles = roles[::-1]
    for extent, role in zip(shape, roles, strict=True):
        found.append(_extent(witness, extent, role))
        is_open = role not in _CHOSEN and role not in ("B+1", "bounds")
        if is_open and not isinstance(extent, int) and name not in witness.undecided:
            witness.undecided.append(name)
    return tuple(found)


def _extent(witness: Witness, extent: Extent, role: str) -> int:
    if isinstance(extent, int):
        return extent
    expected = _role(witness, role)
    symbol, added = summed_symbol(extent) if extent is not None else ("", 0)
    if role == "B+1" and added and symbol in witness.symbols:
        return witness.symbols[symbol] + added
    if extent is None or role not in _CHOSEN:
        # Many files call the boundaries' length after the rows; that is no mistake of a call.
        return expected
    value = witness.symbols.setdefault(symbol, expected - added) + added
    # What the first tensor of a role turned out to have is what the others must have.
    witness.roles.setdefault(f"{role} seen", value)
    return max(value, 0)


def summed_symbol(symbol: str) -> tuple[str, int]:
    """Split "batch_size + 1" into a symbol and what is added to it."""
    found = _SUM.fullmatch(symbol) if len(symbol) <= _MAX_SYMBOL else None
    return (found[1], int(found[2])) if found else (symbol, 0)


def _is_turned(witness: Witness, shape: tuple[Extent, ...]) -> bool:
    """Whether the second axis, not the first, is called what the rows are called."""
    rows, columns = shape
    known = witness.symbols
    is_rows = isinstance(columns, str) and known.get(columns) == _role(witness, "B")
    return is_rows and isinstance(rows, str) and rows not in known


def _role(witness: Witness, role: str) -> int:
    if role == "B+1":
        return _role(witness, "B") + 1
    return witness.roles.get(f"{role} seen", witness.roles[role])


def _bias(witness: Witness, shape: SymbolicShape) -> tuple[int, ...]:
    """Rows and heads may be 1; a symbol that is known elsewhere keeps its extent."""
    if shape is None:
        witness.undecided.append("attention_bias")
        return (1, 1, _TOKENS, _OTHER)
    return tuple(
        each if isinstance(each, int) else witness.symbols.get(each or "", 1) for each in shape
    )


def _scale(witness: Witness, name: str, shape: SymbolicShape, quant_type: str) -> tuple[int, ...]:
    roles = witness.roles
    legal = {
        1: (1,),
        2: (roles["heads"], roles["channels"]),
        3: (roles["heads"], 1, roles["channels"]),
    }
    rank = 3 if quant_type == "PER_CHANNEL" else 1
    if shape is None:
        witness.undecided.append(name)
        return legal[rank]
    template = legal.get(len(shape), (1,) * len(shape))
    if quant_type != "PER_CHANNEL":
        template = (1,) * len(shape)
    if any(not isinstance(each, int) for each in shape):
        witness.undecided.append(name)
    pairs = zip(shape, template, strict=True)
    return tuple(each if isinstance(each, int) else other for each, other in pairs)


def _at(shapes: Mapping[str, SymbolicShape], name: str, axis: int) -> int | None:
    shape = shapes.get(name)
    if shape is None or len(shape) <= axis:
        return None
    extent = shape[axis]
    return extent if isinstance(extent, int) else None
