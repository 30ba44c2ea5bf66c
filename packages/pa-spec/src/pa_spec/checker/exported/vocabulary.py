"""Numbers of `model`: vocabulary, end-of-text ids, most positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pa_spec.checker.exported.decoder import Decoder
from pa_spec.checker.exported.named import name_of
from pa_spec.checker.exported.section import Section, as_int
from pa_spec.checker.graph.graph import Graph
from pa_spec.checker.setting import setting_value
from pa_spec.checker.tensor_text import shape_text
from pa_spec.checker.text import shown

_COS_CACHE = 8


@dataclass(frozen=True, slots=True)
class ModelNumbers:
    """What `model` says; None = not given, or reported as unusable. eos: ids that end a turn."""

    section: Section
    vocab_size: int | None
    context_tokens: int | None
    eos: tuple[int, ...] | None


def read_numbers(root: Section) -> ModelNumbers | None:
    """Read and check the numbers of `model`; None where there is no such object."""
    if not isinstance(root.values.get("model"), dict):
        return None
    section = Section(root.values["model"], "model", root.file, root.findings)
    for name in ("vocab_size", "context_length"):
        if not section.has(name):
            section.missing(name)
    vocab_size, context = section.integer("vocab_size"), section.integer("context_length")
    longest = setting_value(root.values, "search.max_length")
    if context is not None and longest is not None and longest > context:
        place = root.place("search.max_length")
        root.findings.add("exported.max_length", place, "max_length", longest, context=context)
    eos = _read_eos(section, vocab_size)
    _check_ids(section, vocab_size)
    return ModelNumbers(section, vocab_size, context, eos)


def check_graph_numbers(
    numbers: ModelNumbers, decoder: Decoder, graph: Graph, blamed: frozenset[str]
) -> None:
    """Compare the vocabulary with the logits, and most positions with the rotary tables.

    blamed: names that were spoken about already.
    """
    logits = graph.outputs.get(name_of(decoder, "logits"))
    shape = None if logits is None or logits.name in blamed else logits.tensor.shape
    width = shape[1] if shape is not None and len(shape) == 2 else None
    if isinstance(width, int) and numbers.vocab_size not in (None, width):
        place, actual = decoder.outputs.place("logits"), shape_text(shape)
        words = {"vocab_size": numbers.vocab_size}
        decoder.findings.add("exported.logits_width", place, "logits", actual, **words)
    context = numbers.context_tokens
    short = {} if context is None else _short_tables(graph, context, blamed)
    for name, rows in short.items():
        place = numbers.section.place("context_length")
        actual = f"{context}, but {name} has {rows} rows"
        decoder.findings.add("exported.rope_rows", place, "context_length", actual, rows=rows)


def _short_tables(graph: Graph, context: int, blamed: frozenset[str]) -> dict[str, int]:
    found = {}
    for node in graph.attention:
        tables = node.inputs[_COS_CACHE : _COS_CACHE + 2]
        if any(each is not None and each.name in blamed for each in tables):
            continue
        for table in tables[:1]:
            shape = None if table is None else table.tensor.shape
            if table is not None and shape and isinstance(shape[0], int) and shape[0] < context:
                found[table.name] = shape[0]
    return found


def _check_ids(section: Section, vocab_size: int | None) -> None:
    """Check the ids of special tokens that end no turn; null and -1 stand for none."""
    for name in ("bos_token_id", "pad_token_id", "sep_token_id", "decoder_start_token_id"):
        value = section.values.get(name)
        stands_in = name == "pad_token_id" and not section.has("eos_token_id")
        if value is None or stands_in:
            continue
        token_id = as_int(value)
        if token_id is None:
            section.wrong(name, "id")
        elif token_id < -1 or (vocab_size is not None and token_id >= vocab_size):
            last = "the last token" if vocab_size is None else vocab_size - 1
            place = section.place(name)
            section.findings.add("exported.token_id", place, name, shown(value), last=last)


def _read_eos(section: Section, vocab_size: int | None) -> tuple[int, ...] | None:
    """Return the ids that end a turn; without any they are those that pad."""
    name = "eos_token_id"
    if not section.has(name):
        name = "pad_token_id"
    if not section.has(name):
        place = section.place("eos_token_id")
        section.findings.add("exported.no_eos", place, "eos_token_id", "no such key")
        return None
    value = section.values[name]
    values: Sequence[object] = value if isinstance(value, list) else [value]
    if not values:
        actual = "an empty list"
        section.findings.add("exported.no_eos", section.place(name), name, actual)
        return None
    found = []
    for each in values:
        token_id = as_int(each)
        if token_id is None:
            section.wrong(name, "ids")
            return None
        if token_id < 0 or (vocab_size is not None and token_id >= vocab_size):
            last = "the last token" if vocab_size is None else vocab_size - 1
            place = section.place(name)
            section.findings.add("exported.eos_id", place, name, shown(token_id), last=last)
            return None
        found.append(token_id)
    return tuple(dict.fromkeys(found))
