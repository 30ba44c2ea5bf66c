from __future__ import annotations

import pytest
from pa_spec import ElementType, InputUnusable, TensorSignature
from pa_spec.testing import example_call


def test_changes_replace_parts_of_a_tensor_and_keep_the_rest() -> None:
    call = example_call("separate", {"query": {"element_type": "float16", "row_stride": 128}})

    assert call.inputs.query == TensorSignature(ElementType.FLOAT16, (5, 64), "cpu", 128)


def test_added_tensor_has_the_type_that_its_input_wants() -> None:
    call = example_call("packed", {"slot_mapping": {"shape": [5]}, "head_sink": {"shape": [4]}})

    assert call.inputs.slot_mapping == TensorSignature(ElementType.INT32, (5,))
    assert call.inputs.head_sink == TensorSignature(ElementType.FLOAT32, (4,))


@pytest.mark.parametrize(
    ("mode", "changes", "message"),
    [
        ("fused", {}, r"'fused'.*separate, packed, latent"),
        ("packed", {"keys": None}, r"keys: is no input, attribute"),
    ],
)
def test_unknown_names_are_refused(mode: str, changes: dict[str, None], message: str) -> None:
    with pytest.raises(InputUnusable, match=message):
        example_call(mode, changes)
