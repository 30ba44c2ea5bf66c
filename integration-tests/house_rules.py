"""The house rules of sizes, names and contents, as functions of one file's path and text.

Each rule yields what it found, readable and with a line number where there is one. `check_tree`
applies all of them to a checkout; test_tidy.py plants one violation for each.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path, PurePath

Rule = Callable[[PurePath, str], Iterator[str]]

MAX_LINE = 100
MAX_MODULE_LINES = 300
MAX_FUNCTION_LINES = 50
MAX_PARAMETERS = 5
MAX_FILE_BYTES = 512 * 1024  # text never is so large; weights, recordings and builds are
MAX_CPP_LINES = {"kernel.cuh": 500}
MAX_OTHER_CPP_LINES = 200
MAX_UNIT_LINES = 15  # a generated compile unit, by its template
CPP_SUFFIXES = {".cu", ".cuh", ".h", ".cpp", ".inc"}
BINARY_SUFFIXES = {".bin", ".gguf", ".npy", ".npz", ".onnx", ".pt", ".safetensors", ".so", ".whl"}
# Other projects' words for what has a name here, see the table of names in docs/glossary.md.
FOREIGN_NAMES = {
    "block_tables": "block_table",
    "context_lens": "past_seqlens",
    "cu_seqlens": "cumulative_sequence_length",
    "num_kv_heads": "kv_num_heads",
    "num_qo_heads": "num_heads",
    "page_size": "block_size",
    "page_table": "block_table",
    "seq_lens": "sequence_tokens",
    "sm_scale": "scale",
    "softmax_scale": "scale",
}
VAGUE_MODULES = {"common", "helper", "helpers", "manager", "misc", "util", "utils"}
LOCAL_PATH = re.compile(r"(?<![\w./<>~:}-])/(?:home|mnt|opt|root|tmp|Users|work|workspace)/\w")
# Written so that they do not find themselves.
OPEN_TASK = re.compile(r"\b(?:TO[D]O|FIX[M]E|X{3}|HA[C]K)\b(?!\(#\d+\))")
PLACEHOLDER = re.compile(r"raise NotImplemented[E]rror\b")


def lines_are_short(path: PurePath, text: str) -> Iterator[str]:
    """Refuse lines over 100 columns in sources."""
    if path.suffix in {".py", *CPP_SUFFIXES}:
        for number, line in enumerate(text.splitlines(), 1):
            if len(line) > MAX_LINE:
                yield f"line {number} has {len(line)} columns, at most {MAX_LINE}"


def modules_are_small(path: PurePath, text: str) -> Iterator[str]:
    """Refuse modules, kernels and compile units over their sizes."""
    lines = len(text.splitlines())
    if path.suffix == ".py":
        most = MAX_MODULE_LINES
    elif path.suffix in CPP_SUFFIXES:
        most = MAX_CPP_LINES.get(path.name, MAX_OTHER_CPP_LINES)
    elif path.name.endswith(".cu.in"):
        most = MAX_UNIT_LINES
    else:
        return
    if lines > most:
        yield f"{lines} lines, at most {most}"


def functions_are_small(path: PurePath, text: str) -> Iterator[str]:
    """Refuse functions over 50 lines or, outside tests, over five parameters."""
    for function in _functions(path, text):
        lines = (function.end_lineno or function.lineno) - function.lineno + 1
        if lines > MAX_FUNCTION_LINES:
            yield f"{function.name} has {lines} lines, at most {MAX_FUNCTION_LINES}"
        if not _is_test(path) and not _is_operator(function):
            count = len(_parameters(function))
            if count > MAX_PARAMETERS:
                yield f"{function.name} has {count} parameters, at most {MAX_PARAMETERS}"


def packages_only_export(path: PurePath, text: str) -> Iterator[str]:
    """Refuse anything but a docstring, imports and __all__ in `__init__.py`."""
    if path.name != "__init__.py":
        return
    first, *others = ast.parse(text).body or [ast.Pass(lineno=1, col_offset=0)]
    if not (isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)):
        yield "no docstring"
        others = [first, *others]
    for statement in others:
        is_import = isinstance(statement, ast.Import | ast.ImportFrom)
        is_export = ast.unparse(statement).startswith("__all__ = ")
        if not is_import and not is_export:
            yield f"line {statement.lineno}: only a docstring, imports and __all__ belong here"


def names_are_ours(path: PurePath, text: str) -> Iterator[str]:
    """Refuse vague module names, other projects' words, and errors that are not events."""
    if path.suffix != ".py":
        return
    if path.stem in VAGUE_MODULES:
        yield f"{path.stem} says nothing about what is inside"
    for node in ast.walk(ast.parse(text)):
        defined = _defined_name(node)
        if defined in FOREIGN_NAMES:
            yield f"line {getattr(node, 'lineno', 0)}: {defined} is {FOREIGN_NAMES[defined]} here"
        is_error = isinstance(node, ast.ClassDef) and node.name.endswith("Error")
        if is_error and defined != "PagedAttentionError":
            yield f"line {getattr(node, 'lineno', 0)}: {defined}: name the event, without Error"


