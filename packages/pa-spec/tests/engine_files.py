"""Engine configuration files for tests: written, checked as a user does, and what was found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pa_spec.checker import Report, TargetKind, check_model

LIMITS = ("block_size", "num_blocks", "max_batch_size", "max_scheduled_tokens")


def check_json(tmp_path: Path, document: object) -> Report:
    path = tmp_path / "engine.json"
    path.write_text(json.dumps(document))
    report = check_model(path)
    assert report.kind is TargetKind.ENGINE_CONFIGURATION
    return report


def found_in(report: Report) -> list[str]:
    return [str(each) for each in report.findings]


def dynamic(**values: object) -> dict[str, Any]:
    return {"engine": {"dynamic_batching": values}}
