"""Rotation outside the operator, for frequencies that depend on each sequence's length."""

from __future__ import annotations

from typing import final

import torch
from pa_spec import StepInputs
from torch import Tensor
from torch.nn import functional

from pa_models.model_config import ModelConfig
from pa_models.rope import rotary_frequencies


@final
class RowRotation:
    """One step's angles, where every row has the frequencies of its own length.

    A row whose sequence has n tokens after the step uses the frequencies for n: longrope's long
    factors from n > original tokens on, dynamic's stretched base from n > trained tokens on. Keys
    that earlier steps stored keep the rotation they got then.
    """

    def __init__(self, config: ModelConfig, inputs: StepInputs[Tensor]) -> None:
        self._config = config
        boundaries = inputs.cumulative_sequence_length.long()
        tokens = boundaries.diff()
        totals = inputs.past_seqlens + tokens
        device = inputs.input_ids.device
        found = [rotary_frequencies(config.rope, total) for total in totals.tolist()]
        frequencies = torch.stack([each for each, _ in found]).to(device)
        factors = torch.tensor([factor for _, factor in found], device=device)
        row = torch.repeat_interleave(torch.arange(len(tokens), device=tokens.device), tokens)
        step = torch.arange(len(row), device=row.device) - boundaries[row]
        positions = inputs.past_seqlens[row] + step
        angles = positions[:, None].float() * frequencies[row]  # [T, rotary_dim/2]
        factor = factors[row, None]
        self._cos = (angles.cos() * factor)[:, None]  # [T, 1, rotary_dim/2]
        self._sin = (angles.sin() * factor)[:, None]

    def apply(self, qkv: Tensor, query_norm: Tensor | None, key_norm: Tensor | None) -> Tensor:
        """Normalize (where the model does) and rotate queries and keys of packed rows, in place.

        qkv: [T, (H+2K)*D]. query_norm, key_norm: [D], None where the model has none.
        """
        config = self._config
        heads = qkv.view(len(qkv), -1, config.head_size)
        both = heads[:, : config.num_heads + config.kv_num_heads]
        query, key = both[:, : config.num_heads], both[:, config.num_heads :]
        for part, weight in ((query, query_norm), (key, key_norm)):
            if weight is not None:
                part.copy_(
                    functional.rms_norm(part, (config.head_size,), weight, config.norm_epsilon)
                )
        half = config.rope.rotary_dim // 2
        first, second = both[..., :half].float(), both[..., half : 2 * half].float()
        # Both halves first: in float32 they are views of what the assignments write.
        turned = first * self._cos - second * self._sin, second * self._cos + first * self._sin
        both[..., :half], both[..., half : 2 * half] = turned
        return qkv
