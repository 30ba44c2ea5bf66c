"""`./nox` finds pip by itself where Python came without it; .ci/run starts it for real."""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import ClassVar

import pytest
from checkout import ROOT

WHEELS = {
    "pip-9.0-py3-none-any.whl": b"old",
    "pip-26.1-py3-none-any.whl": b"new",
    "pip-27.0rc1-py3-none-any.whl": b"candidate",
    "pip-28.0-py3-none-any.whl": b"withdrawn",
}


class Index(BaseHTTPRequestHandler):
    """A package index with one project; the links are relative, as indexes may give them."""

    promised: ClassVar[dict[str, str]] = {
        name: hashlib.sha256(content).hexdigest() for name, content in WHEELS.items()
    }

    def do_GET(self) -> None:
        name = self.path.rpartition("/")[2]
        files = [
            {
                "filename": each,
                "url": f"../../files/{each}",
                "hashes": {"sha256": self.promised[each]},
                "yanked": each.startswith("pip-28"),
            }
            for each in WHEELS
        ]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(WHEELS.get(name, json.dumps({"files": files}).encode()))

    def log_message(self, *_: object) -> None:
        """Stay silent."""


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Index) as server:
        address = f"http://127.0.0.1:{server.server_port}/simple"
        monkeypatch.setenv("PIP_INDEX_URL", address)
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield address
        server.shutdown()
        thread.join()


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    loader = importlib.machinery.SourceFileLoader("nox_script", str(ROOT / "nox"))
    specification = importlib.util.spec_from_loader("nox_script", loader)
    assert specification is not None
    module = importlib.util.module_from_spec(specification)
    loader.exec_module(module)
    return module


def test_the_newest_final_pip_that_was_not_withdrawn_is_fetched(
    index: str, script: ModuleType, tmp_path: Path
) -> None:
    path = script.download_pip(tmp_path)

    assert path == tmp_path / "pip-26.1-py3-none-any.whl"
    assert path.read_bytes() == b"new"


def test_a_damaged_pip_is_refused(
    index: str, script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(WHEELS, "pip-26.1-py3-none-any.whl", b"nwe")

    with pytest.raises(SystemExit, match=r"pip-26\.1-py3-none-any\.whl is damaged"):
        script.download_pip(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_old_python_is_told_what_to_do(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 4))

    with pytest.raises(SystemExit, match=r"needs Python 3\.11 or newer, this is 3\.10\.4"):
        script.main()


def test_the_script_can_be_executed() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--stage", "nox", ".ci/run"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    )

    assert [line.split()[0] for line in listed.stdout.splitlines()] == ["100755", "100755"]
