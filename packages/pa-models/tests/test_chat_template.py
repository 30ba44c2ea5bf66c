"""Conversations become text as the template says, safely, and can be continued."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pa_models import ChatTemplate
from pa_models.folder_tokenizer import read_folder_chat_template
from pa_spec import InputUnusable

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
INST = (
    "{{ bos_token }}"
    "{% for message in messages %}"
    "{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
    "{% else %}{{ ' ' + message['content'] | trim + eos_token }}{% endif %}"
    "{% endfor %}"
)
ASK = [{"role": "user", "content": "What is gravity?"}]
MORE = [{"role": "user", "content": "And light?"}]


def test_conversation_is_written_as_the_template_says() -> None:
    text = ChatTemplate(CHATML).render(ASK)

    assert text == "<|im_start|>user\nWhat is gravity?<|im_end|>\n<|im_start|>assistant\n"
    assert ChatTemplate(CHATML).render(ASK, add_generation_prompt=False).endswith("<|im_end|>\n")


@pytest.mark.parametrize(
    ("source", "closing"), [(CHATML, "<|im_end|>\n"), (INST, "</s>")], ids=["chatml", "inst"]
)
def test_closing_is_what_follows_an_answer(source: str, closing: str) -> None:
    template = ChatTemplate(source, {"bos_token": "<s>", "eos_token": "</s>"})

    assert template.closing(ASK) == closing


@pytest.mark.parametrize("source", [CHATML, INST], ids=["chatml", "inst"])
def test_prompt_answer_and_continuation_make_the_whole_conversation(source: str) -> None:
    template = ChatTemplate(source, {"bos_token": "<s>", "eos_token": "</s>"})
    answer = "It pulls."
    between = " " if source == INST else ""  # the model itself writes the space after [/INST]

    text = template.render(ASK) + between + answer + template.continuation(ASK, MORE)

    assert text == template.render([*ASK, {"role": "assistant", "content": answer}, *MORE])


def test_template_that_drops_answers_cannot_be_continued() -> None:
    with pytest.raises(InputUnusable, match="0 times"):
        ChatTemplate("{{ messages[0]['content'] }}").closing(ASK)


def test_blocks_leave_no_blank_lines() -> None:
    inner = "  {% if true %}\n{{ message.content }}\n{% endif %}\n"
    source = f"{{% for message in messages %}}\n{inner}{{% endfor %}}"

    assert ChatTemplate(source).render(ASK) == "What is gravity?\n"


def test_json_is_written_without_html_escapes() -> None:
    tools = [{"name": "f", "about": "a < b & é"}]

    text = ChatTemplate("{{ tools | tojson(indent=2) }}").render(ASK, tools=tools)

    assert text == json.dumps(tools, indent=2, ensure_ascii=False)


def test_templates_know_the_date_and_loop_controls() -> None:
    source = (
        "{{ strftime_now('%Y') }}"
        "{% for message in messages %}{% if loop.index > 1 %}{% break %}{% endif %}x{% endfor %}"
    )

    assert re.fullmatch(r"\d{4}x", ChatTemplate(source).render([*ASK, *MORE]))


@pytest.mark.parametrize(
    "source",
    [
        "{{ raise_exception('roles must alternate') }}",
        "{{ messages[7].content }}",
        "{{ messages[0].content + 1 }}",
        "{{ 1 / 0 }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.append(1) }}",
        "{{ undefined_function() }}",
    ],
)
def test_refusals_and_escapes_are_errors(source: str) -> None:
    with pytest.raises(InputUnusable, match="chat template"):
        ChatTemplate(source).render(ASK)


def test_refusal_says_what_the_template_said() -> None:
    with pytest.raises(InputUnusable, match="roles must alternate"):
        ChatTemplate("{{ raise_exception('roles must alternate') }}").render(ASK)


def test_syntax_error_names_the_line() -> None:
    with pytest.raises(InputUnusable, match="line 2"):
        ChatTemplate("fine\n{% if %}")


@pytest.mark.parametrize(
    ("config", "jinja", "expected"),
    [
        ({"chat_template": "A{{ eos_token }}", "eos_token": "</s>"}, None, "A</s>"),
        ({"chat_template": "A"}, "B{{ bos_token }}", "B"),
        ({"chat_template": "A", "bos_token": {"content": "<s>"}}, "B{{ bos_token }}", "B<s>"),
        (
            {
                "chat_template": [
                    {"name": "tool_use", "template": "T"},
                    {"name": "default", "template": "D"},
                ]
            },
            None,
            "D",
        ),
        ({}, None, None),
    ],
)
def test_folders_keep_their_template_in_one_of_three_ways(
    tmp_path: Path, config: dict[str, Any], jinja: str | None, expected: str | None
) -> None:
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    if jinja is not None:
        (tmp_path / "chat_template.jinja").write_text(jinja)

    template = read_folder_chat_template(tmp_path)

    assert (None if template is None else template.render(ASK)) == expected


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("chat_template.jinja", b"caf\xe9"),
        ("chat_template.jinja", None),
        ("tokenizer_config.json", b'{"chat_template": ["x"]}'),
        ("tokenizer_config.json", b"[" * 100_000),
    ],
    ids=["not UTF-8", "a folder", "names without templates", "too deep"],
)
def test_a_template_that_cannot_be_read_is_named(
    tmp_path: Path, name: str, content: bytes | None
) -> None:
    if content is None:
        (tmp_path / name).mkdir()
    else:
        (tmp_path / name).write_bytes(content)

    with pytest.raises(InputUnusable, match="allowed"):
        read_folder_chat_template(tmp_path)


def test_the_default_among_named_templates_is_taken(tmp_path: Path) -> None:
    named = [{"name": ["odd"], "template": "a"}, {"name": "default", "template": "b"}]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": named}))

    assert read_folder_chat_template(tmp_path) is not None
