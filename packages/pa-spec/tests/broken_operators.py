"""Operators that are wrong in one way each, made from NaiveOperator."""

from __future__ import annotations

import numpy as np
from naive_operator import NaiveOperator, Sequence
from pa_spec import CallSignature, ElementType, PagedAttentionOutputs, rules, validate
from pa_spec.conformance import Array, OperatorCall, encode


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


class HeadsDealtRoundRobin(NaiveOperator):
    def kv_head(self, head: int) -> int:
        return head % int(self.kv_heads)


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


class ReadsBeforeWriteBack(NaiveOperator):
    """Attends to the call's own tokens as they came, not as the cache rounded them."""

    def gather(self, sequence: Sequence) -> tuple[Array, Array, Array]:
        key, value, mapped = super().gather(sequence)
        if self.scale_of("key_cache") is not None:
            own = self.slots(sequence) >= 0
            key[sequence.places[own]] = self.key[sequence.tokens[own]]
            source = self.key[..., : self.value_size] if self.is_latent else self.value
            value[sequence.places[own]] = source[sequence.tokens[own]]
        return key, value, mapped


class AttendsBeforeOthersStore(NaiveOperator):
    """Stores and attends row by row."""

    def store(self, sequence: Sequence) -> None:
        self.waiting = {**getattr(self, "waiting", {}), sequence.row: sequence}

    def gather(self, sequence: Sequence) -> tuple[Array, Array, Array]:
        super().store(self.waiting.pop(sequence.row))
        return super().gather(sequence)


class StoresWhereSlotIsMinusOne(NaiveOperator):
    """Falls back to the derived slot."""

    def slots(self, sequence: Sequence) -> Array:
        given = super().slots(sequence)
        return np.where(given < 0, self.table_slots(sequence.row, sequence.places), given)


class SlotMappingIgnored(NaiveOperator):
    def slots(self, sequence: Sequence) -> Array:
        return self.table_slots(sequence.row, sequence.places)


class WritesToTheLastSlot(NaiveOperator):
    """Takes slot -1 for an index from the end."""

    def write(self, name: str, slots: Array, heads: Array) -> None:
        cache = getattr(self.call.inputs, name)
        cache.reshape(-1, self.kv_heads, self.size)[slots] = self.quantize(name, heads)


class UnmappedReadAsBlockZero(NaiveOperator):
    """Clamps what the table does not map instead of masking it; stores stay right."""

    def gather(self, sequence: Sequence) -> tuple[Array, Array, Array]:
        key, value, mapped = super().gather(sequence)
        return key, value, np.ones_like(mapped)


class TrustsTheTable(NaiveOperator):
    """Takes an id from N on for the last block."""

    def table_slots(self, row: int, places: Array) -> Array:
        table = np.minimum(self.call.inputs.block_table, self.blocks - 1)
        block = table[row, places // self.block_size].astype(np.int64)
        return np.where(block >= 0, block * self.block_size + places % self.block_size, -1)


class LeaksUnusedSlots(NaiveOperator):
    """Adds the rest of the last block with a weight of 0."""

    def gather(self, sequence: Sequence) -> tuple[Array, Array, Array]:
        whole = -(-sequence.context // self.block_size) * self.block_size
        self.tail = np.arange(sequence.context, whole)
        self.tail_slots = self.table_slots(sequence.row, self.tail)
        return super().gather(sequence)

    def mix(self, weights: Array, value: Array, seen: Array) -> Array:
        mixed = super().mix(weights, value, seen)
        name = "key_cache" if self.is_latent else "value_cache"
        behind = self.read(name, self.tail_slots)[..., 0, : self.value_size]
        spoiled: Array = mixed + np.sum(0.0 * behind[self.tail_slots >= 0], axis=0)
        return spoiled


class ClearsTheBlock(NaiveOperator):
    """Zeroes the rest of a block when it writes into it."""

    def write(self, name: str, slots: Array, heads: Array) -> None:
        super().write(name, slots, heads)
        flat = getattr(self.call.inputs, name).reshape(-1, self.kv_heads, self.size)
        for slot in slots[slots >= 0].tolist():
            end = (slot // self.block_size + 1) * self.block_size
            flat[slot + 1 : end] = 0


class PaddingIsNotANumber(NaiveOperator):
    """Divides by the sum of no weights."""

    def mix(self, weights: Array, value: Array, seen: Array) -> Array:
        mixed = super().mix(weights, value, seen)
        return np.where(np.any(seen, axis=1)[:, None], mixed, np.nan)


class PositionsMoveTheSlot(NaiveOperator):
    """Derives the slot from query_positions."""

    def slots(self, sequence: Sequence) -> Array:
        given = self.call.inputs.query_positions
        if given is None:
            return super().slots(sequence)
        places = given[sequence.tokens].astype(np.int64)
        return self.table_slots(sequence.row, places % (self.width()))


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


class ChangesItsQuery(NaiveOperator):
    """Uses the query's memory for its own purposes."""

    def outputs(self, output: Array, scores: Array) -> PagedAttentionOutputs[Array]:
        self.call.inputs.query[...] = 0
        return super().outputs(output, scores)


class AcceptsEverything(NaiveOperator):
    """Runs what it can and answers zeros for the rest."""

    def __call__(self, call: OperatorCall) -> PagedAttentionOutputs[Array]:
        if not validate(call.signature):
            try:
                return super().__call__(call)
            except Exception:  # noqa: BLE001
                return PagedAttentionOutputs(call.inputs.query)
        return PagedAttentionOutputs(call.inputs.query)

    def check_values(self, call: OperatorCall) -> None:
        """Look at nothing."""


class BlocksOf16Only(NaiveOperator):
    """Refuses legal block sizes."""

    def check_signature(self, signature: CallSignature) -> None:
        super().check_signature(signature)
        if signature.inputs.key_cache.shape[1] != 16:
            raise rules()["V29"].violation("key_cache", f"{signature.inputs.key_cache.shape[1]}")


class RefusesByAnotherRule(NaiveOperator):
    """Calls everything a wrong block size."""

    def check_signature(self, signature: CallSignature) -> None:
        if validate(signature):
            raise rules()["V29"].violation("key_cache", "something")


class StoresBeforeItRefuses(NaiveOperator):
    def check_signature(self, signature: CallSignature) -> None:
        """Look later."""

    def check_values(self, call: OperatorCall) -> None:
        call.inputs.key_cache.reshape(-1)[:1] = 1
        super().check_signature(call.signature)
        super().check_values(call)
