"""Traced, compiled and exported, the operator does what it does when it is called.

The caches are the point: a compiler that does not know that they are written reorders or drops what
reads them. Every graph here reads a cache before and after the call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from typing import Any

import pytest
import torch
from pa_kernels.testing import PagedProblem, ProblemOptions, expect_close, random_paged_problem
from pa_spec import ContractViolation
from torch import Tensor
from torch._dynamo.testing import CompileCounter

ROWS = ((5, 2), (0, 1), (16, 0), (31, 3))
# What torch 2.13 says to itself while it compiles and exports.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.isinstance.treespec, LeafSpec:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.torch.jit.script_method:DeprecationWarning"),
]

CACHES = ("key_cache", "value_cache")
INT8 = {"cache_dtype": torch.int8, "quant_type": "PER_CHANNEL", "v_quant_type": "PER_TENSOR"}
FP8 = {"cache_dtype": torch.float8_e4m3fn, "quant_type": "PER_TENSOR"}
LATENT: dict[str, Any] = {
    "kv_num_heads": 1,
    "head_size": 24,
    "v_head_size": 16,
    "scale": 0.2,
    "rotary_dim": 8,
    "rotary_offset": 16,
}
# Inductor's settings for a graph of two small sums: no search for vector instructions, no workers.
QUICKLY: dict[str, str | int | bool | Callable[..., Any]] = {
    "cpp.simdlen": 1,
    "compile_threads": 1,
    "cpp_cache_precompile_headers": False,
}
ALL_CHECKS = (
    "test_schema",
    "test_autograd_registration",
    "test_faketensor",
    "test_aot_dispatch_dynamic",
)
FEATURES: dict[str, dict[str, Any]] = {
    "separate": {"rotary_dim": 16, "has_qk_norm": True, "has_sink": True},
    "packed": {"is_packed": True, "softcap": 5.0, "window_tokens": 4},
    "strided": {"is_strided": True, "has_slot_mapping": True, "has_query_positions": True},
    "float16": {"dtype": torch.float16},
    "bfloat16": {"dtype": torch.bfloat16, "metadata_entries": 3},
    "int8": INT8,
    "float16 int8": {"dtype": torch.float16, **INT8},
    "bfloat16 fp8": {"dtype": torch.bfloat16, **FP8},
    "latent": LATENT,
    "latent fp8": LATENT | FP8,
    "scores": {"qk_output": 1, "has_bias": True},
    "probabilities of latent": LATENT | {"qk_output": 2, "metadata_entries": 2},
}


def problem_of(features: dict[str, Any], rows: tuple[tuple[int, int], ...] = ROWS) -> PagedProblem:
    """Draw a problem without NaN in unused slots, which torch's checks take for differences."""
    problem = random_paged_problem(2, ProblemOptions(rows=rows, **features))
    clean = {}
    for name, cache in caches_of(problem):
        clean[name] = cache.float().nan_to_num(0.5).to(cache.dtype)
    return replace(problem, inputs=replace(problem.inputs, **clean))


def caches_of(problem: PagedProblem) -> list[tuple[str, Tensor]]:
    named = [(name, getattr(problem.inputs, name)) for name in CACHES]
    return [(name, cache) for name, cache in named if cache is not None]


def bits(tensor: Tensor) -> Tensor:
    return tensor.view(torch.uint8) if tensor.element_size() == 1 else tensor


