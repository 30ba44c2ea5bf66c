"""`./nox` finds pip by itself where Python came without it; .ci/run starts it for real."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from checkout import ROOT


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    loader = importlib.machinery.SourceFileLoader("nox_script", str(ROOT / "nox"))
    specification = importlib.util.spec_from_loader("nox_script", loader)
    assert specification is not None
    module = importlib.util.module_from_spec(specification)
    loader.exec_module(module)
    return module


class Commands:
    """Records commands instead of running them; those that contain `failing` fail."""

    def __init__(self, *failing: str) -> None:
        self.failing = failing
        self.seen: list[list[str]] = []

    def run(self, command: list[object], **_: object) -> subprocess.CompletedProcess[bytes]:
        words = [str(each) for each in command]
        self.seen.append(words)
        fails = any(each in " ".join(words) for each in self.failing)
        return subprocess.CompletedProcess(words, int(fails))


@pytest.fixture
def home(script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    folder = tmp_path / "a folder" / ".nox-env"
    folder.mkdir(parents=True)
    monkeypatch.setattr(script, "HOME", folder)
    monkeypatch.setattr(script, "PYTHON", folder / "bin" / "python")
    monkeypatch.setattr(script, "READY", folder / "ready")
    monkeypatch.setattr(script.shutil, "rmtree", lambda *_, **__: None)
    return folder


def test_an_environment_with_its_own_pip_installs_with_it(
    script: ModuleType, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = Commands()
    monkeypatch.setattr(script.subprocess, "run", commands.run)

    script.make_environment()

    assert commands.seen[-1][:4] == [str(home / "bin" / "python"), "-m", "pip", "install"]
    assert (home / "ready").read_text() == str(home)


def test_without_ensurepip_the_systems_pip_installs_into_the_environment(
    script: ModuleType, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = Commands(f"-m venv {home}")
    monkeypatch.setattr(script.subprocess, "run", commands.run)

    script.make_environment()

    python = str(home / "bin" / "python")
    assert commands.seen[-1][:6] == [sys.executable, "-m", "pip", "--python", python, "install"]


def test_without_any_pip_the_missing_package_is_named(
    script: ModuleType, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = Commands(f"-m venv {home}", "-m pip")
    monkeypatch.setattr(script.subprocess, "run", commands.run)

    with pytest.raises(SystemExit, match="install python3-venv"):
        script.make_environment()
    assert not (home / "ready").exists()


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
