"""The engine refuses collaborators of another contract, naming them and both versions."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pa_cache
import pa_kernels
import pa_scheduler
import pytest
from engine_cases import CONFIG, NUM_BLOCKS, fake_engine
from pa_engine import IMPLEMENTS_CONTRACT, Engine, TorchExecutor
from pa_engine.contract import require_contract
from pa_engine.testing import FakeExecutor
from pa_spec import CONTRACT_VERSION, ContractViolation, check_contract_version
from tiny_decoder import TinyDecoder


class Foreign:
    """Says nothing of a contract."""


def _stating(version: object) -> object:
    return type("Stating", (Foreign,), {"implements_contract": version})()


def test_this_package_and_those_it_composes_fit_the_contract_that_is_installed() -> None:
    check_contract_version("pa-engine", IMPLEMENTS_CONTRACT)
    for package in (pa_kernels, pa_cache, pa_scheduler):
        check_contract_version(package.__name__, package.IMPLEMENTS_CONTRACT)


def test_one_that_says_nothing_is_taken_at_the_current_version() -> None:
    require_contract("cache", Foreign())
    require_contract("cache", Foreign)
    require_contract("cache", object())


@pytest.mark.parametrize("version", [CONTRACT_VERSION, "1.0"])
def test_a_compatible_version_is_accepted(version: str) -> None:
    require_contract("cache", _stating(version))


@pytest.mark.parametrize("version", ["2.0", "0.9", "1.99", "1", "one.zero", "", 1.5, None])
def test_an_incompatible_version_is_refused_naming_both(version: object) -> None:
    with pytest.raises(ContractViolation) as refused:
        require_contract("cache", _stating(version))

    assert refused.value.name == f"cache {__name__}.Stating"
    assert CONTRACT_VERSION in refused.value.expected
    assert str(version) in refused.value.actual


def test_a_package_states_its_version_once_for_everything_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    package = ModuleType("other_cache")
    package.IMPLEMENTS_CONTRACT = "3.1"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "other_cache", package)
    inside = type("Inside", (), {"__module__": "other_cache.inner"})

    with pytest.raises(ContractViolation, match=r"cache other_cache.inner.Inside: .*3\.1"):
        require_contract("cache", inside())

    inside.implements_contract = CONTRACT_VERSION  # type: ignore[attr-defined]
    require_contract("cache", inside())


@pytest.mark.parametrize("role", ["cache", "policy", "observer"])
def test_the_engine_refuses_an_incompatible_collaborator_before_anything_is_bound(
    role: str,
) -> None:
    executor = FakeExecutor(num_blocks=NUM_BLOCKS)
    parts: dict[str, Any] = {role: _stating("2.0")}

    with pytest.raises(ContractViolation, match=rf"{role} .*Stating: .*1\.0.*2\.0"):
        Engine(executor, CONFIG, **parts)

    assert executor._packer is None


def test_the_engine_refuses_an_incompatible_executor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeExecutor, "implements_contract", "0.1", raising=False)

    with pytest.raises(ContractViolation, match=r"executor .*FakeExecutor: .*contract 0\.1"):
        fake_engine()


def test_an_incompatible_decoder_is_refused_by_its_executor() -> None:
    class OldDecoder(TinyDecoder):
        implements_contract = "0.4"

    with pytest.raises(ContractViolation, match=r"decoder .*OldDecoder: .*contract 0\.4"):
        TorchExecutor(OldDecoder())


@pytest.mark.parametrize("package", [pa_cache, pa_scheduler, pa_kernels])
def test_the_engine_refuses_an_incompatible_sibling_that_it_would_use_by_default(
    package: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package, "IMPLEMENTS_CONTRACT", "2.0")

    with pytest.raises(ContractViolation, match=rf"{package.__name__}\..*contract 2\.0"):
        fake_engine()


def test_a_collaborator_that_is_falsy_is_used_all_the_same() -> None:
    class Phases(dict[str, int]):
        def phase(self, phase: object, step_id: object) -> None:
            self[str(phase)] = self.get(str(phase), 0) + 1

    phases = Phases()
    engine = fake_engine(observer=phases)
    request = engine.create_request()
    request.begin_turn([1, 2])

    engine.run()

    assert len(phases) == 11
