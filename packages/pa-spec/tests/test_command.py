from __future__ import annotations

from importlib.metadata import entry_points

import pytest
from pa_spec import (
    CONTRACT_VERSION,
    __version__,
    checks,
    decisions,
    finding_kinds,
    invariants,
    rules,
)
from pa_spec.command import main, text_of


def show(capsys: pytest.CaptureFixture[str], name: str) -> str:
    assert main(["show", name]) == 0
    return capsys.readouterr().out


def test_rule_is_shown_with_its_condition_and_what_is_expected(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = show(capsys, "V29")

    assert rules()["V29"].condition in shown
    assert "power of two, at least 16" in shown
    assert "status: active" in shown


def test_pending_rule_is_shown_with_what_will_check_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert "status: pending: speculative drafts" in show(capsys, "V93")


def test_finding_is_shown_with_its_weight_and_what_is_expected(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = show(capsys, "file.not_json")

    assert "severity: unreadable" in shown
    assert "expected: a JSON object in UTF-8" in shown


def test_rule_that_is_only_partly_decided_is_shown_with_the_remainder(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "status: active: values: by the kernels" in show(capsys, "V66")


def test_every_id_can_be_shown() -> None:
    for name in (*rules(), *invariants(), *checks(), *finding_kinds(), *decisions()):
        assert text_of(name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("version", CONTRACT_VERSION),
        ("inputs", "[T, H*D] or [T, (H+2*K)*D] when key and value are absent"),
        ("outputs", "output_qk"),
        ("attributes", "num_heads | int | required"),
        ("types", "float8e4m3fn"),
        ("modes", "latent | LATENT | present | absent | absent"),
        ("compatibility", "k_quant_type, v_quant_type | NONE"),
        ("metadata", "max_kv_len | how often the context is split"),
        ("backends", "cpu | qk output | 0 | qk_output {found}: the cpu backend keeps no score"),
        ("matrix", "attention_bias | no | no | no | planned | no ("),
        ("findings", "file.not_json: "),
        ("decisions", "bias_after_softcap: After it."),
        ("rules", "V106: "),
        ("invariants", "E135: "),
        ("states", "TURN_COMPLETE | begin_turn | ASSIGNED"),
        ("phases", "publish_banks"),
        ("failures", "collect | RetryableBatchAbort | ExecutionCapacityExceeded"),
        ("outcomes", "NoWork"),
        ("events", "REQUEST_EXECUTION_FAILURE | 7 | no"),
        ("checks", "pool.conservation"),
        ("settings", "engine.dynamic_batching.block_size"),
        ("state", "past_key_values.%d.key"),
        ("models", "qwen2_5_vl | text_config | qwen2_5_vl_text"),
        ("report-schema", '"exit_status"'),
    ],
)
def test_each_table_can_be_shown(
    name: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert expected in show(capsys, name)


def test_unknown_name_is_one_line_on_standard_error_and_status_2(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["show", "V999"]) == 2

    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("pa-spec: V999: is not in the contract; allowed: ")
    assert captured.err.count("\n") == 1


def test_command_is_installed_as_pa_spec() -> None:
    (script,) = entry_points(group="console_scripts", name="pa-spec")

    assert script.load() is main


def test_version_of_package_and_contract_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])

    assert ended.value.code == 0
    assert capsys.readouterr().out == f"pa-spec {__version__}, contract {CONTRACT_VERSION}\n"
