"""The operator's formulas (contract section 8) one number at a time, in float64 on plain lists.

It gives the expected numbers of spec/vectors/attention.json and attention_sizes.json. It is written
from the formulas and shares nothing with any implementation: no array operation, no mask tensor, no
running softmax.
A slot that holds no token is absent from its dictionaries, so reading one is a KeyError.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

Row = list[float]
"""Channels of one head."""
Slots = dict[int, list[Row]]
"""By slot, the heads that it holds."""


@dataclass
class Evaluator:
    """One case; `evaluate` fills the results."""

    case: Mapping[str, Any]
    key_slots: Slots = field(default_factory=dict)
    value_slots: Slots = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.inputs = self.case["inputs"]
        self.attributes: dict[str, Any] = {"scale": 0.0, "softcap": 0.0, "local_window_size": -1}
        self.attributes |= {
            "rotary_offset": 0,
            "rotary_interleaved": 0,
            "do_rotary": 0,
            "qk_output": 0,
        }
        self.attributes |= {"qk_norm_epsilon": 1e-6, "v_head_size": 0} | self.case["attributes"]
        self.num_blocks, self.block_size, self.kv_heads, self.head_size = self.case["key_cache"][
            "shape"
        ]
        self.heads = self.attributes["num_heads"]
        self.is_latent = self.attributes.get("kv_cache_layout") == "LATENT"
        self.value_size = (self.is_latent and self.attributes["v_head_size"]) or self.head_size
        self.table = self.inputs["block_table"]
        scales = (each for each in ("k_scale", "v_scale") if each in self.inputs)
        self.scales = {name: flattened(self.inputs[name]) for name in scales}
        self.rows = [
            (row, past, list(range(first, end)))
            for row, (past, (first, end)) in enumerate(
                zip(
                    self.inputs["past_seqlens"],
                    pairwise(self.inputs["cumulative_sequence_length"]),
                    strict=True,
                )
            )
        ]

    def evaluate(self) -> dict[str, Any]:
        """Return "expected" of the case: outputs, and the slots written, as the caches hold them.

        key_cache, value_cache: int8 codes or numbers by slot.
        """
        names = [name for name in ("key_cache", "value_cache") if name in self.case]
        contents: dict[str, dict[str, Any]] = {
            name: dict(self.case[name]["slots"]) for name in names
        }
        written: dict[str, dict[str, Any]] = {name: {} for name in names}
        for slot, stored in self.stores():
            for name, heads in stored.items():
                codes = [self.store(name, h, each) for h, each in enumerate(heads)]
                contents[name][str(slot)] = written[name][str(slot)] = codes
        self.key_slots = self.loaded("key_cache", contents["key_cache"])
        if self.is_latent:
            self.value_slots = {
                slot: [each[: self.value_size] for each in heads]
                for slot, heads in self.key_slots.items()
            }
        else:
            self.value_slots = self.loaded("value_cache", contents["value_cache"])
        return self.attend() | written

    def stores(self) -> Iterator[tuple[int, dict[str, list[Row]]]]:
        """Yield each slot that is written, and what heads go into which cache."""
        for row, past, tokens in self.rows:
            for place, token in enumerate(tokens):
                slot = self.slot_of(row, past + place, token)
                if slot >= 0:
                    stored = {"key_cache": self.key_of(token, past + place)}
                    if not self.is_latent:
                        stored["value_cache"] = self.heads_of("value", token)
                    yield slot, stored

    def loaded(self, name: str, slots: dict[str, Any]) -> Slots:
        return {
            int(slot): [self.load(name, h, each) for h, each in enumerate(heads)]
            for slot, heads in slots.items()
        }

    def slot_of(self, row: int, sequence_place: int, token: int) -> int:
        """Section 8.2; input 10 replaces the derived slot."""
        if "slot_mapping" in self.inputs:
            return int(self.inputs["slot_mapping"][token])
        return self.slot_in_table(row, sequence_place)

    def slot_in_table(self, row: int, sequence_place: int) -> int:
        """Return the slot of a place in the sequence, -1 where the table maps none."""
        block = self.table[row][sequence_place // self.block_size]
        if block < 0 or block >= self.num_blocks:
            return -1
        return int(block * self.block_size + sequence_place % self.block_size)

    def position_of(self, token: int, sequence_place: int) -> int:
        if "query_positions" in self.inputs:
            return int(self.inputs["query_positions"][token])
        return sequence_place

    def heads_of(self, name: str, token: int) -> list[Row]:
        """Split a packed row, or take a separate one."""
        count = self.heads if name == "query" else self.kv_heads
        if name in self.inputs:
            row = self.inputs[name][token]
            first = 0
        else:
            row = self.inputs["query"][token]
            first = {"query": 0, "key": self.heads, "value": self.heads + self.kv_heads}[name]
        if name == "query" and "key" not in self.inputs:
            row = row[: self.heads * self.head_size]
        numbers = [float(each) for each in row]
        starts = [(first + h) * self.head_size for h in range(count)]
        return [numbers[start : start + self.head_size] for start in starts]

    def query_of(self, token: int, place: int) -> list[Row]:
        position = self.position_of(token, place)
        heads = [self.normalized("q_norm_weight", x) for x in self.heads_of("query", token)]
        return [self.rotated(x, position) for x in heads]

    def key_of(self, token: int, place: int) -> list[Row]:
        position = self.position_of(token, place)
        heads = [self.normalized("k_norm_weight", x) for x in self.heads_of("key", token)]
        return [self.rotated(x, position) for x in heads]

    def normalized(self, name: str, x: Row) -> Row:
        """Section 8.3."""
        if name not in self.inputs:
            return x
        mean_square = sum(each * each for each in x) / len(x)
        root = math.sqrt(mean_square + self.attributes["qk_norm_epsilon"])
        return [each * weight / root for each, weight in zip(x, self.inputs[name], strict=True)]

    def rotated(self, x: Row, position: int) -> Row:
        """Rotate pairs of channels from rotary_offset on; the others are copied."""
        if not self.attributes["do_rotary"]:
            return x
        cosines = self.inputs["cos_cache"][position]
        sines = self.inputs["sin_cache"][position]
        result, half = list(x), len(cosines)
        for i in range(half):
            near, far = (
                (2 * i, 2 * i + 1) if self.attributes["rotary_interleaved"] else (i, i + half)
            )
            near += self.attributes["rotary_offset"]
            far += self.attributes["rotary_offset"]
            result[near] = x[near] * cosines[i] - x[far] * sines[i]
            result[far] = x[near] * sines[i] + x[far] * cosines[i]
        return result

    def scale_of(self, name: str, head: int, channel: int) -> float:
        """Section 8.5: one number, or scale[h * D + c]."""
        flat = self.scales["v_scale" if name == "value_cache" else "k_scale"]
        return flat[0] if len(flat) == 1 else flat[head * self.head_size + channel]

    def store(self, name: str, head: int, x: Row) -> list[float]:
        element_type = self.case[name].get("element_type", "")
        if not element_type:
            return x
        rounded = {"int8": rounded_to_int8, "float8e4m3fn": rounded_to_float8}[element_type]
        return [rounded(each / self.scale_of(name, head, c)) for c, each in enumerate(x)]

    def load(self, name: str, head: int, codes: Row) -> Row:
        if not self.case[name].get("element_type", ""):
            return [float(each) for each in codes]
        return [each * self.scale_of(name, head, c) for c, each in enumerate(codes)]

    def attend(self) -> dict[str, Any]:
        """Sections 8.2 and 8.4: the output, and the score matrix when it is asked for."""
        output: list[Row] = []
        scores: list[list[Row]] = [[] for _ in range(self.heads)]
        for row, past, tokens in self.rows:
            for place, token in enumerate(tokens):
                query, channels = self.query_of(token, past + place), []
                for head in range(self.heads):
                    logits = self.logits_of((row, place, head), query[head], past + len(tokens))
                    weights = self.weights_of(head, logits)
                    channels += self.mix(row, head, weights)
                    chosen = logits if self.attributes["qk_output"] == 1 else weights
                    scores[head].append([chosen.get(k, self.masked) for k in range(self.width)])
                output.append(channels)
        if not output:
            return {"output": {"shape": [0, self.heads * self.value_size]}}
        found: dict[str, Any] = {"output": output}
        return found | ({"output_qk": scores} if self.attributes["qk_output"] else {})

    @property
    def width(self) -> int:
        """Columns of output_qk: the bound of the metadata, else what the table holds."""
        capacity = len(self.table[0]) * int(self.block_size)
        bound = int(self.inputs.get("attention_metadata", [0, 0])[1])
        return min(bound, capacity) if bound else capacity

    @property
    def masked(self) -> float:
        return -math.inf if self.attributes["qk_output"] == 1 else 0.0

    def logits_of(
        self, address: tuple[int, int, int], query: Row, context: int
    ) -> dict[int, float]:
        """Return the logit of every key that the query sees, by its place in the sequence."""
        row, place, head = address
        token = self.rows[row][2][place]
        position = self.position_of(token, self.rows[row][1] + place)
        window = self.attributes["local_window_size"]
        first = max(0, position + 1 - window) if window > 0 else 0
        logits = {}
        for k in range(first, min(position + 1, context)):
            slot = self.slot_in_table(row, k)
            if slot < 0:
                continue
            key = self.key_slots[slot][head * self.kv_heads // self.heads]
            dot = sum(a * b for a, b in zip(query, key, strict=True))
            logit = dot * (self.attributes["scale"] or 1 / math.sqrt(self.head_size))
            if self.attributes["softcap"]:
                logit = self.attributes["softcap"] * math.tanh(logit / self.attributes["softcap"])
            logits[k] = logit + self.bias_of(row, head, place, k)
        return {k: logit for k, logit in logits.items() if logit != -math.inf}

    def bias_of(self, row: int, head: int, place: int, k: int) -> float:
        if "attention_bias" not in self.inputs:
            return 0.0
        bias = self.inputs["attention_bias"]
        own = bias[row if len(bias) > 1 else 0]
        return float(own[head if len(own) > 1 else 0][place][k])

    def weights_of(self, head: int, logits: dict[int, float]) -> dict[int, float]:
        """Softmax; the sink is in the denominator only, and nothing seen gives nothing."""
        sink = [float(self.inputs["head_sink"][head])] if "head_sink" in self.inputs else []
        most = max([*logits.values(), *sink], default=0.0)
        total = sum(math.exp(each - most) for each in [*logits.values(), *sink])
        return {k: math.exp(logit - most) / total for k, logit in logits.items()}

    def mix(self, row: int, head: int, weights: dict[int, float]) -> Row:
        mixed = [0.0] * self.value_size
        for k, weight in weights.items():
            value = self.value_slots[self.slot_in_table(row, k)][head * self.kv_heads // self.heads]
            mixed = [sum_so_far + weight * v for sum_so_far, v in zip(mixed, value, strict=True)]
        return mixed


def flattened(values: Any) -> list[float]:
    if not isinstance(values, list):
        return [float(values)]
    return [number for each in values for number in flattened(each)]


def rounded_to_int8(x: float) -> int:
    """Half to even, then the range; Python's round is half to even."""
    return max(-128, min(127, round(x)))


def rounded_to_float8(x: float) -> float:
    """Three bits behind the first, the smallest step 2^-9, at most 448; half to even."""
    x = max(-448.0, min(448.0, x))
    if x == 0:
        return 0.0
    step = 2.0 ** max(math.frexp(abs(x))[1] - 4, -9)
    return round(x / step) * step
