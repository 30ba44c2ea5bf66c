"""GGUF files: their metadata, and their tensors as Hugging Face checkpoints name and order them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, final

import numpy as np
import torch
from gguf import GGUFReader
from gguf.quants import dequantize
from pa_spec import InputUnusable
from torch import Tensor

from pa_models.fields import Fields

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)

_TOP_LEVEL = MappingProxyType(
    {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.norm.weight": "output_norm.weight",
        "lm_head.weight": "output.weight",
    }
)
_PER_LAYER = MappingProxyType(
    {
        "input_layernorm": "attn_norm",
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "self_attn.q_norm": "attn_q_norm",
        "self_attn.k_norm": "attn_k_norm",
        "post_attention_layernorm": "ffn_norm",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
    }
)

# What a damaged file makes the reading library raise.
_DAMAGE = (ValueError, IndexError, KeyError, TypeError, OverflowError, OSError, AttributeError)


@final
class GgufFile:
    """One open GGUF file."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        _check_header(path)
        try:
            self._reader = _PlainReader(path)
            self._tensors = {tensor.name: tensor for tensor in self._reader.tensors}
        except _DAMAGE as error:
            raise InputUnusable(self.name, f"truncated or damaged GGUF file ({error})") from error

    @property
    def metadata(self) -> Fields:
        """Every key and value of the file's header."""
        return Fields(self.name, _Metadata(self._reader))

    def has(self, name: str) -> bool:
        """Whether it holds a tensor of this GGUF name."""
        return name in self._tensors

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor, rows first."""
        return tuple(int(extent) for extent in reversed(self._find(name).shape))

    def read(self, name: str) -> Tensor:
        """Dequantize one tensor to float32, rows first."""
        stored = self._find(name)
        try:
            with np.errstate(all="ignore"):  # what it makes of damaged scales is looked at below
                values = dequantize(stored.data, stored.tensor_type)
        except NotImplementedError as error:
            problem = f"tensor {name} has type {stored.tensor_type.name}, which nothing decodes"
            raise InputUnusable(self.name, problem) from error
        except _DAMAGE as error:
            raise InputUnusable(self.name, f"tensor {name} is damaged ({error})") from error
        if not np.isfinite(values).all():
            raise InputUnusable(self.name, f"tensor {name} is damaged (it holds NaN or infinity)")
        return torch.from_numpy(np.array(values, dtype=np.float32))

    def _find(self, name: str) -> Any:
        if name not in self._tensors:
            raise InputUnusable(self.name, f"tensor {name} is missing")
        return self._tensors[name]


@final
class GgufWeights:
    """A GGUF file as a source of weights by their Hugging Face names.

    interleaved_heads: (query heads, key heads) of files whose query and key rows are ordered for
    neighbouring rotary pairs (2i, 2i+1), as architecture "llama" stores them; None elsewhere.
    """

    def __init__(self, file: GgufFile, interleaved_heads: tuple[int, int] | None) -> None:
        self.name = file.name
        self._file = file
        self._interleaved_heads = interleaved_heads

    def has(self, name: str) -> bool:
        """Whether the file holds the tensor behind this name."""
        return self._file.has(gguf_name(name))

    def read(self, name: str) -> Tensor:
        """Load one tensor in float32, its query and key rows in half-split order."""
        tensor = self._file.read(gguf_name(name))
        if self._interleaved_heads is None:
            return tensor
        for part, heads in zip(("q_proj", "k_proj"), self._interleaved_heads, strict=True):
            if f".{part}." in name and tensor.shape[0] % (2 * heads) == 0:
                return half_split_rows(tensor, heads)
        return tensor


def half_split_rows(tensor: Tensor, heads: int) -> Tensor:
    """Reorder rows from pairs (2i, 2i+1) to pairs (i, i + D/2) within each head.

    tensor: [heads*D, ...].
    """
    pairs = tensor.view(heads, -1, 2, *tensor.shape[1:])  # [heads, D/2, 2, ...]
    return pairs.transpose(1, 2).reshape(tensor.shape)


def gguf_name(name: str) -> str:
    """Return what GGUF calls a tensor with this Hugging Face name."""
    if name in _TOP_LEVEL:
        return _TOP_LEVEL[name]
    _, _, layer, rest = name.split(".", 3)
    part, kind = rest.rsplit(".", 1)
    return f"blk.{layer}.{_PER_LAYER[part]}.{kind}"


def _check_header(path: Path) -> None:
    try:
        with path.open("rb") as file:
            header = file.read(8)
    except OSError as error:
        raise InputUnusable(str(path), f"cannot be read ({error.strerror})") from error
    if header[:4] != _MAGIC:
        raise InputUnusable(str(path), f"starts with {header[:4]!r}", f"a GGUF file, {_MAGIC!r}")
    version = int.from_bytes(header[4:8], "little")
    if version not in _VERSIONS:
        allowed = " or ".join(map(str, _VERSIONS))
        raise InputUnusable(str(path), f"GGUF version {version}", allowed)


class _PlainReader(GGUFReader):
    """The library's reader over a plain view of the mapped file.

    It slices the file a million times for one vocabulary, and each slice of numpy's own memmap
    class costs five times that of a plain array.
    """

    @property
    def data(self) -> Any:
        """Bytes of the file."""
        return self._plain

    @data.setter
    def data(self, mapped: np.memmap[Any, Any]) -> None:
        self._plain = mapped.view(np.ndarray)


class _Metadata(Mapping[str, Any]):
    """Header fields, decoded when they are asked for: vocabularies are long."""

    def __init__(self, reader: GGUFReader) -> None:
        self._fields = {
            key: field for key, field in reader.fields.items() if not key.startswith("GGUF.")
        }

    def __getitem__(self, key: str) -> Any:
        try:
            return self._fields[key].contents()
        except UnicodeDecodeError as error:
            raise InputUnusable(key, f"damaged GGUF text ({error})") from error

    def __iter__(self) -> Any:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)
