"""The command as a process: how fast it starts, what ends it, what a user sees."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pa_serve
import pytest
from command_runs import Ran, Runner, Write, records_of
from pa_serve.command import run_command
from pa_serve.exit_status import ExitStatus

LONG: dict[str, object] = {"prompt": "x", "max_new_tokens": 500, "ignore_eos": True}


LongRun = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def long_run(model: str, write_lines: Write) -> LongRun:
    """Starts a run of three short answers and more long ones than anybody waits for."""
    source = write_lines([{"prompt": "a", "max_new_tokens": 2}] * 3 + [LONG] * 2000)

    def begin(*arguments: object) -> subprocess.Popen[str]:
        return start("generate", "--model", model, "--input", source, *arguments)

    return begin


def start(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "pa_serve", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(*arguments: object) -> Ran:
    process = start(*arguments)
    out, err = process.communicate(timeout=120)
    return Ran(process.returncode, out, err)


def wait_for_lines(folder: Path, least: int) -> None:
    """Wait until a run has put so many results on the disk."""
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        written = [each.read_text("utf-8").count("\n") for each in folder.glob("*.partial")]
        if written and max(written) >= least:
            return
        time.sleep(0.01)
    raise AssertionError("no results appeared")


def test_a_process_serves_a_file_and_ends_with_0(model: str, write_lines: Write) -> None:
    source = write_lines([{"prompt": "a"}, {"prompt": "b"}])

    ran = run("generate", "--model", model, "--input", source, "--max-new-tokens", 4)

    assert ran.status == 0
    assert ran.err == ""
    assert [record["prompt"] for record in ran.records] == ["a", "b"]


def test_a_process_that_is_refused_prints_one_line_and_ends_with_2() -> None:
    ran = run("generate", "--model", "/none", "--prompt", "a")

    assert ran.status == 2
    assert ran.said("/none", "allowed")
    assert ran.out == ""


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("older", ["", "older\n"])
def test_finished_results_are_kept_when_a_signal_ends_the_run(
    tmp_path: Path, long_run: LongRun, number: signal.Signals, status: int, older: str
) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    target = folder / "out.jsonl"
    if older:
        target.write_text(older)
    process = long_run("--output", target)
    wait_for_lines(folder, 3)

    process.send_signal(number)
    out, err = process.communicate(timeout=60)

    kept = folder / "out.jsonl.partial" if older else target
    ran = Ran(process.returncode, out, err)
    assert ran.status == status
    assert ran.said("interrupted", "finished results", str(kept))
    assert len(records_of(kept.read_text("utf-8"))) >= 3
    assert not older or target.read_text() == older
    assert len(list(folder.iterdir())) == (2 if older else 1)


def test_a_reader_that_goes_away_is_no_error_of_ours(model: str, write_lines: Write) -> None:
    source = write_lines([{"prompt": "a", "max_new_tokens": 2}] * 400)
    process = start("generate", "--model", model, "--input", source)
    assert process.stdout is not None
    assert process.stderr is not None

    process.stdout.readline()
    process.stdout.close()

    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(timeout=60) == 141


def test_help_and_refusals_do_not_wait_for_torch() -> None:
    script = (
        "import sys; from pa_serve import main\n"
        "main(['generate', '--help']); main(['bench', 'host', '--rows', 'x'])\n"
        "print('torch' in sys.modules)"
    )

    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert ran.stdout.splitlines()[-1] == "False"


def test_the_version_is_the_package_s(pa: Runner) -> None:
    assert pa("--version").out == f"pa {pa_serve.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "COMMAND"),
        (("bench",), "WHAT"),
        (("serve",), "serve"),
        (("generate", "--prompt", "a"), "--model"),
        (("generate", "--model", "m", "--prompt", "a", "stray"), "stray: unknown"),
        (("bench", "host", "--cases", "decode,none"), "'none'; allowed: decode, mixed, churn"),
        (("bench", "host", "--rows", "16,0"), "'0'; allowed: an integer from 1"),
        (("bench", "throughput", "--peer", "nobody"), "nobody"),
        (("bench", "throughput", "--dtype", "int8"), "'int8'; allowed: float32, bfloat16"),
        (("demo", "--prompt", ""), "--prompt 1: empty"),
    ],
)
def test_a_command_line_that_says_nothing_sensible_is_refused_in_one_line(
    pa: Runner, arguments: tuple[str, ...], words: str
) -> None:
    ran = pa(*arguments)

    assert ran.status == 2
    assert ran.err.count("\n") == 1
    assert words in ran.err


def test_every_command_explains_itself(pa: Runner) -> None:
    for command in (["generate"], ["demo"], ["bench"], ["bench", "host"], ["bench", "throughput"]):
        ran = pa(*command, "--help")
        assert ran.status == 0
        assert ran.out.startswith(f"usage: pa {' '.join(command)}")
    assert "130 interrupted" in pa("generate", "--help").out


def test_results_that_the_terminal_cannot_spell_are_still_json(
    model: str, write_lines: Write
) -> None:
    source = write_lines([{"prompt": "\u00fc"}])
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "pa_serve", "generate", "--model", model]

    ran = subprocess.run(
        [*command, "--input", str(source), "--max-new-tokens", "2"],
        capture_output=True, text=True, check=True, env=environment,
    )  # fmt: skip

    assert ran.stdout.isascii()
    assert json.loads(ran.stdout)["prompt"] == "\u00fc"


def test_idle_threads_sleep_unless_the_environment_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    monkeypatch.setenv("GOMP_SPINCOUNT", "1000")

    run_command("pa", lambda _: ExitStatus.SERVED, argparse.Namespace())

    assert os.environ["OMP_WAIT_POLICY"] == "PASSIVE"
    assert os.environ["GOMP_SPINCOUNT"] == "1000"
    monkeypatch.delenv("OMP_WAIT_POLICY")
