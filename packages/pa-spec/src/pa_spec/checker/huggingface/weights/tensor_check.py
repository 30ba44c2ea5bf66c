"""Compares the tensors that a folder stores with those that its model needs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import final

from pa_spec.checker.finding import Findings, Place
from pa_spec.checker.huggingface.weights.expected_tensor import (
    ExpectedTensor,
    ModelSizes,
    TensorGroup,
    tensor_groups,
)
from pa_spec.checker.huggingface.weights.header_entry import StoredTensor, listed
from pa_spec.checker.huggingface.weights.stored_weights import StoredWeights
from pa_spec.checker.huggingface.weights.tensor_layout import (
    TensorLayout,
    TensorPrefix,
    ignored_ends,
    tensor_prefixes,
)
from pa_spec.checker.text import printable, shortened

FLOATING = ("F64", "F32", "F16", "BF16")
MAX_MISSING = 1000
"""Missing tensors of one kind that are counted; a configuration can claim any number."""

_CHOOSING = (
    ".gate.weight",
    ".router.weight",
    ".router.layer.weight",
    ".router.proj.weight",
    ".indexer.weights_proj.weight",
)
"""Ends of the names of matrices by which experts or positions are chosen."""

_NUMBER = re.compile(r"\d{1,9}")


@dataclass(slots=True)
class _Group:
    """What was found of one kind of tensor: the first that is wrong, and how many are."""

    missing: list[ExpectedTensor] = field(default_factory=list)
    misshapen: list[ExpectedTensor] = field(default_factory=list)
    not_floating: list[ExpectedTensor] = field(default_factory=list)


@final
class TensorCheck:
    """One comparison; what it finds of one kind in many layers is reported once."""

    def __init__(
        self, layout: TensorLayout, sizes: ModelSizes, stored: StoredWeights, findings: Findings
    ) -> None:
        self._layout = layout
        self._sizes = sizes
        self._stored = stored
        self._findings = findings
        self._names = stored.tensors.keys() | stored.unknown
        self._used: set[str] = set()
        self._prefix = self._find_prefix()
        self._layer_ids = self._find_layers()

    def run(self, *, is_tied: bool, is_quantized: bool, extra_layers: int) -> None:
        """Report what is missing, misshapen or surplus.

        is_quantized: only tensors that no method changes are compared. extra_layers: layers behind
        the model's own that only predict further tokens.
        """
        num_layers = self._sizes.num_layers
        self._check_layers(num_layers, extra_layers)
        for group in tensor_groups(self._layout, self._sizes, self._prefix, self._names):
            if is_quantized and not group.is_vector:
                continue
            self._check_group(group, is_tied=is_tied)
        if not is_quantized:
            self._check_unexpected(num_layers)

    def _find_prefix(self) -> TensorPrefix:
        """Choose the prefix under which most layers' first names stand."""
        prefixes = tensor_prefixes(self._layout)
        counts = Counter(_until_layer(name, self._layout.layers) for name in self._names)
        return max(prefixes, key=lambda each: counts[each.body])

    def _find_layers(self) -> set[int]:
        before = f"{self._prefix.body}{self._layout.layers}."
        found = set()
        for name in self._names:
            if name.startswith(before):
                number = _NUMBER.match(name, len(before))
                if number is not None:
                    found.add(int(number[0]))
        return found

    def _check_layers(self, num_layers: int, extra_layers: int) -> None:
        before = f"{self._prefix.body}{self._layout.layers}."
        surplus = sorted(each for each in self._layer_ids if each >= num_layers + extra_layers)
        if surplus:
            actual = f"also {_layers_text(surplus)}"
            name = printable(shortened(f"{before}{surplus[0]}"))
            place = Place(self._file_of(f"{before}{surplus[0]}."))
            self._findings.add("weights.surplus_layer", place, name, actual, layers=num_layers)
        missing = sorted(set(range(num_layers)) - self._layer_ids)
        if missing and self._layer_ids and self._stored.is_complete:
            actual = f"none of {_layers_text(missing)}"
            name = f"{before}{missing[0]}"
            self._findings.add("weights.missing_layer", Place(), name, actual, layers=num_layers)

    def _check_group(self, group: TensorGroup, *, is_tied: bool) -> None:
        found = _Group()
        for layer in group.layers:
            if layer is not None and self._layer_ids and layer not in self._layer_ids:
                continue
            for expected in group.of_layer(layer):
                self._check_tensor(expected, found, is_tied=is_tied)
                if len(found.missing) >= MAX_MISSING:
                    break
        self._report_missing(found.missing)
        self._report(found.misshapen, "weights.misshapen")
        self._report(found.not_floating, "weights.element_type")

    def _check_tensor(self, expected: ExpectedTensor, found: _Group, *, is_tied: bool) -> None:
        if expected.name not in self._names:
            is_needed = expected.is_needed and not (is_tied and expected.role == "head")
            if is_needed and self._stored.is_complete:
                found.missing.append(expected)
            return
        self._used.add(expected.name)
        tensor = self._stored.tensors.get(expected.name)
        if tensor is None:
            return
        if not _fits(tensor.shape, expected.shape):
            found.misshapen.append(expected)
        elif tensor.element_type not in FLOATING:
            found.not_floating.append(expected)
        elif is_tied and expected.role == "head":
            actual = f"{listed(list(tensor.shape))} in {tensor.file}"
            self._findings.add("weights.tied_head", Place(tensor.file), expected.name, actual)

    def _report_missing(self, missing: list[ExpectedTensor]) -> None:
        if missing:
            first = missing[0]
            values = {"shape": _shape_text(first)}
            actual = "none" + _more(missing)
            self._findings.add("weights.missing", Place(), first.name, actual, **values)

    def _report(self, wrong: list[ExpectedTensor], kind: str) -> None:
        if not wrong:
            return
        first = wrong[0]
        tensor = self._stored.tensors[first.name]
        is_shape = kind == "weights.misshapen"
        actual = listed(list(tensor.shape)) if is_shape else tensor.element_type
        values = {"shape": _shape_text(first)} if is_shape else {}
        place = Place(printable(shortened(tensor.file)))
        self._findings.add(kind, place, first.name, actual + _more(wrong), **values)

    def _check_unexpected(self, num_layers: int) -> None:
        before = f"{self._prefix.body}{self._layout.layers}."
        kinds: dict[str, list[str]] = {}
        for name in sorted(self._names - self._used):
            number = _NUMBER.match(name, len(before)) if name.startswith(before) else None
            is_ours = number is not None and int(number[0]) < num_layers
            if is_ours and not name.endswith(ignored_ends()):
                kinds.setdefault(_NUMBER.sub("{}", name), []).append(name)
        for names in kinds.values():
            place = Place(self._file_of(names[0]))
            more = f", and {len(names) - 1} more like it" if len(names) > 1 else ""
            name = printable(shortened(names[0]))
            self._findings.add("weights.unexpected", place, name, f"it{more}")

    def _file_of(self, start: str) -> str:
        files = (t.file for name, t in self._stored.tensors.items() if name.startswith(start))
        return printable(shortened(next(files, "")))


