"""What .ci/ runs beside nox: the release check, the check of spec/ and the summed closing line."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from datetime import date
from pathlib import Path
from types import ModuleType

import pytest
from checkout import ROOT

TODAY = date(2026, 5, 17)


def load(name: str) -> ModuleType:
    """Import a script of .ci/, which is no package."""
    specification = importlib.util.spec_from_file_location(name, ROOT / ".ci" / f"{name}.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a repository of two packages in which pa-cache 0.2.0 is ready to be released."""
    for name, version, dependencies in (
        ("pa-spec", "0.1.3", []),
        ("pa-cache", "0.2.0", ["pa-spec>=0.1,<0.2", "numpy"]),
    ):
        package = tmp_path / "packages" / name
        sources = package / "src" / name.replace("-", "_")
        sources.mkdir(parents=True)
        (sources / "_version.py").write_text(f'__version__ = "{version}"\n')
        (package / "pyproject.toml").write_text(
            f"[project]\ndependencies = {json.dumps(dependencies)}\n"
        )
        (package / "CHANGELOG.md").write_text(
            f"# Changelog\n\n## Unreleased\n\n## {version} - {TODAY}\n\n- News.\n"
        )
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    for tag in ("pa-spec-v0.1.3", "pa-cache-v0.1.9", "pa-cache-v0.1.10"):
        git(tmp_path, "tag", "-a", tag, "-m", tag)
    return tmp_path


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=Somebody", "-c", "user.email=somebody@example.org"]
    subprocess.run(["git", "-C", folder, *identity, *arguments], check=True)


def commit(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "As it is")


def edit(file: Path, old: str, new: str) -> None:
    file.write_text(file.read_text().replace(old, new))


def test_a_package_that_is_ready_has_no_obstacles_and_gets_its_tag(repository: Path) -> None:
    release = load("release")

    assert list(release.obstacles_to(repository, "pa-cache", TODAY)) == []
    assert release.tag_commands(repository, "pa-cache") == [
        "git tag -a pa-cache-v0.2.0 -m 'pa-cache-v0.2.0'",
        "git push origin pa-cache-v0.2.0",
    ]


@pytest.mark.parametrize(
    ("file", "old", "new", "obstacle"),
    [
        ("src/pa_cache/_version.py", "0.2.0", "0.1.10", "0.1.10 does not follow the last tag"),
        ("CHANGELOG.md", str(TODAY), "2026-05-16", "no section '## 0.2.0 - 2026-05-17'"),
        ("pyproject.toml", ">=0.1,<0.2", ">=0.2,<0.3", "leaves out the released pa-spec 0.1.3"),
    ],
)
def test_each_obstacle_is_named(
    repository: Path, file: str, old: str, new: str, obstacle: str
) -> None:
    edit(repository / "packages" / "pa-cache" / file, old, new)
    commit(repository)

    found = list(load("release").obstacles_to(repository, "pa-cache", TODAY))

    assert any(obstacle in each for each in found), found


def test_a_tree_that_is_not_clean_and_a_sibling_without_release_are_obstacles(
    repository: Path,
) -> None:
    (repository / "new.txt").write_text("new\n")
    git(repository, "tag", "-d", "pa-spec-v0.1.3")

    found = list(load("release").obstacles_to(repository, "pa-cache", TODAY))

    assert found == [
        "the tree is not clean: ?? new.txt",
        "pa-spec has no release yet; release it first",
    ]


def test_the_closing_line_is_the_sum_in_the_form_of_pytest() -> None:
    log = (
        "============ 38 passed in 3.52s ============\n"
        "nox > Session tests was successful\n"
        "\x1b[32m=== \x1b[32m\x1b[1m2 failed\x1b[0m, 10 passed, 1 warning in 61.25s (0:01:01) ===\n"
        "===== 3 skipped, 1 deselected in 0.10s =====\n"
        "mentions 5 passed in 2.00s\n"
    )

    line = load("closing_line").sum_of(log)

    assert line.strip("= ") == (
        "2 failed, 48 passed, 3 skipped, 1 deselected, 1 warnings in 64.87s"
    )
    with pytest.raises(ValueError, match="no closing line"):
        load("closing_line").sum_of("nothing\n")


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        ({"rules.toml": '[[rule]]\nid = "V1"\n[[rule]]\nid = "V1"\n'}, "id V1 is given 2 times"),
        ({"rules.toml": "[[rule]]\nid = 1\n"}, "rules.toml: $.rule[0].id: 1 is not of type"),
        ({"rules.toml": "", "more.toml": ""}, "more.toml: obeys no schema"),
        ({"schemas/rules.schema.json": '{"type": 5}'}, "rules.schema.json: "),
    ],
)
def test_a_planted_fault_of_the_contract_is_found(
    tmp_path: Path, files: dict[str, str], fault: str
) -> None:
    whole = {
        "schemas/index.toml": '[[schema]]\npattern = "rules.toml"\nschema = "rules"\n',
        "schemas/rules.schema.json": json.dumps(
            {"properties": {"rule": {"items": {"properties": {"id": {"type": "string"}}}}}}
        ),
        "rules.toml": '[[rule]]\nid = "V1"\n',
    }
    (tmp_path / "schemas").mkdir()
    for name, text in {**whole, **files}.items():
        (tmp_path / name).write_text(text)

    script = [sys.executable, str(ROOT / ".ci" / "check_spec.py"), str(tmp_path)]
    result = subprocess.run(script, capture_output=True, check=False, text=True)

    assert result.returncode == 1
    assert fault in result.stderr
