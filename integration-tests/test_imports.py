"""Packages import each other only along the arrows, from their roots, and as they declare."""

from __future__ import annotations

from pathlib import Path

import pytest
from import_rules import (
    ARROWS,
    declared_by,
    imported_distributions,
    imports_below,
    inner_imports,
    requirements_of,
    version_of,
    wrong_arrows,
)

every_package = pytest.mark.parametrize("package", sorted(ARROWS))


def test_the_arrows_name_every_package(root: Path) -> None:
    assert sorted(ARROWS) == sorted(each.name for each in (root / "packages").iterdir())


@every_package
def test_sources_and_tests_follow_the_arrows(root: Path, package: str) -> None:
    assert list(wrong_arrows(package, imports_below(root / "packages" / package))) == []


@every_package
def test_sources_and_tests_import_other_packages_from_their_roots(root: Path, package: str) -> None:
    assert list(inner_imports(package, imports_below(root / "packages" / package))) == []


def test_integration_tests_import_packages_from_their_roots(root: Path) -> None:
    assert list(inner_imports("none", imports_below(root / "integration-tests"))) == []


@every_package
def test_what_is_imported_is_declared_and_what_is_declared_is_imported(
    root: Path, package: str
) -> None:
    folder = root / "packages" / package
    declared = declared_by(folder / "pyproject.toml")

    imported = imported_distributions(imports_below(folder / "src"), package)

    assert imported - declared.optional == declared.required - declared.optional


@every_package
def test_siblings_are_declared_as_ranges_that_admit_them_as_they_are(
    root: Path, package: str
) -> None:
    for requirement in requirements_of(root / "packages" / package / "pyproject.toml"):
        if requirement.name in ARROWS:
            operators = sorted(each.operator for each in requirement.specifier)
            assert operators == ["<", ">="], f"{requirement}: a range, so that patches fit"
            assert requirement.specifier.contains(version_of(root, requirement.name))


@pytest.mark.parametrize(
    ("text", "arrow", "inner"),
    [
        ("from pa_engine import Engine\n", 1, 0),
        ("def f():\n    import pa_serve.cli\n", 1, 1),
        ("from pa_spec.plan import StepPlan\n", 0, 1),
        ("from pa_spec import StepPlan\nfrom pa_cache.pool import Pool\n", 0, 0),
        ("from pa_spec.testing import example\n", 0, 0),
        ("from . import pool\nimport numpy.typing\n", 0, 0),
    ],
)
def test_a_planted_import_is_found(tmp_path: Path, text: str, arrow: int, inner: int) -> None:
    (tmp_path / "planted.py").write_text(text)

    assert len(list(wrong_arrows("pa-cache", imports_below(tmp_path)))) == arrow
    assert len(list(inner_imports("pa-cache", imports_below(tmp_path)))) == inner


def test_a_planted_dependency_is_found_both_when_undeclared_and_when_unused(
    tmp_path: Path,
) -> None:
    (tmp_path / "planted.py").write_text("import json\nimport numpy as np\nimport pytest\n")
    (tmp_path / "pyproject.toml").write_text(
        '[project]\ndependencies = ["NumPy>=1.26", "torch[x]>=2; python_version>\'3\'"]\n'
    )
    declared = declared_by(tmp_path / "pyproject.toml").required

    imported = imported_distributions(imports_below(tmp_path), "pa-cache")

    assert imported - declared == {"pytest"}
    assert declared - imported == {"torch"}
