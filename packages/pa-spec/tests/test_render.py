from __future__ import annotations

from pathlib import Path

import pytest
from pa_spec import (
    backend_features,
    backends,
    checks,
    compatibility,
    error_codes,
    finding_kinds,
    host_quantities,
    invariants,
    metadata_facts,
    operator_inputs,
    rules,
)
from pa_spec.reference import pages
from pa_spec.render import main, stale_pages, write_pages

CHECKOUT = Path(__file__).parents[3]


def test_pages_in_the_checkout_are_current() -> None:
    assert stale_pages(CHECKOUT / "docs" / "reference") == []


def test_pages_say_that_they_are_generated_and_from_what() -> None:
    for page in pages().values():
        assert "This page is generated from `spec/`" in page.split("\n\n")[1]


def test_pages_mention_everything() -> None:
    written = pages()
    for name, ids in {
        "rules.md": list(rules()),
        "invariants.md": list(invariants()),
        "operator.md": [
            *(row.name for row in operator_inputs()),
            *(name for row in compatibility().values() for name in row.names),
            *host_quantities(),
            *(row.statement for row in metadata_facts().values()),
        ],
        "backends.md": [*backends(), *backend_features()],
        "findings.md": list(finding_kinds()),
        "engine.md": [*checks(), *(row.name for row in error_codes())],
    }.items():
        missing = [each for each in ids if each not in written[name]]
        assert missing == [], name


def test_rows_of_a_table_have_as_many_cells_as_its_head() -> None:
    for name, page in pages().items():
        for block in page.split("\n\n"):
            lines = [line.replace("\\|", "") for line in block.splitlines() if line[:1] == "|"]
            assert len({line.count("|") for line in lines}) <= 1, (name, lines[:1])


def test_check_accepts_what_write_wrote_and_names_what_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "reference"
    assert main(["--write", str(folder)]) == 0
    assert main(["--check", str(folder)]) == 0

    (folder / "rules.md").write_text("older")
    (folder / "engine.md").unlink()
    (folder / "strange.md").write_text("left over")

    assert main(["--check", str(folder)]) == 1
    stale = [line.split()[0] for line in capsys.readouterr().err.splitlines()]
    assert stale == ["engine.md", "rules.md", "strange.md"]


def test_folder_defaults_to_the_one_of_the_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["--check"]) == 1

    write_pages(tmp_path / "docs" / "reference")

    assert main(["--check"]) == 0
