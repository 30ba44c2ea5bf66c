from __future__ import annotations

import pytest
from pa_models import ChatTemplate, Tokenizer
from pa_models.testing import tiny_tokenizer
from pa_serve.served_model import ChatCodec, ServedModel, TextCodec
from pa_spec import ElementType, InputUnusable

START = "<|start|>"


@pytest.fixture
def tokenizer() -> Tokenizer:
    """A tokenizer whose texts begin with a token of their own."""
    return Tokenizer(tiny_tokenizer(), bos_token=START, add_bos=True)


def test_a_text_begins_as_the_model_s_texts_do(tokenizer: Tokenizer) -> None:
    tokens = TextCodec(tokenizer).encode("hi")

    assert list(tokens) == [tokenizer.bos_token_id, *tokenizer.encode("hi", add_special=False)]


@pytest.mark.parametrize("start", ["", START])
def test_a_conversation_begins_exactly_as_its_template_writes_it(
    tokenizer: Tokenizer, start: str
) -> None:
    template = ChatTemplate("{{ bos }}{{ messages[0].content }}!", {"bos": start})

    tokens = ChatCodec(tokenizer, template).encode("hi")

    assert list(tokens) == tokenizer.encode(f"{start}hi!", add_special=False)
    assert (tokens[0] == tokenizer.bos_token_id) == bool(start)


def test_a_character_that_the_prompt_began_is_ended_in_the_answer(tokenizer: Tokenizer) -> None:
    first, *others = tokenizer.encode("\u4e2d", add_special=False)

    text = TextCodec(tokenizer).decode([first], [*others, *tokenizer.encode("x")])

    assert text == "\u4e2dx"


def test_messages_need_a_template(tokenizer: Tokenizer) -> None:
    with pytest.raises(InputUnusable, match="without --chat"):
        TextCodec(tokenizer).encode([{"role": "user", "content": "hi"}])


@pytest.mark.parametrize("element_type", [ElementType.FLOAT32, ElementType.BFLOAT16])
def test_a_model_is_loaded_in_the_element_type_asked_for(
    model: str, element_type: ElementType
) -> None:
    loaded = ServedModel.load(model, element_type)

    assert str(loaded.loaded.decoder.dtype) == f"torch.{element_type.value}"
    assert loaded.attention_backends == ()
