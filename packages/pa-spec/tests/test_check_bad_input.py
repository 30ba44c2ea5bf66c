"""Goal: what nobody should have to check is a clear message, soon, and in little memory.

Method: one process checks every input through the command, one after another, with limits on its
memory and on the time of each; tests look at what it wrote down.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hostile_inputs import (
    DEEP,
    Make,
    both,
    claims_too_much,
    configured,
    cyclic,
    duplicate_names,
    external,
    file,
    huge_dimensions,
    many_nodes,
    model,
    nested_subgraphs,
    path_of,
    safetensors,
    sparse,
    special,
    truncated,
)
from pa_spec.checker import check_model

NOBODY = 65534

GENAI = "genai_config.json"
DEEP_JSON = b'{"a":' * DEEP
# What is to be found: the exit status, and every id that is unreadable or a violation.
INPUTS: Mapping[str, tuple[Make, int, set[str]]] = {
    "path missing": (path_of("nowhere"), 2, {"file.no_target"}),
    "path empty folder": (lambda folder: folder, 2, {"file.no_model"}),
    "path device": (path_of("/dev/zero"), 2, {"file.no_target"}),
    "path process memory": (path_of("/proc/self/mem"), 2, {"file.unreadable"}),
    "onnx truncated": (truncated, 2, {"graph.not_onnx"}),
    "onnx text": (file("model.onnx", "hello\n" * 100), 2, {"graph.not_onnx"}),
    "onnx empty": (file("model.onnx", b""), 2, {"graph.not_onnx"}),
    "onnx zeros": (sparse("model.onnx", 2**20), 2, {"graph.not_onnx"}),
    "onnx of 2^40 bytes": (sparse("model.onnx", 2**40), 2, {"file.too_large"}),
    "onnx claims 2^60 bytes": (claims_too_much, 2, {"graph.not_onnx"}),
    "onnx nested subgraphs": (nested_subgraphs, 2, {"graph.not_onnx"}),
    "onnx huge dimensions": (model(huge_dimensions), 1, {"graph.tensor_size"}),
    "onnx duplicate names": (model(duplicate_names), 1, {"graph.duplicate_name"}),
    "onnx cyclic": (model(cyclic), 1, {"graph.not_sorted"}),
    "onnx many nodes": (many_nodes, 1, {"graph.no_attention"}),
    "onnx data above": (external("../secret"), 1, {"graph.external_path"}),
    "onnx data absolute": (external("/etc/passwd"), 1, {"graph.external_path"}),
    "onnx data of 2^60 bytes": (
        both(external("data", length=f"{2**60}"), file("data", b"x")),
        1,
        {"graph.external_range"},
    ),
    "onnx pipe": (special("model.onnx", "pipe"), 1, {"weights.other_format"}),
    "json deep": (file("config.json", DEEP_JSON), 2, {"file.not_json"}),
    "json deep engine": (file("engine.json", DEEP_JSON), 2, {"file.no_model"}),
    "json not UTF-8": (file("config.json", b'{"a": "\xff"}'), 2, {"file.not_json"}),
    "json mark": (file("config.json", b'\xef\xbb\xbf{"a": 1}'), 2, {"file.not_json"}),
    "json empty": (file(GENAI, b""), 2, {"file.not_json"}),
    "json deep export": (file(GENAI, DEEP_JSON), 2, {"file.not_json"}),
    "json of 2^40 bytes": (sparse("config.json", 2**40), 2, {"file.too_large"}),
    "config text for a number": (configured(num_hidden_layers='"2"'), 1, {"config.not_a_number"}),
    "config NaN": (configured(hidden_size="NaN"), 1, {"config.not_a_number"}),
    "config infinite": (configured(rope_theta="Infinity"), 1, {"config.not_a_number"}),
    "config 10^400": (configured(hidden_size="1" + "0" * 400), 1, {"config.out_of_range"}),
    "config 1e400": (configured(rope_theta="1e400"), 1, {"config.not_a_number"}),
    "config huge": (configured(vocab_size="9" * 5000), 2, {"file.not_json"}),
    "config many layers": (configured(num_hidden_layers=f"{2**31}"), 1, {"config.out_of_range"}),
    "config negative": (configured(num_attention_heads="-4"), 1, {"config.out_of_range"}),
    "config twice": (configured(x='1, "x": 2'), 0, set()),
    "weights claim 2^60 bytes": (safetensors(b"{}", 2**60), 2, {"weights.header_length"}),
    "weights short": (safetensors(b"{}", 100), 2, {"weights.header_length"}),
    "weights deep": (safetensors(DEEP_JSON), 2, {"weights.not_safetensors"}),
    **{
        f"{kind} {name}": (special(name, kind), 2, {"file.unreadable"})
        for kind in ("pipe", "loop", "device", "folder")
        for name in ("config.json", "generation_config.json", "tokenizer.json")
    },
}

# Processor time, and memory from VmHWM: ru_maxrss begins with that of the process which started it.
CHILD = """
import contextlib, io, json, resource, signal, sys, time
import onnx.shape_inference
from pathlib import Path
from pa_spec.command import main
pages = int(Path("/proc/self/statm").read_text().split()[0])
most = pages * resource.getpagesize() + 2**30
resource.setrlimit(resource.RLIMIT_AS, (most, most))
results = {}
for name, path in json.load(sys.stdin).items():
    shown = {}
    for format in ("json", "text"):
        out, err = io.StringIO(), io.StringIO()
        signal.alarm(30)
        started = time.process_time()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = main(["check", path, "--format", format])
        signal.alarm(0)
        seconds = time.process_time() - started
        shown[format] = [status, out.getvalue(), err.getvalue(), seconds]
    results[name] = shown
