"""Greedy text equals transformers' for the same checkpoint, however the engine divides the work.

Method: the small real model in float32, eight prompts of 5 to 900 tokens, the first 64 tokens.
Each way of dividing the work is varied alone, and once all together. A difference passes only
where transformers' own two best logits are closer than NEAR_TIE, and then it is listed.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from pa_engine import Engine, GeneratorParams, TorchExecutor
from pa_models import LoadedModel, find_model, load_model
from pa_spec import EngineConfig
from parity_prompts import PROMPT_TOKENS, prompt_of
from transformers import AutoModelForCausalLM

NEW_TOKENS = 64
NEAR_TIE = 1e-4
SHORT_POOL = 62
"""Blocks: the longest request needs 61, so the others wait for it or it for them."""


@dataclass(frozen=True)
class Way:
    """One way of dividing the work: the engine's limits, and whether prompts run together."""

    name: str
    block_size: int = 16
    num_blocks: int = 256
    chunk_size: int = 0
    together: bool = True


BASE = Way("together")
WAYS = (
    BASE,
    Way("alone", together=False),
    Way("blocks of 256", block_size=256, num_blocks=16),
    Way("chunks of 1", chunk_size=1),
    Way("chunks of 7", chunk_size=7),
    Way("chunks of 64", chunk_size=64),
    Way("a pool in which requests wait", num_blocks=SHORT_POOL),
    Way("everything", block_size=16, num_blocks=SHORT_POOL, chunk_size=1),
)


class Oracle:
    """transformers on the same file, with its greedy continuations."""

    def __init__(self, path: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.model = AutoModelForCausalLM.from_pretrained(
                str(path.parent), gguf_file=path.name, dtype=torch.float32
            ).eval()

    def generate(self, prompt: list[int], eos: tuple[int, ...]) -> list[int]:
        ids = torch.tensor([prompt])
        with torch.inference_mode():
            out = self.model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=NEW_TOKENS,
                do_sample=False,
                eos_token_id=list(eos),
                pad_token_id=0,
            )
        tokens: list[int] = out[0, len(prompt) :].tolist()
        return tokens[:-1] if tokens and tokens[-1] in eos else tokens

    def gap(self, sequence: list[int]) -> float:
        """Distance between the two best logits behind a sequence."""
        with torch.inference_mode():
            logits = self.model(torch.tensor([sequence])).logits[0, -1]
        best = logits.topk(2).values
        return float(best[0] - best[1])


@pytest.fixture(scope="module")
def loaded() -> LoadedModel:
    return load_model("smollm2", dtype="float32")


@pytest.fixture(scope="module")
def prompts(loaded: LoadedModel) -> list[list[int]]:
    return [prompt_of(loaded.tokenizer, count) for count in PROMPT_TOKENS]


@pytest.fixture(scope="module")
def oracle() -> Oracle:
    return Oracle(find_model("smollm2"))


@pytest.fixture(scope="module")
def expected(oracle: Oracle, loaded: LoadedModel, prompts: list[list[int]]) -> list[list[int]]:
    return [oracle.generate(prompt, loaded.decoder.config.eos_token_ids) for prompt in prompts]


def generate(loaded: LoadedModel, prompts: list[list[int]], way: Way) -> list[list[int]]:
    config = EngineConfig(
        block_size=way.block_size,
        num_blocks=way.num_blocks,
        max_batch_size=len(prompts),
        max_scheduled_tokens=2048,
        chunk_size=way.chunk_size,
        reserve_turn_limit=True,
    )
    engine = Engine(TorchExecutor(loaded.decoder), config)
    params = GeneratorParams(max_generated_tokens=NEW_TOKENS)
    requests = []
    for prompt in prompts:
        requests.append(engine.create_request(params))
        requests[-1].begin_turn(prompt)
    answers: dict[int, list[int]] = {}
    while engine.has_pending_requests():
        for event in engine.run():
            assert event.error_code == 0, event
            if event.finish_reason and event.request is not None:
                tokens = event.request.tokens.tolist()
                answers[event.request.id] = tokens[event.usage.prompt_tokens :]
                event.request.close()
    assert engine.check_all() == ()
    statistics = engine.statistics()
    if way.num_blocks == SHORT_POOL:
        assert statistics.deferred_rows > 0
    engine.close()
    return [answers[request.id] for request in requests]


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_greedy_tokens_equal_those_of_transformers(
    way: Way,
    loaded: LoadedModel,
    prompts: list[list[int]],
    oracle: Oracle,
    expected: list[list[int]],
) -> None:
    if way.together:
        found = generate(loaded, prompts, way)
    else:
        found = [generate(loaded, [prompt], replace(way))[0] for prompt in prompts]

    assert set(loaded.decoder.attention_backends) == {"cpu"}
    for prompt, ours, theirs in zip(prompts, found, expected, strict=True):
        if ours == theirs:
            continue
        place = next(
            (i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b),
            min(len(ours), len(theirs)),
        )
        gap = oracle.gap(prompt + theirs[:place])
        print(f"{way.name}: prompt of {len(prompt)}, token {place}: gap {gap:.2e}")
        assert gap < NEAR_TIE, (len(prompt), place, ours[place:], theirs[place:])
