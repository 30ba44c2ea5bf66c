from __future__ import annotations

import pytest
from pa_spec import CONTRACT_VERSION, ContractViolation, check_contract_version
from pa_spec.contract import version
from pa_spec.contract.data import text


def test_contract_version_is_the_one_in_spec() -> None:
    assert text("VERSION").strip() == CONTRACT_VERSION


@pytest.mark.parametrize("implemented", ["1.0", "1.2"])
def test_same_major_and_no_newer_minor_fits(
    implemented: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(version, "CONTRACT_VERSION", "1.2")

    check_contract_version("pa_cache", implemented)


@pytest.mark.parametrize("implemented", ["2.0", "0.9", "1.3"])
def test_other_major_or_newer_minor_is_refused_naming_both(
    implemented: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(version, "CONTRACT_VERSION", "1.2")

    with pytest.raises(ContractViolation) as caught:
        check_contract_version("pa_cache", implemented)

    assert str(caught.value) == (
        f"pa_cache: expected contract 1.0 to 1.2, got contract {implemented} (VERSION)"
    )


@pytest.mark.parametrize("implemented", ["", "1", "1.x", "1.0.0", "-1.0", "one"])
def test_what_is_no_version_is_refused(implemented: str) -> None:
    with pytest.raises(ContractViolation, match=r"pa_cache: expected contract 1\.0 to 1\.0"):
        check_contract_version("pa_cache", implemented)
