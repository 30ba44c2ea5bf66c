"""Operators that split, turn, normalize or round wrongly in one way each."""

from __future__ import annotations

import numpy as np
from naive_operator import NaiveOperator
from pa_spec import ElementType
from pa_spec.conformance import Array, encode


class PairsOfTheOtherKind(NaiveOperator):
    """Interleaves what is not interleaved, and the other way round."""

    def pairs(self, count: int) -> tuple[Array, Array]:
        first = self.attributes.rotary_offset
        if not self.attributes.rotary_interleaved:
            return first + 2 * np.arange(count), first + 2 * np.arange(count) + 1
        return first + np.arange(count), first + count + np.arange(count)


class HalvesOfTheWholeHead(NaiveOperator):
    """Pairs channel i with i + D / 2 even when fewer channels turn."""

    def pairs(self, count: int) -> tuple[Array, Array]:
        near, far = super().pairs(count)
        if self.attributes.rotary_interleaved or self.attributes.rotary_offset:
            return near, far
        return near, near + self.size // 2


class RotaryOffsetIgnored(NaiveOperator):
    def pairs(self, count: int) -> tuple[Array, Array]:
        near, far = super().pairs(count)
        return near - self.attributes.rotary_offset, far - self.attributes.rotary_offset


class PositionsOneAhead(NaiveOperator):
    def rotate(self, heads: Array, positions: Array) -> Array:
        last = len(self.numbers("cos_cache")) - 1
        return super().rotate(heads, np.minimum(positions + 1, last))


class PositionsFromTheChunk(NaiveOperator):
    """Counts positions from the beginning of the call instead of the sequence."""

    def rotate(self, heads: Array, positions: Array) -> Array:
        places = [each.places - each.past for each in self.sequences()]
        return super().rotate(heads, np.concatenate(places))


class RotatesUnasked(NaiveOperator):
    def prologue(self, query: Array, key: Array, positions: Array) -> tuple[Array, Array]:
        query, key = self.norm(query, "q_norm_weight"), self.norm(key, "k_norm_weight")
        if self.call.inputs.cos_cache is None:
            return query, key
        return self.rotate(query, positions), self.rotate(key, positions)


class NormBehindRotary(NaiveOperator):
    def prologue(self, query: Array, key: Array, positions: Array) -> tuple[Array, Array]:
        if self.attributes.do_rotary:
            query, key = self.rotate(query, positions), self.rotate(key, positions)
        return self.norm(query, "q_norm_weight"), self.norm(key, "k_norm_weight")


class EpsilonOutsideTheRoot(NaiveOperator):
    def norm(self, heads: Array, name: str) -> Array:
        if getattr(self.call.inputs, name) is None:
            return heads
        root = np.sqrt(np.square(heads).mean(axis=-1, keepdims=True))
        normalized: Array = heads / (root + self.attributes.qk_norm_epsilon)
        return normalized * self.numbers(name)


class ValueBeforeKey(NaiveOperator):
    """Takes a packed row for query, value, key."""

    def split(self) -> tuple[Array, Array, Array]:
        query, key, value = super().split()
        return (query, value, key) if self.call.inputs.key is None else (query, key, value)


class ScaleIndexSwapped(NaiveOperator):
    """Reads a per-channel scale as [D, K]."""

    def scale_of(self, name: str) -> Array | None:
        scale = super().scale_of(name)
        if scale is None or scale.size == 1:
            return scale
        return scale.reshape(self.size, self.kv_heads).T


class KeyScaleForValues(NaiveOperator):
    def scale_of(self, name: str) -> Array | None:
        return super().scale_of("key_cache")


class RoundsHalfAway(NaiveOperator):
    def quantize(self, name: str, heads: Array) -> Array:
        scale = self.scale_of(name)
        if self.call.element_type(name) is not ElementType.INT8 or scale is None:
            return super().quantize(name, heads)
        scaled = heads / scale
        away = np.sign(scaled) * np.floor(np.abs(scaled) + 0.5)
        return encode(np.clip(away, -128, 127), ElementType.INT8)


class WrapsInsteadOfClamping(NaiveOperator):
    def quantize(self, name: str, heads: Array) -> Array:
        scale = self.scale_of(name)
        if self.call.element_type(name) is not ElementType.INT8 or scale is None:
            return super().quantize(name, heads)
        return np.rint(heads / scale).astype(np.int64).astype(np.int8)
