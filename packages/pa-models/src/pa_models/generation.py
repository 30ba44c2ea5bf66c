"""Sampling values that a checkpoint recommends."""

from __future__ import annotations

from dataclasses import dataclass

from pa_models.fields import Fields


@dataclass(frozen=True, slots=True)
class GenerationDefaults:
    """What generation_config.json says; None where it is silent.

    eos_token_ids: ids that end a turn, resolved over all files: generation_config.json's
    eos_token_id wins over config.json's; either may be one id or a list.
    """

    eos_token_ids: tuple[int, ...] = ()
    do_sample: bool | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    repetition_penalty: float | None = None
    max_new_tokens: int | None = None


def read_generation(file: Fields, eos_token_ids: tuple[int, ...]) -> GenerationDefaults:
    """Read a generation_config.json; eos_token_ids holds where the file has none."""
    own_eos = file.token_ids("eos_token_id")
    return GenerationDefaults(
        eos_token_ids=eos_token_ids if own_eos is None else own_eos,
        do_sample=file.flag("do_sample", default=False) if "do_sample" in file else None,
        temperature=file.number("temperature", above=-1.0) if "temperature" in file else None,
        top_k=file.count("top_k", least=0) if "top_k" in file else None,
        top_p=file.optional_number("top_p"),
        repetition_penalty=file.optional_number("repetition_penalty"),
        max_new_tokens=file.count("max_new_tokens") if "max_new_tokens" in file else None,
    )
