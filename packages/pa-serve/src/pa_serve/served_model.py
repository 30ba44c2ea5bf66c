"""A model that was loaded to be served, as the commands use it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from pa_engine import Engine, TorchExecutor
from pa_models import ChatTemplate, LoadedModel, Tokenizer, find_model, load_model
from pa_spec import ElementType, EngineConfig, InputUnusable

from pa_serve.batch_server import Codec, PromptEngine
from pa_serve.prompt_line import Given


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A checkpoint's decoder, tokenizer and template, and where it came from.

    Its decoder belongs to one engine at a time: the one made last.
    """

    path: Path
    loaded: LoadedModel

    @classmethod
    def load(cls, name: str, element_type: ElementType) -> ServedModel:
        """Load a folder, a GGUF file or smollm2; raises InputUnusable."""
        path = find_model(name)
        return cls(path, load_model(path, element_type.value))

    @property
    def attention_backends(self) -> tuple[str, ...]:
        """Names of the attention backends that have computed something."""
        calls = self.loaded.decoder.attention_backends
        return tuple(sorted(name for name, count in calls.items() if count))

    def engine(self, config: EngineConfig) -> PromptEngine:
        """Make an engine that runs this model; raises InputUnusable."""
        try:
            return Engine(TorchExecutor(self.loaded.decoder), config)
        except (MemoryError, RuntimeError) as error:
            # torch's CPU allocator raises a RuntimeError without a class of its own.
            if not isinstance(error, MemoryError) and "allocate memory" not in str(error):
                raise
            limits = f"{config.max_batch_size} rows and {config.max_scheduled_tokens} tokens a step"
            allowed = "a smaller max_batch_size or max_scheduled_tokens"
            raise InputUnusable("engine", f"no memory for {limits}", allowed) from error

    def codec(self, *, chat: bool) -> Codec:
        """Return the way from prompts to tokens and back; raises InputUnusable."""
        tokenizer = self.loaded.tokenizer
        if not chat:
            return TextCodec(tokenizer)
        template = self.loaded.chat_template
        if template is None:
            allowed = "a model whose checkpoint has one, or no --chat"
            raise InputUnusable(f"--chat: {self.path}", "has no chat template", allowed)
        return ChatCodec(tokenizer, template)


@final
class TextCodec:
    """Prompts are texts that the model continues."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def encode(self, given: Given) -> Sequence[int]:
        """Return the tokens of a text."""
        if not isinstance(given, str):
            raise InputUnusable("messages", "given without --chat", "a prompt")
        return self._tokenizer.encode(given)

    def decode(self, prompt: Sequence[int], generated: Sequence[int]) -> str:
        """Return the text that the generated tokens add to the prompt's."""
        return _added_text(self._tokenizer, prompt, generated)


@final
class ChatCodec:
    """Prompts are conversations that the model answers; a text is a user's only message."""

    def __init__(self, tokenizer: Tokenizer, template: ChatTemplate) -> None:
        self._tokenizer = tokenizer
        self._template = template

    def encode(self, given: Given) -> Sequence[int]:
        """Return the tokens of the conversation as the model's template writes it."""
        messages = [{"role": "user", "content": given}] if isinstance(given, str) else given
        text = self._template.render(messages)
        return self._tokenizer.encode(text, add_special=False)

    def decode(self, prompt: Sequence[int], generated: Sequence[int]) -> str:
        """Return the text of the answer."""
        return _added_text(self._tokenizer, prompt, generated)


def _added_text(tokenizer: Tokenizer, prompt: Sequence[int], generated: Sequence[int]) -> str:
    stream = tokenizer.stream(prompt)
    return stream.put_many(generated) + stream.finish()
