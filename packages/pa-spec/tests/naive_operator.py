"""A small operator of its own in numpy: one method for each thing that can be got wrong.

It shares no code with the golden vectors' evaluator (lists, one number at a time) nor with any
backend. broken_attention.py, broken_prologue.py and broken_storage.py override a method each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from pa_spec import (
    CallSignature,
    ContractViolation,
    ElementType,
    PagedAttentionOutputs,
    check,
    check_lengths,
    rules,
)
from pa_spec.conformance import Array, OperatorCall, decode, encode


@dataclass(frozen=True)
class Sequence:
    """One row: its index, past, packed tokens, and the places of its tokens in the sequence."""

    row: int
    past: int
    tokens: Array
    places: Array

    @property
    def context(self) -> int:
        return self.past + len(self.tokens)


class NaiveOperator:
    """Callable as `pa_spec.conformance` wants it."""

    def __call__(self, call: OperatorCall) -> PagedAttentionOutputs[Array]:
        self.check(call)
        self.call, self.attributes = call, call.attributes
        self.blocks, self.block_size, self.kv_heads, self.size = call.inputs.key_cache.shape
        self.is_latent = self.attributes.kv_cache_layout == "LATENT"
        self.value_size = (self.is_latent and self.attributes.v_head_size) or self.size
        self.query, self.key, self.value = self.split()
        sequences = self.sequences()
        positions = self.positions(sequences)
        self.query, self.key = self.prologue(self.query, self.key, positions)
        for sequence in sequences:
            self.store(sequence)
        tokens = len(call.inputs.query)
        output = np.zeros((tokens, self.attributes.num_heads, self.value_size))
        scores = np.full((self.attributes.num_heads, tokens, self.width()), self.masked_score())
        for sequence in sequences:
            if len(sequence.tokens):
                self.attend(sequence, positions[sequence.tokens], output, scores)
        return self.outputs(output.reshape(tokens, output.shape[1] * self.value_size), scores)

    def check(self, call: OperatorCall) -> None:
        self.check_signature(call.signature)
        self.check_values(call)

    def check_signature(self, signature: CallSignature) -> None:
        check(signature)

    def check_values(self, call: OperatorCall) -> None:
        inputs = call.inputs
        boundaries, past = inputs.cumulative_sequence_length, inputs.past_seqlens
        capacity = inputs.block_table.shape[1] * inputs.key_cache.shape[1]
        check_lengths(boundaries, past, len(inputs.query), capacity)
        new = np.diff(boundaries)
        end, rule_id = int((past + new)[new > 0].max(initial=0)), "V65"
        if inputs.query_positions is not None and inputs.query_positions.size:
            end, rule_id = int(inputs.query_positions.max()) + 1, "V66"
            if inputs.query_positions.min() < 0:
                raise ContractViolation("V66", "query_positions", "at least 0", "less")
        rotary_rows = 0 if inputs.cos_cache is None else len(inputs.cos_cache)
        if call.attributes.do_rotary and end > rotary_rows:
            raise ContractViolation(rule_id, "positions", "rotary rows", str(end))
        if inputs.attention_bias is not None:
            queries, keys = inputs.attention_bias.shape[2:]
            if queries < new.max() or keys < (past + new).max():
                raise ContractViolation("V67", "attention_bias", "larger", f"{queries}, {keys}")
        for name, scale in (("k_scale", inputs.k_scale), ("v_scale", inputs.v_scale)):
            if scale is not None and not (np.isfinite(scale) & (scale > 0)).all():
                raise rules()["V105"].violation(name, "another")

    def split(self) -> tuple[Array, Array, Array]:
        heads, inputs = self.attributes.num_heads, self.call.inputs
        query = self.numbers("query")
        tokens = len(query)
        if inputs.key is not None:
            key = self.numbers("key").reshape(tokens, self.kv_heads, self.size)
            value = key if self.is_latent else self.numbers("value").reshape(key.shape)
            return query.reshape(tokens, heads, self.size), key, value
        whole = query.reshape(tokens, heads + 2 * self.kv_heads, self.size)
        query, key, value = np.split(whole, [heads, heads + self.kv_heads], axis=1)
        return query, key, value

    def numbers(self, name: str) -> Array:
        return decode(getattr(self.call.inputs, name), self.call.element_type(name))

    def sequences(self) -> list[Sequence]:
        inputs = self.call.inputs
        found = []
        for row, past in enumerate(inputs.past_seqlens.tolist()):
            first, end = inputs.cumulative_sequence_length[row : row + 2].tolist()
            found.append(Sequence(row, past, np.arange(first, end), past + np.arange(end - first)))
        return found

    def positions(self, sequences: list[Sequence]) -> Array:
        given = self.call.inputs.query_positions
        derived = np.concatenate([each.places for each in sequences])
        return derived if given is None else given.astype(np.int64)

    def prologue(self, query: Array, key: Array, positions: Array) -> tuple[Array, Array]:
        query, key = self.norm(query, "q_norm_weight"), self.norm(key, "k_norm_weight")
        if not self.attributes.do_rotary:
            return query, key
        return self.rotate(query, positions), self.rotate(key, positions)

    def norm(self, heads: Array, name: str) -> Array:
        if getattr(self.call.inputs, name) is None:
            return heads
        mean = np.square(heads).mean(axis=-1, keepdims=True)
        normalized: Array = heads / np.sqrt(mean + self.attributes.qk_norm_epsilon)
        return normalized * self.numbers(name)

    def rotate(self, heads: Array, positions: Array) -> Array:
        cos, sin = (
            self.numbers(name)[positions][:, None, :] for name in ("cos_cache", "sin_cache")
        )
        near, far = self.pairs(cos.shape[-1])
        rotated = heads.copy()
        rotated[..., near] = heads[..., near] * cos - heads[..., far] * sin
        rotated[..., far] = heads[..., near] * sin + heads[..., far] * cos
        return rotated

    def pairs(self, count: int) -> tuple[Array, Array]:
        first = self.attributes.rotary_offset
        if self.attributes.rotary_interleaved:
            return first + 2 * np.arange(count), first + 2 * np.arange(count) + 1
        return first + np.arange(count), first + count + np.arange(count)

    def table_slots(self, row: int, places: Array) -> Array:
        block = self.call.inputs.block_table[row, places // self.block_size].astype(np.int64)
        return np.where(
            self.is_mapped(block), block * self.block_size + places % self.block_size, -1
        )

    def is_mapped(self, block: Array) -> Array:
        mapped: Array = (block >= 0) & (block < self.blocks)
        return mapped

    def slots(self, sequence: Sequence) -> Array:
        given = self.call.inputs.slot_mapping
        if given is not None:
            return given[sequence.tokens].astype(np.int64)
        return self.table_slots(sequence.row, sequence.places)

    def store(self, sequence: Sequence) -> None:
        slots = self.slots(sequence)
        self.write("key_cache", slots, self.key[sequence.tokens])
        if not self.is_latent:
            self.write("value_cache", slots, self.value[sequence.tokens])

    def write(self, name: str, slots: Array, heads: Array) -> None:
        cache = getattr(self.call.inputs, name)
        flat = cache.reshape(-1, self.kv_heads, self.size)
        stored = slots >= 0
        flat[slots[stored]] = self.quantize(name, heads[stored])

    def quantize(self, name: str, heads: Array) -> Array:
        element_type = self.call.element_type(name)
        scale = self.scale_of(name)
        scaled = heads if scale is None else heads / scale
        if element_type is ElementType.INT8:
            return encode(np.clip(np.rint(scaled), -128, 127), element_type)
        return encode(scaled, element_type)

    def scale_of(self, name: str) -> Array | None:
        scale = self.call.inputs.k_scale if name == "key_cache" else self.call.inputs.v_scale
        if scale is None or scale.size == 1:
            return scale
        return scale.reshape(self.kv_heads, self.size)

    def gather(self, sequence: Sequence) -> tuple[Array, Array, Array]:
        """Return keys, values [context, K, ...] and which places are mapped."""
        slots = self.table_slots(sequence.row, np.arange(sequence.context))
        key = self.read("key_cache", slots)
        if self.is_latent:
            return key, key[..., : self.value_size], slots >= 0
        return key, self.read("value_cache", slots), slots >= 0

    def read(self, name: str, slots: Array) -> Array:
        cache = getattr(self.call.inputs, name)
        flat = cache.reshape(-1, self.kv_heads, self.size)
        heads: Array = decode(flat[np.maximum(slots, 0)], self.call.element_type(name))
        scale = self.scale_of(name)
        return heads if scale is None else heads * scale

    def visible(self, sequence: Sequence, positions: Array, mapped: Array) -> Array:
        keys = np.arange(sequence.context)
        seen = mapped[None, :] & (keys[None, :] <= positions[:, None])
        window = self.attributes.local_window_size
        if window > 0:
            seen &= keys[None, :] > positions[:, None] - window
        return seen

    def attend(self, sequence: Sequence, positions: Array, output: Array, scores: Array) -> None:
        key, value, mapped = self.gather(sequence)
        seen = self.visible(sequence, positions, mapped)
        for head in range(self.attributes.num_heads):
            kv_head = self.kv_head(head)
            # What no query of the row sees may be NaN.
            readable = np.where(np.any(seen, axis=0)[:, None], key[:, kv_head], 0)
            dots = self.query[sequence.tokens, head] @ readable.T
            logits = self.logits(sequence, head, dots)
            logits = self.masked(logits, seen)
            weights = self.softmax(head, logits)
            output[sequence.tokens, head] = self.mix(weights, value[:, kv_head], seen)
            chosen = logits if self.attributes.qk_output == 1 else weights
            columns = min(sequence.context, scores.shape[2])
            scores[head, sequence.tokens, :columns] = chosen[:, :columns]

    def kv_head(self, head: int) -> int:
        return head // (self.attributes.num_heads // int(self.kv_heads))

    def logits(self, sequence: Sequence, head: int, dots: Array) -> Array:
        logits = dots * (self.attributes.scale or 1 / np.sqrt(self.size))
        return self.biased(sequence, head, self.capped(logits))

    def capped(self, logits: Array) -> Array:
        cap = self.attributes.softcap
        capped: Array = cap * np.tanh(logits / cap) if cap else logits
        return capped

    def biased(self, sequence: Sequence, head: int, logits: Array) -> Array:
        if self.call.inputs.attention_bias is None:
            return logits
        bias = self.numbers("attention_bias")
        own = bias[sequence.row % len(bias), head % bias.shape[1]]
        biased: Array = logits + own[: len(sequence.tokens), : sequence.context]
        return biased

    def masked(self, logits: Array, seen: Array) -> Array:
        return np.where(seen, logits, -np.inf)

    def softmax(self, head: int, logits: Array) -> Array:
        sink = self.sink(head)
        most = np.maximum(logits.max(axis=1, keepdims=True), sink)
        finite = np.where(most == -np.inf, 0, most)
        weights = np.exp(logits - finite)
        total = np.sum(weights, axis=1, keepdims=True) + np.exp(sink - finite)
        normal: Array = weights / np.where(total == 0, 1, total)
        return normal

    def sink(self, head: int) -> float:
        sinks = self.call.inputs.head_sink
        return -np.inf if sinks is None else float(self.numbers("head_sink")[head])

    def mix(self, weights: Array, value: Array, seen: Array) -> Array:
        terms = weights[:, :, None] * value[None, :, :]
        mixed: Array = np.where(seen[:, :, None], terms, 0).sum(axis=1)
        return mixed

    def width(self) -> int:
        capacity: int = self.call.inputs.block_table.shape[1] * self.block_size
        metadata = self.call.inputs.attention_metadata
        bound = 0 if metadata is None else int(metadata[1])
        return min(bound, capacity) if bound else capacity

    def masked_score(self) -> float:
        return -np.inf if self.attributes.qk_output == 1 else 0.0

    def outputs(self, output: Array, scores: Array) -> PagedAttentionOutputs[Array]:
        encoded = encode(output, self.call.element_type("query"))
        score_type: Any = self.call.signature.output_qk_type
        return PagedAttentionOutputs(
            encoded, None if score_type is None else encode(scores, score_type)
        )
