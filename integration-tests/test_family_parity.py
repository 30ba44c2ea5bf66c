"""The newer tables of families say what transformers' own modelling code does.

Method: as in test_config_parity.py; each family of these tables, and each larger configuration that
holds a decoder, has at least one small configuration here. What transformers refuses is refused.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from family_variants import FAMILY_VARIANTS
from hybrid_variants import VARIANTS as HYBRIDS
from test_config_parity import assert_same, resolve, seen_or_reason

TABLES = ("rotary", "mixture", "older", "container")


@pytest.mark.parametrize("name", sorted(FAMILY_VARIANTS))
def test_a_family_resolves_to_what_transformers_uses(name: str, tmp_path: Path) -> None:
    config = FAMILY_VARIANTS[name]

    meaning, heavy = resolve(config, tmp_path)

    seen, reason = seen_or_reason(config)
    if seen is None:
        assert meaning is None, reason
        return
    assert meaning is not None, heavy
    assert_same(meaning, seen)


def test_every_row_of_the_newer_tables_has_a_configuration(root: Path) -> None:
    tables = [
        tomllib.loads((root / "spec" / "models" / f"{each}.toml").read_text("utf-8"))
        for each in TABLES
    ]
    rows = [row for table in tables for kind in ("family", "nested") for row in table.get(kind, ())]
    configs = (*FAMILY_VARIANTS.values(), *(each.config for each in HYBRIDS))
    tried = {str(config["model_type"]) for config in configs}
    held = {f"{model_type}_text" for model_type in tried}

    assert {row["model_type"] for row in rows} <= tried | held
