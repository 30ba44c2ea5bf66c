"""Text to tokens and back."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import final

import tokenizers
from pa_spec import InputUnusable

from pa_models.stream import StreamDecoder
from pa_models.token_bytes import TokenBytes


@final
class Tokenizer:
    """A checkpoint's tokenizer.

    backend: the `tokenizers` object. bos_token: its text, None when the model has none. add_bos:
    whether a text starts with it; None leaves that to the backend's own post-processor.
    """

    def __init__(
        self,
        backend: tokenizers.Tokenizer,
        name: str = "tokenizer",
        *,
        bos_token: str | None = None,
        add_bos: bool | None = None,
    ) -> None:
        self.backend = backend
        self.name = name
        self.bos_token = bos_token
        self._bos_id = None if bos_token is None else backend.token_to_id(bos_token)
        self._add_bos = add_bos
        self._bytes = TokenBytes(backend, name)
        self._special = frozenset(
            token for token, added in backend.get_added_tokens_decoder().items() if added.special
        )
        if add_bos and self._bos_id is None:
            raise InputUnusable(f"{name}: bos_token", f"{bos_token!r} is not in the vocabulary")

    def __repr__(self) -> str:
        return f"Tokenizer({self.name!r}, vocab_size={self.vocab_size}, bos={self.bos_token!r})"

    @property
    def vocab_size(self) -> int:
        """Tokens it knows, added ones included; a model's output may be wider."""
        return self.backend.get_vocab_size(with_added_tokens=True)

    @property
    def bos_token_id(self) -> int | None:
        """The id that a text starts with, in models that have one."""
        return self._bos_id

    @property
    def special_ids(self) -> frozenset[int]:
        """Ids of control tokens, which stand for no text."""
        return self._special

    def token_id(self, token: str) -> int | None:
        """Return the id of one token's text, None when it is not in the vocabulary."""
        return self.backend.token_to_id(token)

    def encode(self, text: str, *, add_special: bool = True) -> list[int]:
        """Return the tokens of a text, with what the model puts around a text if add_special.

        Control tokens written in the text are recognized. A chat template writes them itself:
        encode its result with add_special=False.
        """
        ids = self.backend.encode(text, add_special_tokens=add_special).ids
        if not add_special or self._add_bos is None or self._bos_id is None:
            return list(ids)
        body = list(itertools.dropwhile(lambda token: token == self._bos_id, ids))
        return [self._bos_id, *body] if self._add_bos else body

    def decode(self, tokens: Iterable[int], *, skip_special: bool = True) -> str:
        """Return the text of tokens; bytes that form no character become U+FFFD."""
        stream = self.stream(skip_special=skip_special)
        return stream.put_many(tokens) + stream.finish()

    def stream(self, prompt: Sequence[int] = (), *, skip_special: bool = True) -> StreamDecoder:
        """Start to turn the tokens that follow a prompt into text, one by one."""
        return StreamDecoder(self._bytes, prompt, self._special if skip_special else ())
