"""Decoders equal transformers, family by family and rope by rope.

Method: a tiny random checkpoint is written once and loaded by both sides through their own
loaders, so that configuration, tensor names and arithmetic are compared together; float32, logits
of every position. transformers is an oracle of this session alone, no package depends on it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pa_models
import pytest
import torch
import transformers
from pa_models.testing import PagedRun, tiny_config, write_checkpoint
from torch import Tensor

# Sums of at most 64 float32 products through two layers, in another order on each side; logits
# are near 1. Measured: at most 9e-6.
TOLERANCE = 2e-5

SWITCH = 16  # positions at which dynamic and longrope change their frequencies
PAIRS = 8  # of a head of 16
TOKENS = torch.randint(0, 300, (64,), generator=torch.Generator().manual_seed(5)).tolist()

FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "llama with biases": ("llama", {"attention_bias": True, "mlp_bias": True}),
    "smollm2": (
        "llama",
        {
            "num_attention_heads": 9,
            "num_key_value_heads": 3,
            "hidden_size": 144,
            "tie_word_embeddings": True,
        },
    ),
    "mistral": ("mistral", {}),
    "mistral with a window": ("mistral", {"sliding_window": 7}),
    "qwen2": ("qwen2", {}),
    "qwen2 with windowed layers": (
        "qwen2",
        {"use_sliding_window": True, "sliding_window": 7, "max_window_layers": 1},
    ),
    "qwen3": ("qwen3", {}),
    "qwen3 with a wide head": ("qwen3", {"hidden_size": 24, "attention_bias": True}),
}
ROPES: dict[str, dict[str, Any]] = {
    "default": {"rope_theta": 1e6},
    "default, newer spelling": {"rope_parameters": {"rope_type": "default", "rope_theta": 1e5}},
    "linear": {"rope_scaling": {"type": "linear", "factor": 4.0}},
    "dynamic": {
        "rope_scaling": {"rope_type": "dynamic", "factor": 4.0},
        "max_position_embeddings": SWITCH,
    },
    "llama3": {
        "rope_theta": 5e5,
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        },
    },
    "yarn": {
        "rope_scaling": {
            "rope_type": "yarn",
            "factor": 8.0,
            "original_max_position_embeddings": 64,
        },
    },
    "yarn with temperatures": {
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 1e6,
            "factor": 8.0,
            "original_max_position_embeddings": 64,
            "beta_fast": 16.0,
            "beta_slow": 2.0,
            "mscale": 1.0,
            "mscale_all_dim": 0.5,
            "truncate": False,
        },
    },
    "longrope": {
        "rope_scaling": {
            "rope_type": "longrope",
            "short_factor": [1.0 + 0.05 * pair for pair in range(PAIRS)],
            "long_factor": [1.0 + 2.0 * pair for pair in range(PAIRS)],
            "original_max_position_embeddings": SWITCH,
            "factor": 32.0,
        },
    },
    "proportional": {
        "rope_parameters": {
            "rope_type": "proportional",
            "rope_theta": 1e6,
            "partial_rotary_factor": 0.5,
        },
    },
}
CASES = [
    *((family, "default") for family in FAMILIES),
    *((family, rope) for family in ("llama", "mistral", "qwen2", "qwen3") for rope in ROPES),
    ("smollm2", "llama3"),
    ("smollm2", "yarn"),
    ("smollm2", "longrope"),
]


@pytest.fixture(autouse=True)
def quiet_oracle() -> Iterator[None]:
    """Its warnings about configurations are not what is tested."""
    level = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    yield
    transformers.logging.set_verbosity(level)


def written(folder: Path, family: str, rope: str) -> Path:
    base, changes = FAMILIES[family]
    write_checkpoint(folder, tiny_config(base, **changes, **ROPES[rope]), seed=11)
    return folder


@functools.cache
def oracle(folder: Path) -> Any:
    loaded = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return loaded.eval()


def oracle_logits(folder: Path, tokens: list[int]) -> Tensor:
    """Logits of every position of one sequence, [n, V]."""
    with torch.inference_mode():
        logits: Tensor = oracle(folder)(torch.tensor([tokens]), use_cache=False).logits[0]
    return logits


def assert_close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, atol=TOLERANCE, rtol=TOLERANCE)


@pytest.mark.parametrize(("family", "rope"), CASES)
def test_logits_equal_the_oracles(tmp_path: Path, family: str, rope: str) -> None:
    """One batch holds lengths around every boundary: the switch, a block, the window."""
    folder = written(tmp_path, family, rope)
    sequences = [TOKENS[:tokens] for tokens in (SWITCH - 1, SWITCH, SWITCH + 1, 1, 40)]
    run = PagedRun(pa_models.load_decoder(folder), len(sequences), 64)

    logits = run.step(sequences, all_logits=True)

    assert_close(logits, torch.cat([oracle_logits(folder, each) for each in sequences]))


@pytest.mark.parametrize("rope", ROPES)
def test_decoding_across_the_switch_equals_the_oracle_with_its_cache(
    tmp_path: Path, rope: str
) -> None:
    folder = written(tmp_path, "qwen3", rope)
    run = PagedRun(pa_models.load_decoder(folder), 1, 64)
    start = SWITCH - 3

    found = [run.step([TOKENS[:start]])[0]]
    found += [run.step([[token]])[0] for token in TOKENS[start : SWITCH + 4]]

    expected = []
    cache = transformers.DynamicCache()
    for piece in (TOKENS[:start], *([token] for token in TOKENS[start : SWITCH + 4])):
        with torch.inference_mode():
            output = oracle(folder)(torch.tensor([piece]), cache=cache, use_cache=True)
        expected.append(output.logits[0, -1])
    assert_close(torch.stack(found), torch.stack(expected))


@pytest.mark.parametrize("rope", sorted(set(ROPES) - {"dynamic", "longrope"}))
def test_chunks_of_a_prompt_equal_the_oracles_whole(tmp_path: Path, rope: str) -> None:
    folder = written(tmp_path, "mistral with a window", rope)
    run = PagedRun(pa_models.load_decoder(folder), 1, 64)

    found = [run.step([TOKENS[start : start + 7]], all_logits=True) for start in range(0, 42, 7)]

    assert_close(torch.cat(found), oracle_logits(folder, TOKENS[:42]))