@pytest.fixture(autouse=True)
def _forget_compiled_code() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Layer(torch.nn.Module):
    """Reads the key cache, calls the operator, and reads the key cache again."""

    def __init__(self, problem: PagedProblem) -> None:
        super().__init__()
        self.attributes = asdict(problem.attributes)

    def forward(self, *tensors: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        key_cache = tensors[3]
        assert key_cache is not None
        before = key_cache.float().sum()
        output, scores = torch.ops.pa.paged_attention(*tensors, **self.attributes)
        return output + 1, scores, before, key_cache.float().sum()


Call = Callable[..., tuple[Tensor, ...]]


def tensors_of(problem: PagedProblem) -> tuple[Tensor | None, ...]:
    return tuple(tensor for _, tensor in problem.inputs.named())


def expect_same_as_called(traced: Call, problem: PagedProblem) -> None:
    """Compare what two calls in a row return and leave in the caches."""
    direct, own = problem.clone(), problem.clone()
    for _ in range(2):
        expected = Layer(problem)(*tensors_of(direct))
        found = traced(*tensors_of(own))
        assert torch.equal(found[0], expected[0])
        for one, other in zip(found[1:], expected[1:], strict=True):
            expect_close(one, other, torch.float32)
        for (name, one), (_, other) in zip(caches_of(own), caches_of(direct), strict=True):
            assert torch.equal(bits(one), bits(other)), name
    for (name, after), (_, before) in zip(caches_of(own), caches_of(problem), strict=True):
        assert not torch.equal(bits(after), bits(before)), name


@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES)
def test_torchs_own_checks_pass(features: dict[str, Any]) -> None:
    problem = problem_of(features)
    # The schema's check computes with what it compares; torch computes with no eight-bit float.
    is_computable = problem.options.cache_dtype != torch.float8_e4m3fn

    torch.library.opcheck(
        torch.ops.pa.paged_attention.default,
        tensors_of(problem),
        asdict(problem.attributes),
        test_utils=ALL_CHECKS[0 if is_computable else 1 :],
    )


def test_both_caches_are_declared_to_be_written_and_nothing_else() -> None:
    arguments = torch.ops.pa.paged_attention.default._schema.arguments

    written = [each.name for each in arguments if each.alias_info and each.alias_info.is_write]
    assert written == list(CACHES)


@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES)
def test_a_whole_graph_leaves_the_caches_that_a_call_leaves(features: dict[str, Any]) -> None:
    problem = problem_of(features)
    compiled = torch.compile(Layer(problem), fullgraph=True, backend="aot_eager")

    expect_same_as_called(compiled, problem)


@pytest.mark.parametrize("name", ["separate", "latent fp8"])
def test_inductor_leaves_the_caches_that_a_call_leaves(name: str) -> None:
    problem = problem_of(FEATURES[name])
    compiled = torch.compile(Layer(problem), fullgraph=True, options=QUICKLY)

    expect_same_as_called(compiled, problem)


def test_caches_that_are_views_of_one_pool_are_written_there() -> None:
    problem = problem_of({})
    attributes = asdict(problem.attributes)
    tensors = tensors_of(problem)
    caches = [cache for _, cache in caches_of(problem)]

    def step(pool: Tensor) -> Tensor:
        output, _ = torch.ops.pa.paged_attention(
            *tensors[:3], pool[0], pool[1], *tensors[5:], **attributes
        )
        result: Tensor = output + pool.sum()
        return result

    expected_pool, pool = torch.stack(caches), torch.stack(caches)
    expected = step(expected_pool)
    found = torch.compile(step, fullgraph=True, backend="aot_eager")(pool)

    assert torch.equal(pool, expected_pool)
    assert torch.equal(found, expected)


def test_a_compiled_graph_serves_every_length_and_batch() -> None:
    counter = CompileCounter()
    problem = problem_of({"has_sink": True})
    compiled = torch.compile(Layer(problem), fullgraph=True, backend=counter)

    for rows in (ROWS, ((0, 40), (3, 3)), ((7, 1), (8, 1), (9, 1), (90, 1), (1, 1)), ((0, 2),) * 9):
        served = problem_of({"has_sink": True}, rows)
        for name in ("query", "key", "value", "past_seqlens", "cumulative_sequence_length"):
            torch._dynamo.mark_dynamic(getattr(served.inputs, name), 0)
        for name in CACHES:
            torch._dynamo.mark_dynamic(getattr(served.inputs, name), 0)
        torch._dynamo.mark_dynamic(served.inputs.block_table, 0)
        torch._dynamo.mark_dynamic(served.inputs.block_table, 1)
        direct = served.clone()

        found = compiled(*tensors_of(served))

        expected = Layer(problem)(*tensors_of(direct))
        assert torch.equal(found[0], expected[0])

    assert counter.frame_count == 1


