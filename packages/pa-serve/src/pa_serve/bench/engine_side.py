"""This engine as a side of a throughput comparison."""

from __future__ import annotations

import time
from typing import final

import numpy as np
from pa_engine import Engine, GeneratorParams, TorchExecutor
from pa_spec import EngineConfig, EventFlags, InputUnusable

from pa_serve.bench.load import Load, Timing
from pa_serve.served_model import ServedModel

_BLOCK_SIZE = 16


@final
class EngineSide:
    """Runs every prompt of a load together on a fresh engine."""

    name = "pa"

    def __init__(self, model: ServedModel) -> None:
        self._model = model

    def run(self, load: Load) -> Timing:
        """Do the work once; the engine and its cache are made before the clock starts."""
        decoder = self._model.loaded.decoder
        blocks = -(-(load.prompt_tokens + load.output_tokens) // _BLOCK_SIZE)
        config = EngineConfig(
            block_size=_BLOCK_SIZE,
            num_blocks=load.num_prompts * blocks,
            max_batch_size=load.num_prompts,
        )
        engine = Engine(TorchExecutor(decoder), config)
        prompts = load.prompts(decoder.config.vocab_size)
        params = GeneratorParams(max_generated_tokens=load.output_tokens, ignore_eos=True)
        first = np.full(load.num_prompts, np.nan)
        last = np.full(load.num_prompts, np.nan)
        start = time.perf_counter()
        requests = [engine.create_request(params) for _ in prompts]
        for request, prompt in zip(requests, prompts, strict=True):
            request.begin_turn(prompt)
        place_of = {request.id: place for place, request in enumerate(requests)}
        while engine.has_pending_requests():
            batch = engine.run()
            now = time.perf_counter() - start
            ids = batch.requests[(batch.flags & EventFlags.TOKEN) != 0].tolist()
            places = [place_of[each] for each in ids]
            last[places] = now
            first[places] = np.fmin(first[places], now)
        seconds = time.perf_counter() - start
        statistics = engine.statistics()
        engine.run(max_events=0)  # raises the error of an engine that failed on the way (E31)
        if statistics.generated_tokens != load.num_prompts * load.output_tokens:
            found = f"{statistics.generated_tokens} tokens"
            raise InputUnusable(self.name, found, "exactly the tokens that were asked for")
        engine.close()
        between = (last - first) / max(1, load.output_tokens - 1)
        return Timing(seconds, float(first.mean()), float(between.mean()), statistics.host_share)