def nothing_is_left_open(path: PurePath, text: str) -> Iterator[str]:
    """Refuse open tasks without an issue number, and placeholders in sources."""
    for number, line in enumerate(text.splitlines(), 1):
        if OPEN_TASK.search(line):
            yield f"line {number}: an open task names its issue: (#123)"
        if path.suffix == ".py" and PLACEHOLDER.search(line):
            yield f"line {number}: a placeholder"


def paths_are_portable(path: PurePath, text: str) -> Iterator[str]:
    """Refuse absolute paths of somebody's machine."""
    del path
    for number, line in enumerate(text.splitlines(), 1):
        if LOCAL_PATH.search(line):
            yield f"line {number}: an absolute local path"


RULES: tuple[Rule, ...] = (
    lines_are_short,
    modules_are_small,
    functions_are_small,
    packages_only_export,
    names_are_ours,
    nothing_is_left_open,
    paths_are_portable,
)


def content_is_text(path: PurePath, content: bytes) -> Iterator[str]:
    """Refuse binaries and files as large as weights."""
    if path.suffix in BINARY_SUFFIXES or b"\0" in content:
        yield "a binary file"
    if len(content) > MAX_FILE_BYTES:
        yield f"{len(content)} bytes, at most {MAX_FILE_BYTES}"


def check_file(path: PurePath, content: bytes) -> Iterator[str]:
    """Yield every finding in one file, given by its path in the repository."""
    found = list(content_is_text(path, content))
    if not found:
        text = content.decode("utf-8")
        found = [each for rule in RULES for each in rule(path, text)]
    yield from (f"{path}: {each}" for each in found)


def check_tree(root: Path) -> list[str]:
    """Return every finding in the files that git tracks or would add; links count once."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, capture_output=True, check=True, text=True)
    names = sorted({each for each in listed.stdout.split("\0") if each})
    files = [root / each for each in names]
    return [
        finding
        for each in files
        if each.is_file() and not each.is_symlink()
        for finding in check_file(each.relative_to(root), each.read_bytes())
    ]


def _functions(path: PurePath, text: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    if path.suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    arguments = function.args
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return [each for each in names if each not in {"self", "cls"}]


def _is_test(path: PurePath) -> bool:
    return bool({"tests", "integration-tests"} & set(path.parts))


def _is_operator(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Say whether torch.library dictates the parameters (an operator or its fake)."""
    decorators = " ".join(ast.unparse(each) for each in function.decorator_list)
    return "custom_op" in decorators or "register_fake" in decorators


def _defined_name(node: ast.AST) -> str:
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name):
            return name
        case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            return name
        case _:
            return ""
