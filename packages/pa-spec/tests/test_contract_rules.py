from __future__ import annotations

from string import Formatter

import pytest
from pa_spec import (
    CheckScope,
    Decider,
    InputUnusable,
    Invariant,
    Rule,
    RuleStatus,
    checks,
    invariants,
    rules,
    settings,
    state_bindings,
    state_group_kinds,
)
from pa_spec.config import EngineConfig
from pa_spec.contract.data import by_id, records, text
from pa_spec.contract.rule import Check
from pa_spec.state import GroupKind


def test_rule_ids_run_from_v1_to_v106_without_a_gap() -> None:
    assert list(rules()) == [f"V{n}" for n in range(1, 107)]


def test_invariant_ids_run_from_e1_to_e135_without_a_gap() -> None:
    assert list(invariants()) == [f"E{n}" for n in range(1, 136)]


def test_everything_not_active_says_why() -> None:
    everything: list[Rule | Invariant] = [*rules().values(), *invariants().values()]
    for row in everything:
        pending = row.status is RuleStatus.PENDING
        assert bool(row.feature) is pending, row.id
        assert bool(row.reason) is (row.status not in (RuleStatus.ACTIVE, RuleStatus.PENDING))


def test_checks_cite_invariants_and_name_their_owner() -> None:
    assert {check.owner for check in checks().values()} == {"cache", "engine"}
    for check in checks().values():
        assert set(check.cites) <= set(invariants()), check.id
        assert check.scope in CheckScope


def test_messages_of_checks_are_well_formed_templates() -> None:
    for check in checks().values():
        assert all(name != "" for _, name, _, _ in Formatter().parse(check.message)), check.id


def test_texts_of_rules_are_well_formed_templates() -> None:
    for rule in rules().values():
        for text_of_case in rule.expected.values():
            fields = [name for _, name, _, _ in Formatter().parse(text_of_case) if name is not None]
            assert all(name.isidentifier() for name in fields), rule.id


def test_checks_that_report_a_rule_exist() -> None:
    reported = {rule.id: rule.checks for rule in rules().values() if rule.checks}

    assert set(reported) == {"V94", "V95"}
    assert {each for ids in reported.values() for each in ids} <= set(checks())


def test_active_rules_are_decided_here_and_not_by_a_device() -> None:
    for rule in rules().values():
        assert rule.status is not RuleStatus.ACTIVE or rule.decided_by is not Decider.DEVICE
        assert rule.status is RuleStatus.ACTIVE or not rule.remainder, rule.id


def test_rule_builds_its_error_from_its_own_words() -> None:
    error = rules()["V34"].violation("block_table", "[2, 8]", B=3)

    assert str(error) == "block_table: expected [B=3, M], got [2, 8] (V34)"
    assert (error.rule_id, error.name) == ("V34", "block_table")


def test_tables_are_read_once_and_cannot_be_changed() -> None:
    assert rules() is rules()
    with pytest.raises(TypeError):
        rules()["V1"] = rules()["V2"]  # type: ignore[index]
    with pytest.raises(AttributeError):
        rules()["V1"].area = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        rules()["V1"].expected[""] = "other"  # type: ignore[index]


def test_row_with_an_unknown_or_missing_key_is_refused_by_name() -> None:
    with pytest.raises(InputUnusable, match=r"Check.*scop"):
        records(Check, [{"id": "a.b", "cites": ["E1"], "scop": "all", "message": "x"}])
    with pytest.raises(InputUnusable, match=r"Check.*message"):
        records(Check, [{"id": "a.b", "cites": ["E1"], "scope": "all", "owner": "x"}])
    with pytest.raises(InputUnusable, match="never"):
        records(Check, [{"id": "a.b", "cites": [], "scope": "never", "message": "", "owner": ""}])


def test_id_that_is_given_twice_is_refused() -> None:
    row = rules()["V1"]

    with pytest.raises(InputUnusable, match="V1: is defined twice"):
        by_id([row, row])


def test_missing_file_is_named() -> None:
    with pytest.raises(InputUnusable, match=r"spec/operator/other\.toml"):
        text("operator/other.toml")


def test_settings_carry_the_defaults_of_the_engine_configuration() -> None:
    carried = {
        row.field: row.field_default for row in settings().values() if row.status == "active"
    }
    config = EngineConfig()

    assert {name: getattr(config, name) for name in carried} == carried


def test_state_groups_are_the_members_of_the_enum() -> None:
    assert list(state_group_kinds()) == list(GroupKind)
    assert [row.kind for row in state_group_kinds().values() if row.exactly_one] == [
        GroupKind.PAGED_KV
    ]


def test_bindings_are_templates_of_one_layer_each() -> None:
    for row in state_bindings().values():
        for template in (row.default, *row.also_seen):
            assert template.count("%") == 1, row.name
            assert template % 7 != template, row.name


def test_rule_is_a_plain_value() -> None:
    assert isinstance(rules()["V1"], Rule)
    assert rules()["V1"] == rules()["V1"]
