"""The check of a Hugging Face folder: what its files say, alone and against each other."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pa_spec.checker.finding import Findings, Place
from pa_spec.checker.huggingface.config.resolve import resolve_config
from pa_spec.checker.huggingface.generation import check_generation
from pa_spec.checker.huggingface.tokenizer.eos import eos_sources, resolve_eos
from pa_spec.checker.huggingface.tokenizer.file import read_tokenizer
from pa_spec.checker.huggingface.weights.check import check_weights
from pa_spec.checker.huggingface.weights.stored_weights import read_weights
from pa_spec.checker.meaning import ModelMeaning
from pa_spec.checker.report import CheckOptions
from pa_spec.checker.source import read_json
from pa_spec.checker.text import shown

CONFIG = "config.json"
GENERATION = "generation_config.json"


def check_huggingface_folder(
    folder: Path, findings: Findings, options: CheckOptions
) -> ModelMeaning | None:
    """Check a folder with config.json; return what it means, None when that cannot be resolved.

    The folder's other files are checked in any case, as far as they can be without the meaning.
    """
    del options  # how strict a check is, and what is to fit, is decided where it is reported
    config = read_json(folder / CONFIG, findings, CONFIG)
    meaning = None
    if config is not None:
        meaning = resolve_config(config, findings, Place(CONFIG))
    generation, is_known = _generation(folder, findings)
    tokenizer = read_tokenizer(folder, meaning.vocab_size if meaning else None, findings)
    weights = read_weights(folder, findings)
    if config is None or meaning is None:
        return None
    _check_begin(config, meaning, findings)
    sources = eos_sources(config, generation, findings)
    if is_known:
        eos = resolve_eos(sources, tokenizer, meaning.vocab_size, findings)
        meaning = replace(meaning, eos=eos)
    if weights is None:
        return meaning
    check_weights(config, meaning, weights, findings)
    return replace(meaning, weight_bytes=weights.num_bytes) if weights.is_complete else meaning


def _generation(folder: Path, findings: Findings) -> tuple[Mapping[str, Any] | None, bool]:
    """Return generation_config.json, and whether what it says is known: nothing, if absent."""
    if not os.path.lexists(folder / GENERATION):
        return None, True
    document = read_json(folder / GENERATION, findings, GENERATION)
    if document is None:
        return None, False
    check_generation(document, findings)
    return document, True


def _check_begin(config: Mapping[str, Any], meaning: ModelMeaning, findings: Findings) -> None:
    begin = config.get("bos_token_id")
    if type(begin) is int and not 0 <= begin < meaning.vocab_size:
        place = Place(CONFIG, "bos_token_id")
        kind = "tokenizer.special_beyond_vocabulary"
        values = {"vocab_size": meaning.vocab_size}
        findings.add(kind, place, "bos_token_id", shown(begin), **values)
