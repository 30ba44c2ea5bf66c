"""Operators that store, read or refuse wrongly in one way each."""

from __future__ import annotations

import numpy as np
from naive_operator import NaiveOperator, Sequence
from pa_spec import CallSignature, PagedAttentionOutputs, rules, validate
from pa_spec.conformance import Array, OperatorCall


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


class PositionsMoveTheSlot(NaiveOperator):
    """Derives the slot from query_positions."""

    def slots(self, sequence: Sequence) -> Array:
        given = self.call.inputs.query_positions
        if given is None:
            return super().slots(sequence)
        places = given[sequence.tokens].astype(np.int64)
        return self.table_slots(sequence.row, places % (self.width()))


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
