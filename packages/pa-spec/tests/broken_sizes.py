"""Operators that are right in small calls and wrong beyond a size, or at one, in a way each."""

from __future__ import annotations

import numpy as np
from naive_operator import NaiveOperator, Sequence
from pa_spec.conformance import Array


class WindowOnlyBehindAPast(NaiveOperator):
    def visible(self, sequence: Sequence, positions: Array, mapped: Array) -> Array:
        if sequence.past:
            return super().visible(sequence, positions, mapped)
        keys = np.arange(sequence.context)
        seen: Array = mapped[None, :] & (keys[None, :] <= positions[:, None])
        return seen


class WindowOfWholeBlocks(NaiveOperator):
    """Lets a window of a block or more begin with a block."""

    def visible(self, sequence: Sequence, positions: Array, mapped: Array) -> Array:
        seen = super().visible(sequence, positions, mapped)
        window = self.attributes.local_window_size
        if window < self.block_size:
            return seen
        keys = np.arange(sequence.context)
        first = np.maximum(positions - window + 1, 0) // self.block_size * self.block_size
        whole: Array = (keys[None, :] <= positions[:, None]) & (keys[None, :] >= first[:, None])
        return whole & mapped[None, :]


class ForgetsFrom40(NaiveOperator):
    last = 40

    def visible(self, sequence: Sequence, positions: Array, mapped: Array) -> Array:
        return super().visible(sequence, positions, mapped & (np.arange(len(mapped)) < self.last))


class ForgetsFrom256(ForgetsFrom40):
    last = 256


class ForgetsFrom2048(ForgetsFrom40):
    last = 2048


class ChannelsTo64(NaiveOperator):
    most = 64

    def mix(self, weights: Array, value: Array, seen: Array) -> Array:
        mixed = super().mix(weights, value, seen)
        mixed[..., self.most :] = 0
        return mixed


class ChannelsTo128(ChannelsTo64):
    most = 128


class KeyChannelsTo64(NaiveOperator):
    """Takes the dot product of the first channels only."""

    def attend(self, sequence: Sequence, positions: Array, output: Array, scores: Array) -> None:
        query, self.query = self.query, self.query.copy()
        self.query[..., 64:] = 0
        super().attend(sequence, positions, output, scores)
        self.query = query


class BlocksOf64Swapped(NaiveOperator):
    def table_slots(self, row: int, places: Array) -> Array:
        slots = super().table_slots(row, places)
        return np.where((self.block_size >= 64) & (slots >= 0), slots ^ 1, slots)


class ColumnsTo64(NaiveOperator):
    """Knows the first page of a table alone."""

    def table_slots(self, row: int, places: Array) -> Array:
        slots = super().table_slots(row, places)
        return np.where(places // self.block_size < 64, slots, -1)


class AbsoluteScale(NaiveOperator):
    def logits(self, sequence: Sequence, head: int, dots: Array) -> Array:
        logits = dots * (abs(self.attributes.scale) or 1 / np.sqrt(self.size))
        return self.biased(sequence, head, self.capped(logits))


class ScaleIfPositive(NaiveOperator):
    def logits(self, sequence: Sequence, head: int, dots: Array) -> Array:
        scale = max(self.attributes.scale, 0)
        logits = dots * (scale or 1 / np.sqrt(self.size))
        return self.biased(sequence, head, self.capped(logits))


class WidthOfTheBound(NaiveOperator):
    """Takes the bound for the width of the score matrix, however wide the table is."""

    def width(self) -> int:
        metadata = self.call.inputs.attention_metadata
        bound = 0 if metadata is None else int(metadata[1])
        return bound or super().width()


class WrongAtThreeKvHeads(NaiveOperator):
    count = 3

    def kv_head(self, head: int) -> int:
        right = super().kv_head(head)
        return (right + 1) % 3 if self.kv_heads == self.count else right


class WrongAtFiveKvHeads(WrongAtThreeKvHeads):
    count = 5


class WrongAtSevenKvHeads(WrongAtThreeKvHeads):
    count = 7


class GroupsOfAPowerOfTwo(NaiveOperator):
    def kv_head(self, head: int) -> int:
        group = self.attributes.num_heads // int(self.kv_heads)
        return min(head >> (group.bit_length() - 1), int(self.kv_heads) - 1)


class TileOf64Queries(NaiveOperator):
    """Leaves out what a row has behind its first 64 tokens."""

    def attend(self, sequence: Sequence, positions: Array, output: Array, scores: Array) -> None:
        super().attend(sequence, positions, output, scores)
        output[sequence.tokens[64:]] = 0


class RowsTo32(NaiveOperator):
    def attend(self, sequence: Sequence, positions: Array, output: Array, scores: Array) -> None:
        if sequence.row < 32:
            super().attend(sequence, positions, output, scores)


class PairsTo32(NaiveOperator):
    def pairs(self, count: int) -> tuple[Array, Array]:
        near, far = super().pairs(count)
        return np.where(np.arange(count) < 32, near, far), far


class HeadsTo16(NaiveOperator):
    def kv_head(self, head: int) -> int:
        return super().kv_head(head) if head < 16 else 0
