"""SentencePiece vocabularies of GGUF files (tokenizer model "llama") as byte-pair merges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tokenizers
from pa_spec import InputUnusable
from tokenizers import decoders, models, normalizers

from pa_models.fields import Fields

_SPACE = "\N{LOWER ONE EIGHTH BLOCK}"


def pieces_backend(metadata: Fields, pieces: Sequence[str]) -> tokenizers.Tokenizer:
    """Build the tokenizer of scored pieces: always merge the pair with the best joint score.

    Characters without a piece fall back to their bytes. A space before the text, where the
    model was trained with one, is added when encoding and taken away when decoding.
    """
    scores = metadata.numbers("tokenizer.ggml.scores")
    if len(scores) != len(pieces):
        name = f"{metadata.name}: tokenizer.ggml.scores"
        raise InputUnusable(name, f"{len(scores)} numbers", f"{len(pieces)}, one for each token")
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    unknown = metadata.token_ids("tokenizer.ggml.unknown_token_id") or (0,)
    backend = tokenizers.Tokenizer(
        models.BPE(
            vocabulary,
            _merges(vocabulary, scores),
            unk_token=pieces[min(unknown[0], len(pieces) - 1)],
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    has_prefix = metadata.flag("tokenizer.ggml.add_space_prefix", default=True)
    spaces = normalizers.Replace(" ", _SPACE)
    prefix = [normalizers.Prepend(_SPACE)] if has_prefix else []
    backend.normalizer = normalizers.Sequence([*prefix, spaces])
    strip = [decoders.Strip(" ", 1, 0)] if has_prefix else []
    steps = [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), *strip]
    backend.decoder = decoders.Sequence(steps)
    return backend


def _merges(vocabulary: Mapping[str, int], scores: Sequence[float]) -> list[tuple[str, str]]:
    """List every way to join two pieces into a third, the best third first."""
    ways: list[tuple[float, int, str, str]] = []
    for piece, index in vocabulary.items():
        for cut in range(1, len(piece)):
            left, right = piece[:cut], piece[cut:]
            if left in vocabulary and right in vocabulary:
                ways.append((-scores[index], index, left, right))
    ways.sort()
    return [(left, right) for _, _, left, right in ways]
