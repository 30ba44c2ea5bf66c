"""`pa generate` on a tiny real model: what goes in, what comes out, what is refused."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest
from command_runs import Ran, Read, Record, Runner, Write

PROMPTS: list[Record] = [
    {"prompt": "x" * 40, "max_new_tokens": 3},
    {"prompt": "hello"},
    {"prompt": "hello"},
    {"prompt": "a", "max_new_tokens": 12, "ignore_eos": True},
    {"prompt": "Gr\u00fc\u00dfe \u4e2d\u6587 \U0001f600\u2028!"},
]


def test_results_are_in_the_order_of_the_input_with_the_documented_members(
    pa: Runner, model: str, tmp_path: Path, write_lines: Write, read: Read
) -> None:
    source, target, stats = write_lines(PROMPTS), tmp_path / "out.jsonl", tmp_path / "stats.json"

    arguments = ("--input", source, "--output", target, "--stats", stats, "--max-new-tokens", 8)
    ran = pa("generate", "--model", model, *arguments)

    assert ran == Ran(0, "", "")
    records = read(target)
    assert [record["index"] for record in records] == list(range(5))
    assert [record["prompt"] for record in records] == [each["prompt"] for each in PROMPTS]
    for record in records:
        assert list(record) == [
            "index", "prompt", "text", "token_ids", "finish_reason", "usage",
        ]  # fmt: skip
        assert record["finish_reason"] in ("eos", "length")
        usage = record["usage"]
        assert list(usage) == ["prompt_tokens", "generated_tokens", "cached_prompt_tokens"]
        assert 0 < usage["prompt_tokens"] <= len(record["prompt"].encode())
        assert usage["generated_tokens"] == len(record["token_ids"])
        assert usage["cached_prompt_tokens"] == 0
    assert records[1] == records[2] | {"index": 1}
    assert len(records[0]["token_ids"]) <= 3
    assert len(records[3]["token_ids"]) == 12
    assert len(target.read_text("utf-8").splitlines()) == 5
    statistics = json.loads(stats.read_text())
    assert statistics["generated_tokens"] == sum(len(record["token_ids"]) for record in records)
    assert statistics["steps"] > 0
    assert statistics["attention_backends"]
    assert statistics["model"] == model


@pytest.mark.parametrize(
    "options",
    [
        ("--block-size", 256),
        ("--max-batch-size", 1),
        ("--max-scheduled-tokens", 1),
        ("--num-blocks", 4),
        ("--max-scheduled-tokens", 7, "--num-blocks", 5, "--max-batch-size", 3),
    ],
)
def test_limits_do_not_change_greedy_answers(
    pa: Runner, model: str, write_lines: Write, options: tuple[object, ...]
) -> None:
    source = write_lines(PROMPTS)
    arguments = ("generate", "--model", model, "--input", source, "--max-new-tokens", 8)

    assert pa(*arguments, *options).records == pa(*arguments).records


def test_a_pool_of_one_block_serves_what_fits_and_says_what_does_not(
    pa: Runner, model: str, write_lines: Write
) -> None:
    source = write_lines([{"prompt": "hi"}, {"prompt": "x" * 40}, {"prompt": "hello"}])

    limits = ("--num-blocks", 1, "--max-new-tokens", 8)
    ran = pa("generate", "--model", model, "--input", source, *limits)

    first, second, third = ran.records
    assert ran.status == 2
    assert ran.said("line 2", "40 tokens", "can never fit", "1 of 3")
    assert "can never fit" in str(second["error"])
    assert "text" not in second
    assert "text" in first
    assert "text" in third


def test_answers_that_would_outgrow_the_pool_together_run_one_after_the_other(
    pa: Runner, model: str, write_lines: Write
) -> None:
    # Each needs both blocks in the end; both prompts would fit at once.
    line = {"prompt": "q" * 14, "max_new_tokens": 18, "ignore_eos": True}
    source = write_lines([line, line, line])

    ran = pa("generate", "--model", model, "--input", source, "--num-blocks", 2)

    assert ran.status == 0
    assert [len(record["token_ids"]) for record in ran.records] == [18, 18, 18]


def test_bad_lines_carry_their_error_and_the_good_ones_results_are_not_lost(
    pa: Runner, model: str, tmp_path: Path, write_lines: Write, read: Read
) -> None:
    source = write_lines(
        [{"prompt": "a"}, "{", {"prompt": ""}, {"prompt": "b", "top_p": 2}, {"prompt": "x" * 600},
         {"prompt": "c"}]
    )  # fmt: skip
    target = tmp_path / "out.jsonl"

    ran = pa("generate", "--model", model, "--input", source, "--output", target)

    assert ran.status == 2
    assert ran.said(f"{source} line 2: JSON", "4 of 6", str(target))
    records = read(target)
    assert ["error" in record for record in records] == [False, True, True, True, True, False]
    for place, words in ((2, "JSON"), (3, "prompt: empty"), (4, "top_p: 2"), (5, "600 tokens")):
        assert str(records[place - 1]["error"]).startswith(f"{source} line {place}: ")
        assert words in str(records[place - 1]["error"])
        assert "allowed" in str(records[place - 1]["error"])


def test_an_older_output_survives_a_run_that_serves_nothing(
    pa: Runner, model: str, tmp_path: Path, write_lines: Write
) -> None:
    target = tmp_path / "out.jsonl"
    target.write_text("older\n")

    ran = pa("generate", "--model", model, "--input", write_lines(["{"]), "--output", target)

    assert ran.status == 2
    assert ran.said("prompts.jsonl line 1: JSON")
    assert target.read_text() == "older\n"


def test_a_complete_run_replaces_an_older_output(
    pa: Runner, model: str, tmp_path: Path, write_lines: Write, read: Read
) -> None:
    target = tmp_path / "out.jsonl"
    target.write_text("older\n")

    ran = pa("generate", "--model", model, "--input", write_lines(PROMPTS), "--output", target)

    assert ran.status == 0
    assert len(read(target)) == 5
    assert sorted(each.name for each in tmp_path.iterdir()) == ["out.jsonl", "prompts.jsonl"]


def test_one_prompt_prints_its_text_and_several_print_theirs_in_order(
    pa: Runner, model: str
) -> None:
    one = pa("generate", "--model", model, "--prompt", "hello", "--max-new-tokens", 4)
    two = pa(
        "generate", "--model", model, "--prompt", "hello", "--prompt", "bye", "--max-new-tokens", 4
    )

    assert one.status == two.status == 0
    assert two.out.index("> hello\n") < two.out.index("> bye\n")
    assert one.out.strip() in two.out


def test_prompts_come_before_the_lines_of_a_file(
    pa: Runner, model: str, write_lines: Write
) -> None:
    source = write_lines([{"prompt": "c"}])

    ran = pa("generate", "--model", model, "--prompt", "a", "--prompt", "b", "--input", source)

    assert [(each["index"], each["prompt"]) for each in ran.records] == list(enumerate("abc"))


def test_chat_wraps_prompts_and_messages_alike(pa: Runner, model: str, write_lines: Write) -> None:
    messages = [{"role": "user", "content": "hi"}]
    source = write_lines([{"prompt": "hi"}, {"messages": messages}])

    first, second = pa("generate", "--model", model, "--input", source, "--chat").records
    plain = pa("generate", "--model", model, "--prompt", "user: hi\nassistant: ")

    assert first["prompt"] == "hi"
    assert second["prompt"] == messages
    assert first["token_ids"] == second["token_ids"]
    assert str(first["text"]).strip() == plain.out.strip()


def test_sampling_with_a_seed_repeats_and_without_differs(
    pa: Runner, model: str, write_lines: Write
) -> None:
    source = write_lines([{"prompt": "hello"}] * 3)
    arguments = ("generate", "--model", model, "--input", source, "--temperature", 1.5)

    def token_ids(*options: object) -> list[object]:
        return [record["token_ids"] for record in pa(*arguments, *options).records]

    seeded = token_ids("--seed", 3)
    assert seeded == token_ids("--seed", 3, "--max-batch-size", 1)
    assert seeded != token_ids("--seed", 4)
    assert seeded[0] != seeded[1]
    assert token_ids() != token_ids()


def test_fewest_tokens_hold_off_the_end_of_text(pa: Runner, model: str, write_lines: Write) -> None:
    source = write_lines([{"prompt": chr(97 + index)} for index in range(12)])
    limits = ("--min-new-tokens", 30, "--max-new-tokens", 30, "--repetition-penalty", 1.2)

    ran = pa("generate", "--model", model, "--input", source, *limits)

    assert {record["finish_reason"] for record in ran.records} == {"length"}


def test_a_pipe_can_be_the_input(pa: Runner, model: str, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=('{"prompt": "a"}\n{"prompt": "b"}\n',))
    writer.start()

    ran = pa("generate", "--model", model, "--input", pipe, "--max-new-tokens", 2)

    writer.join()
    assert [record["prompt"] for record in ran.records] == ["a", "b"]


def test_the_file_that_a_model_s_name_stands_for_is_not_written_over(
    pa: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "small.gguf"
    file.write_bytes(b"precious")
    monkeypatch.setattr("pa_models.find_model", lambda _: file)

    ran = pa("generate", "--model", "smollm2", "--prompt", "hi", "--output", str(file))

    assert ran.status == 2
    assert ran.said("--output")
    assert file.read_bytes() == b"precious"
