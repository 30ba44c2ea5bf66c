"""Types and shapes of a model's tensors: declared, inferred through the graph, and joined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pa_spec.checker.finding import Findings, Place
from pa_spec.checker.graph.element import lengths_of, tensor_of, tensor_of_type
from pa_spec.checker.graph.inferred import infer_types
from pa_spec.checker.graph.refusal import Refusals
from pa_spec.checker.graph.scope import Scope
from pa_spec.checker.graph.walk import ATTENTION, STATE_OPERATORS, Walk, label_of, padded_names
from pa_spec.checker.tensor_text import name_text, tensor_text
from pa_spec.inference.shape import Extent, SymbolicShape, SymbolicTensor

UNKNOWN_TENSOR = SymbolicTensor(None, None)
_CALLER_CHECKED = STATE_OPERATORS | {ATTENTION}


@dataclass(frozen=True, slots=True)
class Tensors:
    """What is known of each name.

    joined: of the main graph, declared and inferred; a name that contradicts itself is unknown.
    declared: by the file alone, a dictionary for each graph, read when first asked for.
    is_sound: nothing contradicts, and every stored tensor has a shape.
    """

    joined: dict[str, SymbolicTensor]
    declared: dict[int, dict[str, SymbolicTensor]] = field(default_factory=dict)
    is_sound: bool = True

    def of(self, scope: Scope, name: str, index: int) -> SymbolicTensor:
        """Return what is known of a name that node `index` of a graph uses."""
        owner, _, _ = scope.owner(name, index)
        if owner.parent is None:
            return self.joined.get(name, UNKNOWN_TENSOR)
        return self.declared_in(owner).get(name, UNKNOWN_TENSOR)

    def declared_in(self, scope: Scope) -> dict[str, SymbolicTensor]:
        """Return what the file says of one graph's names."""
        if id(scope) not in self.declared:
            self.declared[id(scope)] = declared_types(scope.graph)
        return self.declared[id(scope)]


def declared_types(graph: Any) -> dict[str, SymbolicTensor]:
    """Return what a graph itself says of its names; the first statement counts."""
    found: dict[str, SymbolicTensor] = {}
    for tensor in graph.initializer:
        found[tensor.name] = tensor_of(tensor.data_type, lengths_of(tensor.dims))
    for sparse in graph.sparse_initializer:
        shape = lengths_of(sparse.dims)
        found.setdefault(sparse.values.name, tensor_of(sparse.values.data_type, shape))
    for value in (*graph.input, *graph.value_info, *graph.output):
        if value.HasField("type"):
            found.setdefault(value.name, tensor_of_type(value.type))
    return found


def read_tensors(
    model: Any, walk: Walk, file: str, findings: Findings, stored_wrong: frozenset[str]
) -> Tensors:
    """Return the main graph's tensors, declared and inferred; report what contradicts.

    A wrong declaration makes everything after it look wrong: only the first is reported.
    stored_wrong: places of tensors that were reported already.
    """
    declared = declared_types(model.graph)
    inferred = infer_types(model, walk)
    if inferred is None:
        found = "declared shapes only"
        findings.add("graph.not_inferred", Place(file), "shape inference", found)
        return Tensors(declared, {id(walk.main): declared})
    judged = _Judgement(declared, inferred, {n for n in declared if name_text(n) in stored_wrong})
    reported = findings.total
    refusals = Refusals(model)
    padded = padded_names(model)
    for node in model.graph.node:
        if node.op_type == "Constant":
            # A constant has its own shape; the model builder declares every one as a scalar.
            for name in node.output:
                declared.pop(name, None)
        is_first = judged.doubted.isdisjoint(node.input)
        reason = refusals.reason(node, judged.known(node.input)) if is_first else ""
        if reason:
            judged.doubted.update(filter(None, node.output))
            # What prepares padded rows for an operator that takes them is that operator's mistake.
            if padded.isdisjoint(node.output):
                place = Place(file, label_of(node))
                findings.add("graph.node_refused", place, node.op_type, reason)
            continue
        for name in judged.contradictions(node.output):
            # What attention and state nodes yield is judged with the node itself.
            if is_first and node.op_type not in _CALLER_CHECKED:
                place = Place(file, label_of(node))
                values = {"inferred": tensor_text(inferred[name])}
                actual = tensor_text(declared[name])
                findings.add("graph.shape_contradicts", place, name_text(name), actual, **values)
    joined = {name: join(declared.get(name), tensor) for name, tensor in inferred.items()}
    unsure = dict.fromkeys(judged.wrong, UNKNOWN_TENSOR)
    known = declared | joined | unsure
    is_sound = findings.total == reported and all(
        lengths_of(each.dims) is not None for each in model.graph.initializer
    )
    return Tensors(known, {id(walk.main): declared}, is_sound=is_sound)