@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES)
def test_an_exported_program_writes_its_callers_caches(features: dict[str, Any]) -> None:
    problem = problem_of(features)

    program = torch.export.export(Layer(problem), tensors_of(problem.clone()))

    expect_same_as_called(program.module(), problem)
    written = program.run_decompositions({}).graph_signature.user_inputs_to_mutate
    assert len(written) == len(caches_of(problem))


class Decoder(torch.nn.Module):
    """Owns its caches."""

    def __init__(self, problem: PagedProblem) -> None:
        super().__init__()
        self.attributes = asdict(problem.attributes)
        for name, cache in caches_of(problem):
            self.register_buffer(name, cache.clone())

    def forward(self, *tensors: Tensor) -> Tensor:
        query, key, value, *rest = tensors
        output: Tensor = torch.ops.pa.paged_attention(
            query, key, value, self.key_cache, self.value_cache, *rest, **self.attributes
        )[0]
        return output


def test_an_exported_program_writes_the_caches_that_it_owns() -> None:
    problem = problem_of({})
    inputs = [each for name, each in problem.inputs.named() if name not in CACHES]
    given = tuple(each for each in inputs if each is not None)
    eager = Decoder(problem)
    program = torch.export.export(Decoder(problem), given)
    assert set(program.run_decompositions({}).graph_signature.buffers_to_mutate.values()) == {
        *CACHES
    }

    loaded = program.module()
    for _ in range(2):
        assert torch.equal(loaded(*given), eager(*given))
    for name, buffer in eager.named_buffers():
        assert torch.equal(loaded.get_buffer(name), buffer), name
        assert not torch.equal(buffer, dict(caches_of(problem))[name]), name


@pytest.mark.parametrize(
    ("name", "value", "rule"), [("past_seqlens", -1, "V65"), ("past_seqlens", 10**6, "V65")]
)
def test_an_error_in_a_compiled_graph_names_its_rule(name: str, value: int, rule: str) -> None:
    problem = problem_of({})
    compiled = torch.compile(Layer(problem), fullgraph=True, backend="aot_eager")
    compiled(*tensors_of(problem.clone()))
    bad = problem.clone()
    getattr(bad.inputs, name)[0] = value

    with pytest.raises(ContractViolation) as caught:
        compiled(*tensors_of(bad))

    assert caught.value.rule_id == rule


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "cache of rank 3": ({"key_cache": torch.zeros(16, 2, 32)}, "V28"),
    "keys of another width": ({"key": torch.zeros(6, 48)}, "V13"),
    "lengths of int64": ({"past_seqlens": torch.zeros(4, dtype=torch.int64)}, "V98"),
}


@pytest.mark.parametrize(("changes", "rule"), REFUSED.values(), ids=REFUSED)
def test_a_broken_rule_is_named_while_tracing(changes: dict[str, Any], rule: str) -> None:
    problem = problem_of({})
    broken = replace(problem, inputs=replace(problem.inputs, **changes))

    with pytest.raises(Exception, match=rf"\({rule}\)"):
        torch.export.export(Layer(problem), tensors_of(broken))


def test_a_cache_of_another_rank_is_refused_also_beside_lengths_that_vary() -> None:
    problem = problem_of({})
    flat = replace(problem.inputs, key_cache=problem.inputs.key_cache.flatten(0, 1))
    torch._dynamo.mark_dynamic(flat.query, 0)

    with pytest.raises(Exception, match="V28"):
        torch.compile(Layer(problem), fullgraph=True, backend="eager")(
            *tensors_of(replace(problem, inputs=flat))
        )
