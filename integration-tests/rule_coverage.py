"""What a test proves about a rule, as far as its syntax shows it: its message and its neighbour.

A test counts for a rule when it is marked with it, can run, and compares what it found with the
message written out. Strings that no assertion sees count for nothing: comments, docstrings, dead
code, names that are only assigned.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SKIPS = frozenset({"skip", "skipif", "xfail", "importorskip", "exit"})
EQUAL = (ast.Eq, ast.In, ast.Is)
Scope = Mapping[str, Sequence[ast.expr]]
"""What the names of a test may stand for: what is assigned to them, their parameters' values."""


@dataclass(frozen=True, slots=True)
class RuleTest:
    """One test that can run.

    ids: rules that it is marked with. texts: strings that its assertions compare with, f-strings
    with {} for what is put in. accepts: it also sees something legal pass. vectors: files of
    vectors that it is driven by.
    """

    name: str
    ids: frozenset[str]
    texts: tuple[str, ...]
    accepts: bool
    vectors: frozenset[str]


def rule_tests(path: Path) -> Iterator[RuleTest]:
    """Yield the marked tests of a module, none of one that is skipped."""
    module = ast.parse(path.read_text("utf-8"))
    constants = _assigned(module.body)
    if any(skips(each) for each in constants.get("pytestmark", ())):
        return
    functions = {
        each.name: each
        for node in module.body
        for each in (node.body if isinstance(node, ast.ClassDef) else [node])
        if isinstance(each, ast.FunctionDef) and each.name.startswith("test_")
        if not (isinstance(node, ast.ClassDef) and any(map(skips, node.decorator_list)))
    }
    for function in functions.values():
        found = _rule_test(function, constants)
        if found.ids and not any(map(skips, (*function.decorator_list, *_live(function.body)))):
            yield found


def _rule_test(function: ast.FunctionDef, constants: Scope) -> RuleTest:
    statements = list(_live(function.body))
    rows = [row for each in function.decorator_list for row in _rows(each, constants)]
    scope = {**constants, **_parameters(function, constants)}
    for name, values in _assigned(statements).items():
        scope[name] = [*values, *(scope[name] if name not in constants and name in scope else [])]
    compared = [operand for each in statements for operand in _compared(each)]
    reached = list(_reached(compared, scope))
    marks = [*function.decorator_list, *rows]
    return RuleTest(
        function.name,
        frozenset(each for mark in marks for each in _marked(mark)),
        tuple(text for each in reached for text in _texts(each)),
        any(_is_empty(each, scope) for each in compared) or _runs_outside(statements),
        frozenset(_vectors(scope, function, reached)),
    )


