"""A policy of one's own: among prompts, the one with the least left to read goes first."""

from __future__ import annotations

import numpy as np
from pa_spec import Admission, Candidates, ResidentView, StepLimits, StepPlan, WaitingView


class ShortestPromptFirst:
    """Decodes keep their order and come first; prompts follow, the shortest rest first.

    Written with plain loops: a policy need not be fast to be right.
    """

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size

    def order(self, residents: ResidentView, waiting: WaitingView) -> Candidates:
        """List decodes, then prompts by what they have left; ties keep their order."""
        rows = [
            (int(row), int(request), int(done), int(length), int(limit), bool(done < prompt))
            for row, request, done, length, prompt, limit in zip(
                residents.resident,
                residents.request,
                residents.committed_tokens,
                residents.sequence_tokens,
                residents.prompt_tokens,
                residents.limit_tokens,
                strict=True,
            )
        ]
        rows += [
            (-1, int(request), 0, int(length), int(limit), True)
            for request, length, limit in zip(
                waiting.request, waiting.sequence_tokens, waiting.limit_tokens, strict=True
            )
        ]
        rows.sort(key=lambda row: row[3] - row[2] if row[5] else 0)
        columns = list(zip(*rows, strict=True)) or [()] * 6
        return Candidates(
            resident=np.array(columns[0], np.int32),
            request=np.array(columns[1], np.int64),
            committed_tokens=np.array(columns[2], np.int64),
            sequence_tokens=np.array(columns[3], np.int64),
            limit_tokens=np.array(columns[4], np.int64),
            is_prefill=np.array(columns[5], np.bool_),
            free_resident=waiting.free_resident,
        )

    def pack(self, candidates: Candidates, admission: Admission, limits: StepLimits) -> StepPlan:
        """Give every selected row one token, and prompts in order what the budget has left."""
        chosen = admission.selected
        past, length = candidates.committed_tokens[chosen], candidates.sequence_tokens[chosen]
        is_prefill = candidates.is_prefill[chosen]
        tokens = np.ones(len(chosen), np.int32)
        budget = limits.max_scheduled_tokens - len(chosen)
        for row in np.flatnonzero(is_prefill).tolist():
            extra = min(int(length[row] - past[row]) - 1, budget)
            if limits.chunk_tokens:
                extra = min(extra, limits.chunk_tokens - 1)
            tokens[row] += extra
            budget -= extra
        target = past + tokens
        samples = target == length
        ends = np.cumsum(tokens, dtype=np.int32)
        widest = int(target.max(initial=1))
        return StepPlan(
            request=candidates.request[chosen],
            resident=admission.resident,
            rank=np.arange(len(chosen), dtype=np.int32),
            tokens=tokens,
            packed_offset=ends - tokens,
            past_tokens=past,
            target_tokens=target,
            is_prefill=is_prefill,
            is_new=candidates.resident[chosen] < 0,
            drafts=None,
            logits_rows=(ends - 1)[samples],
            logits_offsets=np.concatenate(([0], np.cumsum(samples))).astype(np.int32),
            deferred=candidates.request[admission.deferred],
            unserviceable=candidates.request[admission.unserviceable],
            total_tokens=int(tokens.sum()),
            table_columns=-(-widest // self._block_size),
            padded_rows=len(chosen),
            capture_key=0,
            sequence_tokens=length,
            limit_tokens=candidates.limit_tokens[chosen],
        )
