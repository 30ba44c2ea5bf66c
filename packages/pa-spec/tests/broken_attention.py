"""Operators that mask, weigh or mix wrongly in one way each."""

from __future__ import annotations

import numpy as np
from naive_operator import NaiveOperator, Sequence
from pa_spec import PagedAttentionOutputs
from pa_spec.conformance import Array


class WindowOneTooLong(NaiveOperator):
    def visible(self, sequence: Sequence, positions: Array, mapped: Array) -> Array:
        keys = np.arange(sequence.context)
        seen = mapped[None, :] & (keys[None, :] <= positions[:, None])
        window = self.attributes.local_window_size
        return seen & (keys[None, :] >= positions[:, None] - window) if window > 0 else seen


class WindowOneTooShort(NaiveOperator):
    def visible(self, sequence: Sequence, positions: Array, mapped: Array) -> Array:
        keys = np.arange(sequence.context)
        seen = mapped[None, :] & (keys[None, :] <= positions[:, None])
        window = self.attributes.local_window_size
        return seen & (keys[None, :] > positions[:, None] - window + 1) if window > 0 else seen


class NotCausal(NaiveOperator):
    def visible(self, sequence: Sequence, positions: Array, mapped: Array) -> Array:
        return super().visible(sequence, np.maximum(positions, sequence.context - 1), mapped)


class SinkInNumerator(NaiveOperator):
    """Takes the sink for the logit of the first key."""

    def softmax(self, head: int, logits: Array) -> Array:
        sinks = self.call.inputs.head_sink
        if sinks is None:
            return super().softmax(head, logits)
        logits = logits.copy()
        logits[:, 0] = np.logaddexp(logits[:, 0], float(sinks[head]))
        most = logits.max(axis=1, keepdims=True)
        weights = np.exp(logits - most)
        normal: Array = weights / weights.sum(axis=1, keepdims=True)
        return normal


class SinkOfTheWrongHead(NaiveOperator):
    def sink(self, head: int) -> float:
        return super().sink(0)


class SoftmaxWithoutMaximum(NaiveOperator):
    """Takes exponentials in float32 as they come."""

    def softmax(self, head: int, logits: Array) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            weights = np.exp(logits.astype(np.float32))
            total = weights.sum(axis=1, keepdims=True) + np.exp(np.float32(self.sink(head)))
            normal: Array = weights / np.where(total == 0, 1, total)
        return normal


class SoftcapBehindTheMask(NaiveOperator):
    """Masked logits become -softcap and take part."""

    def logits(self, sequence: Sequence, head: int, dots: Array) -> Array:
        logits = dots * (self.attributes.scale or 1 / np.sqrt(self.size))
        return self.biased(sequence, head, logits)

    def masked(self, logits: Array, seen: Array) -> Array:
        return self.capped(super().masked(logits, seen))

    def mix(self, weights: Array, value: Array, seen: Array) -> Array:
        return super().mix(weights, value, np.all(np.isfinite(value), axis=1)[None, :] | seen)


class SoftcapWithoutTanhScale(NaiveOperator):
    """Leaves out the division by the softcap."""

    def capped(self, logits: Array) -> Array:
        cap = self.attributes.softcap
        capped: Array = cap * np.tanh(logits) if cap else logits
        return capped


class BiasBeforeSoftcap(NaiveOperator):
    def logits(self, sequence: Sequence, head: int, dots: Array) -> Array:
        logits = dots * (self.attributes.scale or 1 / np.sqrt(self.size))
        return self.capped(self.biased(sequence, head, logits))


class BiasIgnoresItsRow(NaiveOperator):
    def biased(self, sequence: Sequence, head: int, logits: Array) -> Array:
        if self.call.inputs.attention_bias is None:
            return logits
        own = self.numbers("attention_bias")[0, 0]
        biased: Array = logits + own[: len(sequence.tokens), : sequence.context]
        return biased


class ScaleIgnored(NaiveOperator):
    def logits(self, sequence: Sequence, head: int, dots: Array) -> Array:
        logits = dots / np.sqrt(self.size)
        return self.biased(sequence, head, self.capped(logits))


class HeadsDealtRoundRobin(NaiveOperator):
    def kv_head(self, head: int) -> int:
        return head % int(self.kv_heads)


class PaddingIsNotANumber(NaiveOperator):
    """Divides by the sum of no weights."""

    def mix(self, weights: Array, value: Array, seen: Array) -> Array:
        mixed = super().mix(weights, value, seen)
        return np.where(np.any(seen, axis=1)[:, None], mixed, np.nan)


class MetadataInTheMask(NaiveOperator):
    """Takes the lower bound for the length of every row."""

    def visible(self, sequence: Sequence, positions: Array, mapped: Array) -> Array:
        seen = super().visible(sequence, positions, mapped)
        metadata = self.call.inputs.attention_metadata
        if metadata is None or len(metadata) < 3 or metadata[2] == 0:
            return seen
        within: Array = np.arange(sequence.context) < int(metadata[2]) - 1
        return seen & within[None, :]


class ScoresWithoutTheSink(NaiveOperator):
    def attend(self, sequence: Sequence, positions: Array, output: Array, scores: Array) -> None:
        super().attend(sequence, positions, output, scores)
        total = scores[:, sequence.tokens].sum(axis=2, keepdims=True)
        if self.attributes.qk_output == 2:
            scores[:, sequence.tokens] /= np.where(total == 0, 1, total)


class ScoresBeforeScale(NaiveOperator):
    def outputs(self, output: Array, scores: Array) -> PagedAttentionOutputs[Array]:
        if self.attributes.qk_output == 1:
            scores = scores / (self.attributes.scale or 1 / np.sqrt(self.size))
        return super().outputs(output, scores)


class LatentValuesFromTheTail(NaiveOperator):
    def gather(self, sequence: Sequence) -> tuple[Array, Array, Array]:
        key, value, mapped = super().gather(sequence)
        return key, key[..., -self.value_size :] if self.is_latent else value, mapped