def _live(statements: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield simple statements, and headers of blocks, that can be reached; no inner functions."""
    for each in statements:
        if isinstance(each, ast.FunctionDef | ast.ClassDef):
            continue
        if isinstance(each, ast.If | ast.While) and _is_false(each.test):
            yield from _live(each.orelse)
            continue
        yield each
        if isinstance(each, ast.Return | ast.Raise):
            return
        if not isinstance(each, ast.With) or not _is_raises(each):
            for block in ("body", "orelse", "finalbody"):
                yield from _live(getattr(each, block, []))


def _is_false(test: ast.expr) -> bool:
    return isinstance(test, ast.Constant) and not test.value


def _is_raises(node: ast.With) -> bool:
    return any(_callee(each.context_expr) == "raises" for each in node.items)


def _callee(node: ast.AST) -> str:
    """Return the last name of what is called, "" when node is no call."""
    if not isinstance(node, ast.Call):
        return ""
    return ast.unparse(node.func).rpartition(".")[2]


def _calls(node: ast.AST) -> set[str]:
    return {_callee(each) for each in ast.walk(node) if isinstance(each, ast.Call)}


def _calls_in(statement: ast.stmt, lambdas: Sequence[ast.Lambda]) -> bool:
    return any(each in lambdas for each in ast.walk(statement))


def skips(node: ast.AST) -> bool:
    """Say whether a mark or a statement keeps a test from running."""
    names = {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
    return bool(names & SKIPS) and "pytest" in {
        each.id for each in ast.walk(node) if isinstance(each, ast.Name)
    }


def _assigned(statements: Sequence[ast.stmt]) -> dict[str, list[ast.expr]]:
    """Return what each name is assigned, unpacked as far as it is written out."""
    found: dict[str, list[ast.expr]] = {}
    for each in statements:
        if isinstance(each, ast.Assign):
            pairs = [(target, each.value) for target in each.targets]
        elif isinstance(each, ast.AnnAssign) and each.value is not None:
            pairs = [(each.target, each.value)]
        elif isinstance(each, ast.For):
            items = each.iter.elts if isinstance(each.iter, ast.Tuple | ast.List) else [each.iter]
            pairs = [(each.target, item) for item in items]
        else:
            continue
        for target, value in pairs:
            for name, part in _unpacked(target, value):
                found.setdefault(name, []).append(part)
    return found


def _unpacked(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple):
        parts = value.elts if isinstance(value, ast.Tuple | ast.List) else []
        whole = parts if len(parts) == len(target.elts) else [value] * len(target.elts)
        for inner, part in zip(target.elts, whole, strict=True):
            yield from _unpacked(inner, part)


def _rows(decorator: ast.expr, constants: Scope) -> list[ast.expr]:
    """Return the written rows of a parametrization, those that are skipped left out."""
    if _callee(decorator) != "parametrize" or not isinstance(decorator, ast.Call):
        return []
    values = decorator.args[1]
    if isinstance(values, ast.Name) and values.id in constants:
        values = constants[values.id][-1]
    listed = values.elts if isinstance(values, ast.List | ast.Tuple) else [values]
    return [each for each in listed if not skips(each)]


def _parameters(function: ast.FunctionDef, constants: Scope) -> dict[str, list[ast.expr]]:
    found: dict[str, list[ast.expr]] = {}
    for decorator in function.decorator_list:
        rows = _rows(decorator, constants)
        if not rows or not isinstance(decorator, ast.Call):
            continue
        given = decorator.args[0]
        listed = given.elts if isinstance(given, ast.Tuple | ast.List) else [given]
        words = [str(each.value) for each in listed if isinstance(each, ast.Constant)]
        names = [name.strip() for word in words for name in word.split(",")]
        for row in rows:
            parts: list[ast.expr] = [row]
            if _callee(row) == "param" and isinstance(row, ast.Call):
                parts = row.args
            elif len(names) > 1 and isinstance(row, ast.Tuple | ast.List):
                parts = row.elts
            whole = parts if len(parts) == len(names) else [row] * len(names)
            for name, part in zip(names, whole, strict=True):
                found.setdefault(name, []).append(part)
    return found


def _compared(statement: ast.stmt) -> Iterator[ast.expr]:
    """Yield what a statement compares with something that was found."""
    if isinstance(statement, ast.With):
        for item in statement.items:
            if _callee(item.context_expr) == "raises" and isinstance(item.context_expr, ast.Call):
                yield from (each.value for each in item.context_expr.keywords)
    if not isinstance(statement, ast.Assert):
        return
    test = statement.test
    for each in test.values if isinstance(test, ast.BoolOp) else [test]:
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
            return
        if isinstance(each, ast.Compare) and all(isinstance(op, EQUAL) for op in each.ops):
            operands = [each.left, *each.comparators]
            if any(isinstance(inner, ast.Name) for one in operands for inner in ast.walk(one)):
                yield from operands


def _reached(expressions: Sequence[ast.expr], scope: Scope) -> Iterator[ast.expr]:
    """Yield expressions, and those that their names stand for."""
    seen: set[str] = set()
    waiting = list(expressions)
    while waiting:
        expression = waiting.pop()
        yield expression
        for each in ast.walk(expression):
            if isinstance(each, ast.Name) and each.id not in seen:
                seen.add(each.id)
                waiting += scope.get(each.id, ())


def _texts(node: ast.AST) -> Iterator[str]:
    """Yield strings, an f-string in one piece; backslashes of patterns left out."""
    if isinstance(node, ast.JoinedStr):
        parts = [each.value if isinstance(each, ast.Constant) else "{}" for each in node.values]
        yield "".join(map(str, parts)).replace("\\", "")
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value.replace("\\", "")
    for each in ast.iter_child_nodes(node):
        yield from _texts(each)


def _is_empty(node: ast.expr, scope: Scope, depth: int = 4) -> bool:
    """Say whether a value is, or may be, nothing: what a legal neighbour gives."""
    if isinstance(node, ast.Name) and depth:
        return any(_is_empty(each, scope, depth - 1) for each in scope.get(node.id, ()))
    if isinstance(node, ast.IfExp):
        decides = [each for each in ast.walk(node.test) if isinstance(each, ast.Name)]
        # "[] if message is None": only where some row has no message.
        if not any(_is_empty(each, scope, depth) for each in decides if each.id in scope):
            return False
        return any(_is_empty(each, scope, depth) for each in (node.body, node.orelse))
    if isinstance(node, ast.List | ast.Tuple):
        return not node.elts
    if isinstance(node, ast.Constant):
        return node.value is None or node.value == ""
    return _callee(node) == "set" and isinstance(node, ast.Call) and not node.args


def _runs_outside(statements: Sequence[ast.stmt]) -> bool:
    """Say whether something that is to raise also runs where raising would fail the test.

    What is to raise stands under pytest.raises, or in a lambda that is handed over.
    """
    simple = [each for each in statements if isinstance(each, ast.Expr | ast.Assert | ast.Assign)]
    lambdas = [
        inner for each in simple for inner in ast.walk(each) if isinstance(inner, ast.Lambda)
    ]
    blocks = [each for each in statements if isinstance(each, ast.With) and _is_raises(each)]
    raising = [*lambdas, *(each for block in blocks for each in block.body)]
    inside = {name for each in raising for name in _calls(each)}
    return any(_calls(each) & inside for each in simple if not _calls_in(each, lambdas))


def _marked(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Call) and ast.unparse(each.func) == "pytest.mark.rule":
            yield from (str(one.value) for one in each.args if isinstance(one, ast.Constant))


def _vectors(scope: Scope, function: ast.FunctionDef, reached: Sequence[ast.expr]) -> Iterator[str]:
    """Yield files that drive a test which compares with their messages and has neighbours pass."""
    words = {each.value for each in ast.walk(function) if isinstance(each, ast.Constant)}
    compared = {text for each in reached for text in _texts(each)}
    if "neighbour" not in words or "violations" not in compared:
        return
    rows = [row for each in function.decorator_list for row in _rows(each, scope)]
    for expression in _reached(rows, scope):
        for each in ast.walk(expression):
            if isinstance(each, ast.Call) and _callee(each) == "vectors" and each.args:
                yield from (str(one.value) for one in each.args if isinstance(one, ast.Constant))
