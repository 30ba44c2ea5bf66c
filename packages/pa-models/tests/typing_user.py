"""A user's code, which must type-check: `mypy --strict` reads it, nothing runs it."""

from __future__ import annotations

from collections.abc import Mapping

from pa_models import (
    ChatTemplate,
    GenerationDefaults,
    LlamaDecoder,
    LoadedModel,
    StreamDecoder,
    Tokenizer,
    load_decoder,
    load_model,
)
from pa_spec import Decoder
from torch import Tensor


def use(path: str) -> str:
    model: LoadedModel = load_model(path, dtype="bfloat16", device="cpu")
    decoder: Decoder[Tensor] = model.decoder
    backends: Mapping[str, int] = model.decoder.attention_backends
    tokenizer: Tokenizer = model.tokenizer
    template: ChatTemplate | None = model.chat_template
    defaults: GenerationDefaults = model.generation_defaults
    prompt: list[int] = tokenizer.encode("text", add_special=True)
    stream: StreamDecoder = tokenizer.stream(prompt)
    text: str = stream.put(prompt[0]) + stream.finish() + tokenizer.decode(prompt)
    if template is not None:
        text += template.render([{"role": "user", "content": text}], tools=None)
    limits: tuple[int, ...] = (*decoder.config.eos_token_ids, *defaults.eos_token_ids)
    return f"{text} {limits} {backends} {model.name}"


def only_the_decoder(path: str) -> LlamaDecoder:
    return load_decoder(path)
