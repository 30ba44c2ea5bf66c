"""The configuration that an exported model is compared with: where it is, what it means."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pa_spec.checker.finding import Findings, Place
from pa_spec.checker.meaning import ModelMeaning
from pa_spec.checker.report import CheckOptions
from pa_spec.checker.source import read_json

_CONFIG = "config.json"
_GENERATION = "generation_config.json"


@dataclass(frozen=True, slots=True)
class Reference:
    """What a model's own files say. folder: where they are; meaning.eos: ids that end a turn."""

    folder: Path
    meaning: ModelMeaning


def read_reference(folder: Path, options: CheckOptions, findings: Findings) -> Reference | None:
    """Return what an exported folder is compared with; None where there is none or it is reported.

    Its own faults are not the export's: `pa-spec check` of that folder says them.
    """
    path = _path(folder, options)
    if path is None:
        return None
    config = read_json(path, findings, _shown_path(path, options))
    if config is None:
        return None
    from pa_spec.checker.huggingface.config.resolve import resolve_config

    place, unheard = Place(_shown_path(path, options)), Findings()
    meaning = resolve_config(config, unheard, place)
    if meaning is None:
        reason = next((str(each) for each in unheard), "it says too little")
        findings.add("exported.no_comparison", place, _CONFIG, reason)
        return None
    return Reference(path.parent, replace(meaning, eos=_eos(path, config, meaning)))


def tokenizer_eos(reference: Reference, exported: Path) -> frozenset[int]:
    """Return the ids that the tokenizers beside either configuration end a turn with."""
    from pa_spec.checker.huggingface.tokenizer.file import read_tokenizer

    found = set()
    for folder in dict.fromkeys((reference.folder, exported)):
        facts = read_tokenizer(folder, reference.meaning.vocab_size, Findings())
        if facts.eos_id is not None:
            found.add(facts.eos_id)
    return frozenset(found)


def _path(folder: Path, options: CheckOptions) -> Path | None:
    if options.reference_config is None:
        beside = folder / _CONFIG
        return beside if os.path.lexists(beside) else None
    given = Path(options.reference_config)
    try:
        return given / _CONFIG if given.is_dir() else given
    except (OSError, ValueError):
        return given


def _shown_path(path: Path, options: CheckOptions) -> str:
    return _CONFIG if options.reference_config is None else str(path)


def _eos(path: Path, config: Mapping[str, Any], meaning: ModelMeaning) -> Any:
    from pa_spec.checker.huggingface.tokenizer.eos import eos_sources, resolve_eos

    unheard = Findings()
    beside = path.parent / _GENERATION
    is_there = path.name == _CONFIG and os.path.lexists(beside)
    generation = read_json(beside, unheard, _GENERATION) if is_there else None
    sources = eos_sources(config, generation, unheard)
    return resolve_eos(sources, None, meaning.vocab_size, unheard)
