"""A caller, a scheduler and a cache in plain numbers: what each step of an engine does.

Method: E41 to E51 one request after another. It gives the expected steps of
spec/vectors/engine_steps.json; the engine's own tests run the same stories.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Case = Mapping[str, Any]


@dataclass
class Simulated:
    """One request; place is where it stands in the case."""

    place: int
    prompt: int
    left: int
    committed: int = 0
    sequence: int = 0
    owned: int = 0
    is_resident: bool = False
    is_over: bool = False

    @property
    def is_prefill(self) -> bool:
        return self.committed < self.prompt


class Simulation:
    """Steps of one case until nothing runs any more."""

    def __init__(self, case: Case) -> None:
        self.config = case["config"]
        self.closes = case["closes"]
        self.requests = [
            Simulated(place, each["prompt"], each["generates"], sequence=each["prompt"])
            for place, each in enumerate(case["requests"])
        ]
        self.residents: list[Simulated] = []
        self.free = self.config["num_blocks"]

    def run(self) -> tuple[list[dict[str, Any]], str]:
        """Return the steps, and why there is none behind the last."""
        steps: list[dict[str, Any]] = []
        while True:
            step = self.step()
            if not step["rows"] and not step["unserviceable"]:
                return steps, "CAPACITY_DEFERRED" if step["deferred"] else "NO_WORK"
            steps.append(step)

    def step(self) -> dict[str, Any]:
        selected, deferred, unserviceable = self.admit()
        tokens = self.grant(selected)
        rows = [[each.place, each.committed, tokens[each.place]] for each in selected]
        finished = [each.place for each in selected if self.advance(each, tokens[each.place])]
        return {
            "rows": rows,
            "deferred": [each.place for each in deferred],
            "unserviceable": unserviceable,
            "finished": finished,
        }

    def candidates(self) -> list[Simulated]:
        executable = [each for each in self.residents if not each.is_over]
        waiting = [each for each in self.requests if not (each.is_resident or each.is_over)]
        decodes = [each for each in executable if not each.is_prefill]
        return decodes + [each for each in executable if each.is_prefill] + waiting

    def admit(self) -> tuple[list[Simulated], list[Simulated], list[int]]:
        selected: list[Simulated] = []
        deferred: list[Simulated] = []
        unserviceable: list[int] = []
        most = min(self.config["max_scheduled_tokens"], self.config["max_batch_size"])
        for each in self.candidates():
            needed = -(-max(each.sequence, each.committed + 1) // self.config["block_size"])
            has_place = each.is_resident or len(self.residents) < self.config["max_batch_size"]
            if needed > self.config["num_blocks"]:
                unserviceable.append(each.place)
                self.end(each)
            elif len(selected) == most or not has_place or needed - each.owned > self.free:
                deferred.append(each)
            else:
                self.free -= max(0, needed - each.owned)
                each.owned = max(needed, each.owned)
                if not each.is_resident:
                    self.residents.append(each)
                    each.is_resident = True
                selected.append(each)
        return selected, deferred, unserviceable

    def grant(self, selected: list[Simulated]) -> dict[int, int]:
        left = self.config["max_scheduled_tokens"] - len(selected)
        tokens = {}
        for each in selected:
            wanted = each.sequence - each.committed - 1 if each.is_prefill else 0
            if self.config["chunk_size"]:
                wanted = min(wanted, self.config["chunk_size"] - 1)
            tokens[each.place] = 1 + min(wanted, left)
            left -= tokens[each.place] - 1
        return tokens

    def advance(self, each: Simulated, tokens: int) -> bool:
        """Commit a row; say whether its turn is over."""
        each.committed += tokens
        if each.committed == each.sequence:
            each.sequence += 1
            each.left -= 1
        if each.left == 0:
            self.end(each)
        return each.is_over

    def end(self, each: Simulated) -> None:
        each.is_over = True
        if self.closes and each.is_resident:
            self.residents.remove(each)
            self.free += each.owned
