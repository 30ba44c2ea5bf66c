"""The operator states a version of the contract that pa-spec accepts."""

from __future__ import annotations

from pa_kernels import IMPLEMENTS_CONTRACT
from pa_spec import check_contract_version


def test_the_stated_contract_is_one_that_pa_spec_accepts() -> None:
    check_contract_version("pa-kernels", IMPLEMENTS_CONTRACT)