status = Path("/proc/self/status").read_text().split()
results["peak KiB"] = int(status[status.index("VmHWM:") + 1])
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return what the command wrote about each input."""
    paths = {}
    for name, (make, *_) in INPUTS.items():
        folder = tmp_path_factory.mktemp("hostile") / "model"
        folder.mkdir()
        paths[name] = str(make(folder) or folder)
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", CHILD],
        input=json.dumps(paths),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return json.loads(ran.stdout)


@pytest.mark.parametrize("name", INPUTS)
def test_bad_input_is_a_clear_message(checked: Any, name: str) -> None:
    _, status, ids = INPUTS[name]
    code, out, err, _ = checked[name]["json"]

    assert err == ""
    document = json.loads(out)
    heavy = {"unreadable", "violation"}
    found = {each["id"] for each in document["findings"] if each["severity"] in heavy}
    assert (code, found) == (status, ids), [each["message"] for each in document["findings"]]
    text_code, text, text_err, _ = checked[name]["text"]
    assert (text_code, text_err) == (status, "")
    assert all(each in text for each in ids)


def test_every_input_is_checked_soon_and_in_little_memory(checked: Any) -> None:
    slow = {
        name: seconds
        for name in INPUTS
        for *_, seconds in checked[name].values()
        if seconds > (20 if name == "onnx many nodes" else 5)
    }

    assert slow == {}
    assert checked["peak KiB"] < 700 * 1024


def test_file_and_folder_without_permission_are_refused_with_that_reason() -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "engine.toml").touch(0)
        (folder / "closed").mkdir(0)
        folder.chmod(0o755)
        is_root = os.geteuid() == 0
        if is_root:
            os.seteuid(NOBODY)  # root reads everything
        try:
            reports = [check_model(folder / each) for each in ("engine.toml", "closed")]
        finally:
            if is_root:
                os.seteuid(0)
        (folder / "closed").chmod(0o700)

    found = [(each.id, each.actual) for report in reports for each in report.findings]
    assert found == [("file.unreadable", "Permission denied")] * 2
