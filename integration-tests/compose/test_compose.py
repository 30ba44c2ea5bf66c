"""Each part of an engine is replaced by a user-written class, alone and all together.

The parts are in the modules beside this one. What an engine must answer is computed without it
(FakeExecutor, RuleExecutor), or is what the default composition answers (a decoder).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pa_engine import Engine, TorchExecutor
from pa_engine.testing import FailingExecutor, FakeExecutor, FaultyCall, expected_tokens
from pa_models import load_decoder
from pa_models.testing import tiny_config, write_checkpoint
from pa_spec import (
    CONTRACT_VERSION,
    ContractViolation,
    Decoder,
    EngineConfig,
    Int32Array,
    ModelExecutor,
    Outcome,
    Phase,
    SchedulerPolicy,
    StateManifest,
    StepAborted,
    StepCache,
    StepObserver,
)
from torch import Tensor

from compose.conversation import (
    CONFIG,
    NUM_BLOCKS,
    Dialogue,
    converse,
    expected_sequences,
)
from compose.phase_counter import PhaseCounter
from compose.plain_decoder import PlainDecoder
from compose.rule_executor import RuleExecutor, rule
from compose.shortest_first import ShortestPromptFirst
from compose.slab_cache import SlabCache, SlabSizes

SHORT = (
    Dialogue((((3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2), 4), ((38,), 3))),
    Dialogue((((40, 41, 42), 8),)),
    Dialogue((((7,), 5), ((8, 9), 2))),
    Dialogue((((11, 12), 3),)),
)
SIZES = SlabSizes(slabs=2, slab_blocks=4, residents=CONFIG.max_batch_size)


def _fake(num_blocks: int = NUM_BLOCKS) -> FakeExecutor:
    return FakeExecutor(num_blocks=num_blocks)


def _hashed() -> list[list[int]]:
    """Return what every engine with a FakeExecutor must answer."""
    return expected_sequences(lambda sequence: expected_tokens(sequence, 1)[0])


def _slabs(manifest: StateManifest | None = None) -> SlabCache:
    return SlabCache(SIZES, manifest)


def test_every_part_is_what_its_protocol_says(tmp_path: Path) -> None:
    config = tiny_config("llama")
    policy: SchedulerPolicy = ShortestPromptFirst(16)
    cache: StepCache = _slabs()
    executor: ModelExecutor[Int32Array] = RuleExecutor()
    decoder: Decoder[Tensor] = PlainDecoder(config, write_checkpoint(tmp_path, config))
    observer: StepObserver = PhaseCounter()

    assert all(each is not None for each in (policy, cache, executor, decoder, observer))


def test_the_default_composition_answers_what_is_expected() -> None:
    sequences, _ = converse(Engine(_fake(), CONFIG))

    assert sequences == _hashed()


def test_a_policy_of_ones_own_changes_the_order_and_not_the_answers() -> None:
    engine = Engine(_fake(), CONFIG, policy=ShortestPromptFirst(CONFIG.block_size))

    sequences, order = converse(engine)

    assert sequences == _hashed()
    assert engine.check_all() == ()
    # The first three that the rows have room for, by the length of what they read.
    assert list(dict.fromkeys(order))[:3] == [3, 1, 2]
    assert list(dict.fromkeys(converse(Engine(_fake(), CONFIG))[1]))[:3] == [1, 2, 0]


def test_a_cache_of_ones_own_serves_as_many_as_it_has_slabs() -> None:
    cache = _slabs()
    engine = Engine(_fake(cache.usage.total), CONFIG, cache=cache)

    sequences, _ = converse(engine)

    assert sequences == _hashed()
    assert engine.check_all() == ()
    statistics = engine.statistics()
    assert (statistics.peak_blocks_used, statistics.total_blocks) == (8, 8)
    assert statistics.deferred_rows > 0
    assert cache.usage.free == 8


@pytest.mark.parametrize("call", ["launch", "collect"])
@pytest.mark.parametrize("number", [1, 2, 5, 9])
@pytest.mark.spec("E84")
def test_a_cache_of_ones_own_survives_an_abort(call: str, number: int) -> None:
    cache = _slabs()
    executor = FailingExecutor(_fake(8), FaultyCall(call, number, StepAborted("once")))
    engine = Engine(executor, CONFIG, cache=cache)

    sequences, _ = converse(engine)

    assert sequences == _hashed()
    assert engine.statistics().outcomes[Outcome.RETRYABLE_BATCH_ABORT] == 1
    assert engine.check_all() == ()


@pytest.mark.spec("E40", "E89")
def test_what_never_fits_a_cache_of_ones_own_fails_alone() -> None:
    cache = SlabCache(SlabSizes(slabs=2, slab_blocks=1, residents=3))
    engine = Engine(_fake(2), CONFIG, cache=cache)
    never, fits = engine.create_request(), engine.create_request()
    never.begin_turn([1] * 17)
    fits.begin_turn([1] * 9)

    events = engine.run()

    assert {event.request: event.error_code.name for event in events} == {
        never: "REQUEST_UNSERVICEABLE",
        fits: "NONE",
    }


@pytest.mark.parametrize("chunk", [0, 1, 9])
def test_an_executor_of_ones_own_answers_by_its_rule(chunk: int) -> None:
    config = EngineConfig(
        num_blocks=NUM_BLOCKS, max_batch_size=3, max_scheduled_tokens=20, chunk_size=chunk
    )

    sequences, _ = converse(Engine(RuleExecutor(), config))

    assert sequences == expected_sequences(rule)


@pytest.mark.parametrize("call", ["launch", "collect"])
@pytest.mark.spec("E84")
def test_an_executor_of_ones_own_survives_an_abort(call: str) -> None:
    executor = FailingExecutor(RuleExecutor(), FaultyCall(call, 6, StepAborted("once")))

    sequences, _ = converse(Engine(executor, CONFIG))

    assert sequences == expected_sequences(rule)


def test_an_observer_of_ones_own_counts_every_phase() -> None:
    observer = PhaseCounter()
    executor = FailingExecutor(_fake(), FaultyCall("collect", 4, StepAborted("once")))
    engine = Engine(executor, CONFIG, observer=observer)

    sequences, _ = converse(engine)

    assert sequences == _hashed()
    steps = engine.statistics().steps
    published = [phase for phase in Phase if phase.value.startswith("publish")]
    assert {observer[phase] for phase in (*published, Phase.PREPARE)} == {steps}
    before = (Phase.RESERVE, Phase.CHECKPOINT, Phase.LAUNCH, Phase.COLLECT)
    assert {observer[phase] for phase in before} == {steps + 1}
    assert observer[Phase.ROLLBACK] == 1
    assert observer.newest == [phase for phase in Phase if phase is not Phase.ROLLBACK]


@pytest.mark.parametrize("chunk", [0, 7])
def test_a_decoder_of_ones_own_answers_what_the_default_one_answers(
    tmp_path: Path, chunk: int
) -> None:
    config = tiny_config("llama", vocab_size=290)
    tensors = write_checkpoint(tmp_path, config)
    limits = EngineConfig(
        num_blocks=NUM_BLOCKS, max_batch_size=3, max_scheduled_tokens=20, chunk_size=chunk
    )
    default, _ = converse(Engine(TorchExecutor(load_decoder(tmp_path)), limits), SHORT)

    sequences, _ = converse(Engine(TorchExecutor(PlainDecoder(config, tensors)), limits), SHORT)

    assert sequences == default
    assert all(len(set(sequence)) > 3 for sequence in sequences)


def test_every_part_of_ones_own_works_with_every_other(tmp_path: Path) -> None:
    config = tiny_config("llama")
    tensors = write_checkpoint(tmp_path, config)
    expected, _ = converse(Engine(TorchExecutor(load_decoder(tmp_path)), CONFIG), SHORT)
    decoder, observer = PlainDecoder(config, tensors), PhaseCounter()
    engine = Engine(
        TorchExecutor(decoder),
        CONFIG,
        cache=_slabs(decoder.manifest),
        policy=ShortestPromptFirst(CONFIG.block_size),
        observer=observer,
    )

    sequences, _ = converse(engine, SHORT)

    assert sequences == expected
    assert engine.check_all() == ()
    assert observer[Phase.PUBLISH_EVENTS] == engine.statistics().steps


class NewerCache(SlabCache):
    implements_contract = "2.0"


class OlderDecoder(PlainDecoder):
    implements_contract = "0.9"


def test_a_part_of_another_contract_is_refused_naming_both(tmp_path: Path) -> None:
    config = tiny_config("llama")
    tensors = write_checkpoint(tmp_path, config)
    current = CONTRACT_VERSION.replace(".", r"\.")

    with pytest.raises(ContractViolation, match=rf"NewerCache: .*{current}.*contract 2\.0"):
        Engine(_fake(), CONFIG, cache=NewerCache(SIZES))
    with pytest.raises(ContractViolation, match=rf"OlderDecoder: .*{current}.*contract 0\.9"):
        TorchExecutor(OlderDecoder(config, tensors))
