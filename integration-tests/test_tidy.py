"""The repository keeps the house rules, and each rule notices what it is for.

`house_rules.py` holds the rules. Beside the check of the whole checkout there is one test for each
rule in which the smallest violation is planted.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path, PurePath

import pytest
from house_rules import RULES, check_file, check_tree

LONG_FUNCTION = "def long() -> None:\n" + "    pass\n" * 50
OPEN = "TO" + "DO"  # in two halves, or this file would break the rule that it tests
PLACEHOLDER = "NotImplemented" + "Error"
ELSEWHERE = "/ho" + "me/somebody"

PLANTED: tuple[tuple[str, str, str], ...] = (
    ("src/pa/a.py", "x = '" + "y" * 100 + "'\n", "columns"),
    ("src/pa/a.py", "x = 1\n" * 301, "301 lines, at most 300"),
    ("src/pa/kernel.cuh", "//\n" * 501, "501 lines, at most 500"),
    ("src/pa/store.cuh", "//\n" * 201, "201 lines, at most 200"),
    ("src/pa/launch.cu.in", "//\n" * 16, "16 lines, at most 15"),
    ("src/pa/a.py", LONG_FUNCTION, "long has 51 lines, at most 50"),
    ("src/pa/a.py", "def wide(a, b, c, d, e, *, f): ...\n", "wide has 6 parameters"),
    ("src/pa/__init__.py", "import os\n", "no docstring"),
    ("src/pa/__init__.py", '"""Doc."""\nx = 1\n', "only a docstring, imports and __all__"),
    ("src/pa/utils.py", "", "says nothing"),
    ("src/pa/a.py", "def f(cu_seqlens): ...\n", "cu_seqlens is cumulative_sequence_length here"),
    ("src/pa/a.py", "page_size = 16\n", "page_size is block_size here"),
    ("src/pa/a.py", "class BadError(Exception): ...\n", "name the event"),
    ("src/pa/a.py", f"# {OPEN}: later\n", "names its issue"),
    ("docs/a.md", f"{OPEN} write this\n", "names its issue"),
    ("src/pa/a.py", f"raise {PLACEHOLDER}\n", "placeholder"),
    ("docs/a.md", f"see {ELSEWHERE}/notes\n", "absolute local path"),
    ("src/pa/a.py", f"x = open('{ELSEWHERE}/x')\n", "absolute local path"),
)

ALLOWED: tuple[tuple[str, str], ...] = (
    ("src/pa/a.py", "def f(self, a, b, c, d, e): ...\n"),
    ("src/pa/tests/test_a.py", "def test_f(a, b, c, d, e, f): ...\n"),
    ("src/pa/a.py", "@torch.library.custom_op('pa::f')\ndef f(a, b, c, d, e, f): ...\n"),
    ("src/pa/a.py", "def f():\n    return config['num_kv_heads']\n"),
    ("src/pa/a.py", f"# {OPEN}(#12): later\n"),
    ("docs/a.md", "a/home/for, https://example.org/home/page and ./tmp/x are no local paths\n"),
    ("docs/a.md", "wide " * 100),
    ("src/pa/__init__.py", '"""Doc."""\n\nfrom pa.a import b\n\n__all__ = ["b"]\n'),
)


def test_the_repository_is_tidy(root: Path) -> None:
    found = check_tree(root)

    assert not found, "\n".join(found)


@pytest.mark.parametrize(("path", "text", "finding"), PLANTED)
def test_a_planted_violation_is_found(path: str, text: str, finding: str) -> None:
    found = list(check_file(PurePath(path), text.encode()))

    assert len(found) == 1, found
    assert finding in found[0]


@pytest.mark.parametrize(("path", "text"), ALLOWED)
def test_what_is_allowed_is_not_found(path: str, text: str) -> None:
    assert list(check_file(PurePath(path), text.encode())) == []


def test_every_rule_has_a_planted_violation() -> None:
    def finds(path: str, text: str) -> Iterator[str]:
        for rule in RULES:
            if list(rule(PurePath(path), text)):
                yield rule.__name__

    found = {name for path, text, _ in PLANTED for name in finds(path, text)}

    assert found == {rule.__name__ for rule in RULES}


@pytest.mark.parametrize(
    ("name", "content", "finding"),
    [
        ("weights.safetensors", b"text", "a binary file"),
        ("notes.md", b"one\0two", "a binary file"),
        ("vectors.json", b" " * 600_000, "at most 524288"),
    ],
)
def test_binaries_and_weights_are_found_in_a_checkout_and_links_are_not_followed(
    tmp_path: Path, name: str, content: bytes, finding: str
) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / name).write_bytes(content)
    (tmp_path / "link").symlink_to("folder")
    (tmp_path / f"link-to-{name}").symlink_to(Path("folder", name))

    found = check_tree(tmp_path)

    assert len(found) == 1
    assert found[0].startswith(f"folder/{name}: ")
    assert finding in found[0]


def test_what_git_ignores_is_not_looked_at(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    (tmp_path / ".gitignore").write_text("*.so\n")
    (tmp_path / "built.so").write_bytes(b"\0")

    assert check_tree(tmp_path) == []
