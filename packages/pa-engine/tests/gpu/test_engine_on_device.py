"""The engine's device side on a CUDA device: uploads, device tables, last tokens, sampling."""

from __future__ import annotations

import pytest
import torch
from pa_engine import Engine, GeneratorParams, StepPacker, TorchExecutor
from pa_engine.executors.packing import RING_BUFFERS
from pa_spec import EngineConfig, StepLimits
from step_plans import Row, step_work
from tiny_decoder import VOCABULARY, TinyDecoder

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

PROMPTS = [
    [(7 * i + j) % VOCABULARY for j in range(length)] for i, length in enumerate((3, 40, 17))
]


def converse(device: str, params: GeneratorParams) -> list[list[int]]:
    config = EngineConfig(num_blocks=24, max_batch_size=3, max_scheduled_tokens=32, chunk_size=9)
    engine = Engine(TorchExecutor(TinyDecoder(positions=True, device=device)), config)
    requests = [engine.create_request(params) for _ in PROMPTS]
    for _ in range(2):
        for request, prompt in zip(requests, PROMPTS, strict=True):
            request.begin_turn(prompt)
        while engine.has_pending_requests():
            engine.run()
    assert engine.check_all() == ()
    return [request.tokens.tolist() for request in requests]


@pytest.mark.parametrize(
    "params",
    [
        GeneratorParams(max_generated_tokens=20),
        GeneratorParams(max_generated_tokens=20, repetition_penalty=1.3, no_repeat_ngram_size=3),
        GeneratorParams(max_generated_tokens=20, do_sample=True, top_k=8, top_p=0.9, seed=3),
    ],
    ids=["greedy", "penalties", "sampled"],
)
def test_two_turns_on_the_device_equal_those_on_the_host(params: GeneratorParams) -> None:
    assert converse("cuda", params) == converse("cpu", params)


def test_packed_steps_on_the_device_equal_those_on_the_host() -> None:
    limits = StepLimits(max_batch_size=4, max_scheduled_tokens=64)
    packers = [StepPacker(limits, 8, device) for device in ("cpu", "cuda")]
    steps = [
        [Row(0, 0, (5, 6, 7)), Row(2, 0, (1,))],
        [Row(0, 3, (-1,)), Row(2, 1, (-1,)), Row(1, 0, (9, 8))],
        [Row(1, 2, (-1,)), Row(0, 4, (-1,))],
    ]
    for number in range(2 * RING_BUFFERS):
        rows = steps[number % len(steps)]
        work = step_work(rows)
        host, device = (packer.pack(work) for packer in packers)
        for name in host.__slots__:
            one, other = getattr(host, name), getattr(device, name)
            assert one.tolist() == other.cpu().tolist(), name
        assert device.input_ids.is_cuda
        assert not device.attention_metadata.is_cuda
        tokens = torch.arange(len(host.sampling_resident), dtype=torch.int32) + number
        for packer, packed in zip(packers, (host, device), strict=True):
            packer.remember(packed, tokens.to(packer.device))
