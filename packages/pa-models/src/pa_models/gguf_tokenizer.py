"""Tokenizers and chat templates from the metadata of a GGUF file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import tokenizers
from pa_spec import InputUnusable
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers

from pa_models.chat_template import ChatTemplate
from pa_models.fields import Fields
from pa_models.gguf_pieces import pieces_backend
from pa_models.tokenizer import Tokenizer

_CONTROL = 3
_USER_DEFINED = 4

_LLAMA3_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2_WORDS = _LLAMA3_WORDS.replace(r"\p{N}{1,3}", r"\p{N}")


def _words(pattern: str) -> Any:
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(pattern), behavior="isolated"), byte_level]
    )


def _gpt2() -> Any:
    return pre_tokenizers.ByteLevel(add_prefix_space=False)


def _digits() -> Any:
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])


_PRE_TOKENIZERS: Mapping[str, Callable[[], Any]] = MappingProxyType(
    {
        "smollm": _digits,
        "gpt-2": _gpt2,
        "llama-bpe": lambda: _words(_LLAMA3_WORDS),
        "qwen2": lambda: _words(_QWEN2_WORDS),
    }
)


def read_gguf_tokenizer(metadata: Fields) -> Tokenizer:
    """Build the tokenizer that the metadata describes.

    Raises InputUnusable for a tokenizer model or a pre-tokenizer that is not supported, naming
    it and those that are.
    """
    model = metadata.text("tokenizer.ggml.model")
    tokens = metadata.texts("tokenizer.ggml.tokens")
    match model:
        case "gpt2":
            backend = _bytes_backend(metadata, tokens)
        case "llama":
            backend = pieces_backend(metadata, tokens)
        case _:
            name = f"{metadata.name}: tokenizer.ggml.model"
            raise InputUnusable(name, f"{model!r} is not supported", "gpt2, llama")
    _add_tokens(metadata, backend, tokens)
    bos = _token_text(metadata, tokens, "bos_token_id")
    add_bos = metadata.flag("tokenizer.ggml.add_bos_token", default=model == "llama")
    return Tokenizer(backend, metadata.name, bos_token=bos, add_bos=add_bos and bos is not None)


def _bytes_backend(metadata: Fields, tokens: tuple[str, ...]) -> tokenizers.Tokenizer:
    """Build a byte-level tokenizer, its words split as the named pre-tokenizer does."""
    pre = metadata.text("tokenizer.ggml.pre", "gpt-2")
    if pre not in _PRE_TOKENIZERS:
        name = f"{metadata.name}: tokenizer.ggml.pre"
        raise InputUnusable(name, f"{pre!r} is not supported", ", ".join(_PRE_TOKENIZERS))
    backend = tokenizers.Tokenizer(_byte_pairs(metadata, tokens, ignore_merges=pre == "llama-bpe"))
    if pre == "qwen2":
        backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer = _PRE_TOKENIZERS[pre]()
    backend.decoder = decoders.ByteLevel()
    return backend


def read_gguf_chat_template(metadata: Fields) -> ChatTemplate | None:
    """Build the chat template of the metadata, None when it has none."""
    source = metadata.text("tokenizer.chat_template", "")
    if not source:
        return None
    tokens = metadata.texts("tokenizer.ggml.tokens")
    special: Mapping[str, str | None] = {
        name: _token_text(metadata, tokens, f"{name}_id") for name in ("bos_token", "eos_token")
    }
    return ChatTemplate(source, {name: text for name, text in special.items() if text is not None})


def _byte_pairs(metadata: Fields, tokens: tuple[str, ...], *, ignore_merges: bool) -> models.BPE:
    merges: list[tuple[str, str]] = []
    for merge in metadata.texts("tokenizer.ggml.merges"):
        left, _, right = merge.partition(" ")
        merges.append((left, right))
    vocabulary = {token: index for index, token in enumerate(tokens)}
    try:
        return models.BPE(vocabulary, merges, ignore_merges=ignore_merges)
    except Exception as error:  # the library raises nothing narrower
        raise InputUnusable(f"{metadata.name}: tokenizer.ggml.merges", f"{error}") from error


def _add_tokens(metadata: Fields, backend: tokenizers.Tokenizer, tokens: tuple[str, ...]) -> None:
    kinds = metadata.numbers("tokenizer.ggml.token_type")
    for token, kind in zip(tokens, kinds, strict=False):
        added = tokenizers.AddedToken(token, normalized=False, special=kind == _CONTROL)
        if kind == _CONTROL:
            backend.add_special_tokens([added])
        elif kind == _USER_DEFINED:
            backend.add_tokens([added])


def _token_text(metadata: Fields, tokens: tuple[str, ...], key: str) -> str | None:
    ids = metadata.token_ids(f"tokenizer.ggml.{key}")
    if not ids:
        return None
    if ids[0] >= len(tokens):
        name = f"{metadata.name}: tokenizer.ggml.{key}"
        raise InputUnusable(name, f"{ids[0]}", f"an id below {len(tokens)}")
    return tokens[ids[0]]
