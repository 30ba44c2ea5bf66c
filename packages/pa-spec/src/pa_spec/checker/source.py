"""Reading what somebody else wrote: bounded, and with a finding instead of an exception."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pa_spec.checker.finding import Findings, Place

MAX_JSON_BYTES = 64 * 2**20
"""A tokenizer.json of a large vocabulary has about 20 MiB; nothing else comes near it."""


def read_json(path: Path, findings: Findings, file: str) -> Mapping[str, Any] | None:
    """Return a JSON object, or None after reporting why there is none.

    file: what findings call it (Place.file).
    """
    place = Place(file)
    try:
        size = path.stat().st_size
        if size > MAX_JSON_BYTES:
            findings.add("file.too_large", place, path.name, f"{size} bytes", most=MAX_JSON_BYTES)
            return None
        value = json.loads(path.read_bytes().decode("utf-8"))
    except OSError as error:
        findings.add("file.unreadable", place, path.name, error.strerror or str(error))
        return None
    except (ValueError, RecursionError) as error:
        findings.add("file.not_json", place, path.name, str(error) or "too deeply nested")
        return None
    if not isinstance(value, dict):
        findings.add("file.not_json", place, path.name, f"a JSON {type(value).__name__}")
        return None
    return value