class _Judgement:
    """Which names can be relied on while the nodes are gone through in order.

    wrong: declared as something else than what is computed. doubted: those, what was reported
    before, and the results of nodes that were.
    """

    def __init__(
        self,
        declared: Mapping[str, SymbolicTensor],
        inferred: Mapping[str, SymbolicTensor],
        doubted: set[str],
    ) -> None:
        self._declared = declared
        self._inferred = inferred
        self.wrong: set[str] = set()
        self.doubted = doubted

    def known(self, names: Iterable[str]) -> dict[str, SymbolicTensor]:
        """Return what is known of names."""
        found: dict[str, SymbolicTensor] = {}
        for name in names:
            inferred = self._inferred.get(name)
            if inferred is not None:
                found[name] = join(self._declared.get(name), inferred)
            elif name in self._declared:
                found[name] = self._declared[name]
        return found

    def contradictions(self, names: Iterable[str]) -> Iterator[str]:
        """Yield what is declared as something else than what is computed."""
        for name in names:
            declared = self._declared.get(name)
            if declared is not None and contradict(declared, self._inferred.get(name)):
                self.wrong.add(name)
                self.doubted.add(name)
                yield name


def contradict(declared: SymbolicTensor, inferred: SymbolicTensor | None) -> bool:
    """Whether two statements about a tensor cannot both be true; symbols may be anything."""
    if inferred is None or declared is inferred:
        return False
    if _is_typed(declared) and _is_typed(inferred):
        types = (declared.element_type, declared.other_type)
        if types != (inferred.element_type, inferred.other_type):
            return True
    if declared.shape is None or inferred.shape is None:
        return False
    if len(declared.shape) != len(inferred.shape):
        return True
    return not _can_be_equal(declared.shape, inferred.shape)


def _can_be_equal(one: tuple[Extent, ...], other: tuple[Extent, ...]) -> bool:
    """Whether some lengths of the symbols make two shapes of one rank the same."""
    lengths: dict[str, int] = {}
    for a, b in zip(one, other, strict=True):
        if isinstance(a, int) and isinstance(b, int):
            if a != b:
                return False
        elif isinstance(a, int) and isinstance(b, str):
            if lengths.setdefault(b, a) != a:
                return False
        elif isinstance(a, str) and isinstance(b, int) and lengths.setdefault(a, b) != b:
            return False
    return True


def join(declared: SymbolicTensor | None, inferred: SymbolicTensor) -> SymbolicTensor:
    """Return what two statements that do not contradict say together."""
    if declared is None or declared is inferred:
        return inferred
    typed = declared if _is_typed(declared) else inferred
    shape = _join_shapes(declared.shape, inferred.shape)
    return SymbolicTensor(typed.element_type, shape, typed.other_type)


def _join_shapes(declared: SymbolicShape, inferred: SymbolicShape) -> SymbolicShape:
    if declared is None or inferred is None:
        return inferred if declared is None else declared
    if len(declared) != len(inferred):
        return declared
    return tuple(map(_join_extents, declared, inferred))


def _join_extents(declared: Extent, inferred: Extent) -> Extent:
    if isinstance(declared, int) or inferred is None:
        return declared
    return inferred if isinstance(inferred, int) or declared is None else declared


def _is_typed(tensor: SymbolicTensor) -> bool:
    return tensor.element_type is not None or bool(tensor.other_type)
