"""Goal: the types in code and the tables in spec/ say the same, in the same order."""

from __future__ import annotations

from dataclasses import MISSING, fields

from pa_spec import (
    ElementType,
    KvCacheLayout,
    PagedAttentionAttributes,
    PagedAttentionInputs,
    PagedAttentionOutputs,
    QuantType,
    compatibility,
    decisions,
    host_quantities,
    input_modes,
    metadata_entries,
    operator_attributes,
    operator_inputs,
    operator_outputs,
    rules,
    type_constraints,
    validate,
)
from pa_spec.testing import example_call

TYPES: dict[str, type] = {"int": int, "float": float, "string": str}


def test_inputs_are_the_fields_of_the_dataclass_in_index_order() -> None:
    rows = operator_inputs()

    assert [row.index for row in rows] == list(range(19))
    assert [row.name for row in rows] == [field.name for field in fields(PagedAttentionInputs)]


def test_inputs_that_may_be_absent_have_a_default_or_depend_on_the_mode() -> None:
    optional = {row.name for row in operator_inputs() if row.presence == "optional"}
    defaulted = {f.name for f in fields(PagedAttentionInputs) if f.default is None}

    assert optional == defaulted - {"k_scale", "v_scale"}


def test_pairs_name_each_other() -> None:
    pairs = {row.name: row.pair for row in operator_inputs() if row.pair}

    assert pairs == {pair: name for name, pair in pairs.items()}


def test_outputs_are_the_fields_of_the_dataclass_and_the_two_caches() -> None:
    rows = operator_outputs()
    own = [row.name for row in rows if not row.alias]

    assert [row.index for row in rows] == list(range(4))
    assert own == [field.name for field in fields(PagedAttentionOutputs)]
    assert {row.alias for row in rows} - {""} == {"key_cache", "value_cache"}


def test_attributes_have_the_names_order_types_and_defaults_of_the_dataclass() -> None:
    for row, field in zip(operator_attributes(), fields(PagedAttentionAttributes), strict=True):
        default = None if field.default is MISSING else field.default
        assert (row.name, row.default) == (field.name, default)
        assert default is None or type(default) is TYPES[row.type]


def test_words_that_attributes_allow_are_the_members_of_the_enums() -> None:
    allowed = {row.name: row.allowed for row in operator_attributes()}

    assert allowed["kv_cache_layout"] == tuple(each.value for each in KvCacheLayout)
    assert allowed["k_quant_type"] == tuple(each.value for each in QuantType)
    assert allowed["v_quant_type"] == allowed["k_quant_type"]


def test_validation_accepts_exactly_the_allowed_words() -> None:
    for row in operator_attributes():
        if row.type == "string":
            candidates = {*row.allowed, *row.reserved, "other", *(e.value for e in ElementType)}
            refused = {
                word
                for word in candidates
                for each in validate(example_call("separate", {row.name: word}))
                if each.name == row.name and each.rule_id in ("V5", "V8", "V50")
            }
            assert candidates - refused == set(row.allowed), row.name


def test_validation_accepts_exactly_the_allowed_element_types() -> None:
    # Scales need a quantized cache; here only whether their type is an error counts. Tensors that
    # agree with a leader of wrong type are not reported beside it.
    extra = {"output_qk": "QK"} | {row.name: row.type for row in operator_inputs()}
    for name, constraint in extra.items():
        accepted = set()
        leader = {"T": "query", "T_CACHE": "key_cache"}.get(constraint, name)
        for element_type in ElementType:
            change = {"element_type": element_type.value}
            changes: dict[str, object] = {name: change}
            if constraint == "T":
                changes |= dict.fromkeys(("query", "key", "value", "key_cache"), change)
            if constraint == "T_CACHE":
                changes |= dict.fromkeys(("key_cache", "value_cache"), change)
            if name == "output_qk":
                changes = {"output_qk_type": element_type.value}
            found = validate(example_call("separate", changes))
            if not any(each.name in (name, leader) for each in found if each.rule_id == "V98"):
                accepted.add(element_type)
        assert accepted == set(type_constraints()[constraint].allowed), name


def test_every_type_constraint_is_used_and_known() -> None:
    used = {row.type for row in operator_inputs()} | {row.type for row in operator_outputs()}

    assert used == set(type_constraints())


def test_host_only_types_are_allowed_types() -> None:
    for row in type_constraints().values():
        assert set(row.host_only) <= set(row.allowed)


def test_each_input_mode_is_valid_and_every_other_pattern_is_not() -> None:
    legal = {
        (row.kv_cache_layout.value, row.key, row.value, row.value_cache) for row in input_modes()
    }
    for layout in KvCacheLayout:
        for bits in range(8):
            present = [bool(bits & bit) for bit in (1, 2, 4)]
            base = "latent" if layout is KvCacheLayout.LATENT else "packed"
            if layout is KvCacheLayout.SEPARATE and present[:2] == [True, True]:
                base = "separate"
            own = example_call(base).inputs
            changes = {
                name: ({} if getattr(own, name) else {"shape": [5, 32]}) if there else None
                for name, there in zip(("key", "value", "value_cache"), present, strict=True)
            }
            found = validate(example_call(base, changes))

            pattern = (layout.value, present[0], present[1], present[2])
            assert (found == ()) is (pattern in legal), pattern


def test_decisions_and_rules_name_each_other() -> None:
    for decision in decisions().values():
        assert set(decision.rules) <= set(rules()), decision.id
    for rule in rules().values():
        if rule.decision:
            assert rule.id in decisions()[rule.decision].rules, rule.id


def test_old_calls_have_the_defaults_and_none_of_the_later_inputs() -> None:
    conditions = compatibility()
    defaults = {row.name: str(row.default) for row in operator_attributes()}
    later = tuple(row.name for row in operator_inputs() if row.index >= 10)

    assert conditions["no_later_input"].names == later
    for row in conditions.values():
        for name in row.names:
            assert defaults.get(name, row.value) == row.value, name


def test_calls_of_old_models_are_valid() -> None:
    later = set(compatibility()["no_later_input"].names)
    for mode in ("separate", "packed"):
        call = example_call(mode)

        assert not {name for name, tensor in call.inputs.named() if tensor is not None} & later
        assert call.inputs.key_cache.element_type is call.inputs.query.element_type
        assert validate(call) == ()


def test_bounds_of_host_quantities_are_entries_of_the_metadata() -> None:
    entries = [row.name for row in metadata_entries()]

    assert [row.index for row in metadata_entries()] == [0, 1, 2]
    bounded = [row for row in host_quantities().values() if "bound" in row.bound]
    assert [row.name for row in bounded] == ["max_query_len", "max_kv_len", "total_kv_tokens"]
    assert all(any(entry in row.bound for entry in entries) for row in bounded)
