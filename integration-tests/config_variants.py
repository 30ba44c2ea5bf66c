"""Variants of small configurations, one thing changed in each, as config_variants.json has them.

changed: keys that differ from `base`; "(without)" names those that are left out. whole: complete
configurations. accepted: what transformers refuses and this project takes; refused: the opposite;
each with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_DATA: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))


def _config(changes: Mapping[str, Any]) -> dict[str, Any]:
    config = {**_DATA["base"], **changes}
    without = config.pop("(without)", ())
    return {key: value for key, value in config.items() if key not in without}


VARIANTS: Mapping[str, Mapping[str, Any]] = {
    **{name: _config(changes) for name, changes in _DATA["changed"].items()},
    **_DATA["whole"],
}
"""Configurations by what is special about each."""

ACCEPTED: Mapping[str, str] = _DATA["accepted"]
REFUSED: Mapping[str, str] = _DATA["refused"]
