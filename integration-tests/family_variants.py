"""Small configurations of the families of rotary.toml, mixture.toml, older.toml and container.toml.

family_variants.json: `changed` has what differs from `base`; "(without)" names keys that are left
out. `inside` has the keys around the decoder, and what its own object has beside `text` (null: the
object is absent).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_DATA: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))


def _changed(changes: Mapping[str, Any]) -> dict[str, Any]:
    config = {**_DATA["base"], **changes}
    without = config.pop("(without)", ())
    return {key: value for key, value in config.items() if key not in without}


def _inside(outer: Mapping[str, Any], text: Mapping[str, Any] | None) -> dict[str, Any]:
    return dict(outer) if text is None else {**outer, "text_config": {**_DATA["text"], **text}}


FAMILY_VARIANTS: Mapping[str, Mapping[str, Any]] = {
    **{name: _changed(changes) for name, changes in _DATA["changed"].items()},
    **{name: _inside(**parts) for name, parts in _DATA["inside"].items()},
}
"""Configurations by their family and what is special about each."""
