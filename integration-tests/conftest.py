"""What integration tests share: the checkout, and the switch for the distribution tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from checkout import ROOT


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--distributions",
        type=Path,
        metavar="FOLDER",
        help="built wheels; without them test_distributions.py is not part of the run",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the distribution tests to the session that builds the wheels for them."""
    is_theirs = collection_path.name == "test_distributions.py"
    return True if is_theirs and config.getoption("distributions") is None else None


@pytest.fixture(scope="session")
def root() -> Path:
    """Return the checkout."""
    return ROOT