def check_types(stored: StoredWeights, configured: str, findings: Findings) -> None:
    """Remark on several floating-point types, or on another than the configuration's.

    configured: the format's spelling, "" = the configuration does not say.
    """
    sizes: Counter[str] = Counter()
    precise_bytes = 0
    for name, tensor in stored.tensors.items():
        if tensor.element_type in FLOATING:
            sizes[tensor.element_type] += tensor.num_bytes
            if _may_be_precise(name, tensor):
                precise_bytes += tensor.num_bytes
    if not sizes:
        return
    (main, _), *others = sizes.most_common()
    if main in {"F16", "BF16"} and sizes["F32"] == precise_bytes:
        others = [(kind, size) for kind, size in others if kind != "F32"]
    if others:
        actual = ", ".join(f"{kind} ({size} bytes)" for kind, size in sizes.most_common())
        findings.add("weights.mixed_types", Place(), "element types", actual)
    if configured and main != configured:
        findings.add("weights.type_differs", Place(), "weights", main, element_type=configured)


def _may_be_precise(name: str, tensor: StoredTensor) -> bool:
    """Return whether a tensor is one that sound checkpoints keep in float32 beside half types.

    Vectors (norms, biases, decays of a state) and what chooses: a rounded choice is another one.
    """
    is_vector = sum(extent > 1 for extent in tensor.shape) < 2
    return tensor.element_type == "F32" and (is_vector or name.endswith(_CHOOSING))


def _fits(shape: Iterable[int], expected: Iterable[int | None]) -> bool:
    actual, wanted = tuple(shape), tuple(expected)
    pairs = zip(actual, wanted, strict=False)
    return len(actual) == len(wanted) and all(b in (None, a) for a, b in pairs)


def _shape_text(expected: ExpectedTensor) -> str:
    return f"[{', '.join('?' if each is None else str(each) for each in expected.shape)}]"


def _more(tensors: list[ExpectedTensor]) -> str:
    count = len(tensors) - 1
    words = "at least " if len(tensors) >= MAX_MISSING else ""
    return f", and {words}{count} more like it" if count else ""


def _layers_text(layers: list[int]) -> str:
    first, last = layers[0], layers[-1]
    if first == last:
        return f"layer {first}"
    is_range = last - first == len(layers) - 1
    return f"layers {first} to {last}" if is_range else f"{len(layers)} layers, {first} first"


def _until_layer(name: str, layers: str) -> str:
    """Return what stands before a layer's number and name."""
    at = name.find(f"{layers}.")
    return name[:at] if at >= 0 else "\0"
