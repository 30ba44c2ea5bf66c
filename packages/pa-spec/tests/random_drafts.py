"""Random calls in the form of the golden ones, features in any combination that is legal."""

from __future__ import annotations

from typing import Any

import numpy as np
from attention_cases import Draft, rotary
from attention_evaluator import Evaluator
from pa_spec import ElementType
from pa_spec.conformance.attention import problem_of
from pa_spec.conformance.problem import Problem
from pa_spec.conformance.wanted import Tolerance

NEAR = Tolerance(2e-5, 2e-5)


def random_problem(seed: int) -> Problem:
    """Draw a call in float32 and evaluate its formulas."""
    case = random_draft(seed).case()
    case["expected"] = Evaluator(case).evaluate()
    return problem_of(case, ElementType.FLOAT32, NEAR)


def random_draft(seed: int) -> Draft:
    rng = np.random.default_rng(seed)
    is_latent = bool(rng.random() < 0.25)
    kv_heads = 1 if is_latent else int(rng.integers(1, 8))
    heads = (kv_heads * int(rng.integers(1, 4)), kv_heads)
    size = int(rng.choice([8, 16, 24])) if not is_latent else 16
    rows = [(int(rng.integers(0, 19)), int(rng.integers(0, 5))) for _ in range(rng.integers(1, 4))]
    table, blocks = draw_table(rng, rows)
    inputs: dict[str, Any] = {}
    attributes: dict[str, Any] = {
        name: value
        for name, value in (("local_window_size", int(rng.integers(1, 9))), ("softcap", 1.5))
        if rng.random() < 0.4
    }
    if is_latent:
        attributes |= {"kv_cache_layout": "LATENT", "v_head_size": 8, "scale": 0.25}
    elif rng.random() < 0.5:
        attributes["scale"] = 0.5
    cache_type = str(rng.choice(["", "", "int8", "float8e4m3fn"]))
    if cache_type:
        quantize(rng, (kv_heads, size), attributes, inputs)
    else:
        # Codes of what is rotated or normalized first hang on the last bit of float32.
        prologue(rng, size, attributes, inputs)
    extras(rng, rows, heads[0], (attributes, inputs))
    return Draft(
        f"random_{seed}",
        "anything",
        rows,
        table,
        heads=heads,
        head_size=size,
        blocks=blocks,
        attributes=attributes,
        inputs=inputs,
        cache_type=cache_type,
        is_packed=bool(not is_latent and rng.random() < 0.3),
        is_latent=is_latent,
    )


def draw_table(
    rng: np.random.Generator, rows: list[tuple[int, int]]
) -> tuple[list[list[int]], int]:
    """Deal blocks; what a row does not need is unmapped in one way or another."""
    needed = [-(-(past + new) // 16) for past, new in rows]
    blocks = sum(needed) + 1
    dealt = rng.permutation(blocks).tolist()
    width = max(needed) + 1
    table = []
    for count in needed:
        own = [dealt.pop() for _ in range(count)]
        if own and rng.random() < 0.15:
            own[0] = -1
        table.append(own + [int(rng.choice([-1, blocks, -5]))] * (width - count))
    return table, blocks


def quantize(
    rng: np.random.Generator,
    shape: tuple[int, int],
    attributes: dict[str, Any],
    inputs: dict[str, Any],
) -> None:
    for letter in "k" if "v_head_size" in attributes else "kv":
        per_channel = bool(rng.random() < 0.5)
        attributes[f"{letter}_quant_type"] = "PER_CHANNEL" if per_channel else "PER_TENSOR"
        drawn = 2.0 ** rng.integers(-4, 2, (shape[0], 1, shape[1]))
        inputs[f"{letter}_scale"] = drawn.tolist() if per_channel else [float(drawn[0, 0, 0])]


def prologue(
    rng: np.random.Generator,
    size: int,
    attributes: dict[str, Any],
    inputs: dict[str, Any],
) -> None:
    if "v_head_size" not in attributes and rng.random() < 0.4:
        for name in ("q_norm_weight", "k_norm_weight"):
            inputs[name] = (rng.integers(-8, 9, size) / 8).tolist()
        attributes["qk_norm_epsilon"] = 0.25
    if rng.random() < 0.5:
        offset = 8 if size > 8 and rng.random() < 0.5 else 0
        inputs |= rotary(40, int(rng.integers(1, (size - offset) // 2 + 1)))
        attributes |= {"do_rotary": 1, "rotary_offset": offset}
        attributes["rotary_interleaved"] = int(rng.integers(2))


def extras(
    rng: np.random.Generator,
    rows: list[tuple[int, int]],
    heads: int,
    drawn: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    attributes, inputs = drawn
    context = max(past + new for past, new in rows)
    tokens = [past + j for past, new in rows for j in range(new)]
    if "v_head_size" not in attributes and rng.random() < 0.3:
        inputs["head_sink"] = (rng.integers(-8, 9, heads) / 4).tolist()
    if rng.random() < 0.3:
        inputs["query_positions"] = [int(each + rng.integers(0, 3)) for each in tokens]
    if tokens and rng.random() < 0.3:
        most = max(new for _, new in rows)
        shape = (int(rng.choice([1, len(rows)])), int(rng.choice([1, heads])), most, context)
        inputs["attention_bias"] = (rng.integers(-8, 9, shape) / 4).tolist()
    if rng.random() < 0.3:
        inputs["attention_metadata"] = [5, max(context, 1), 0][: int(rng.integers(2, 4))]
    if tokens and rng.random() < 0.3:
        attributes["qk_output"] = int(rng.integers(1, 3))
