"""CI's jobs as sessions: ``nox -s unit``.

Each installs the lock file, and nothing else, into its own environment.

On a developer's machine `make test` does the same in `.venv`, without a second environment.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import nox

nox.needs_version = ">=2025.10"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.sessions = ["lint", "unit"]
nox.options.error_on_external_run = True

_SERVICES = str(Path(__file__).parent / ".aml-train/bin")
_WITH_CONTAINERS = ("tests/integration", "tests/e2e")
_WORKERS = ("-n", os.environ.get("TEST_WORKERS", "3"), "--max-worker-restart=1")


def _install(session: nox.Session) -> None:
    session.install("--require-hashes", "-r", "requirements/dev.txt")
    session.install("--no-deps", "--editable", ".")


def _make_ready(session: nox.Session, profile: str) -> dict[str, str]:
    """Prepare the machine; return the variables by which tests find its services."""
    session.run("python", "-m", "scripts.bootstrap", "--for", profile)
    return {"PATH": os.pathsep.join((session.bin, _SERVICES, os.environ.get("PATH", os.defpath)))}


@nox.session
def lint(session: nox.Session) -> None:
    """Run ruff, mypy and the import contracts."""
    _install(session)
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("lint-imports")


@nox.session
def unit(session: nox.Session) -> None:
    """Run the unit tests: no Docker, no sockets."""
    _install(session)
    session.run("pytest", *_WORKERS, "tests/unit", *session.posargs)


@nox.session
def core(session: nox.Session) -> None:
    """Run the tests with real Docker, registry, Azurite and SDKs, without ``full``."""
    _install(session)
    environ = _make_ready(session, "services")
    session.run("pytest", *_WORKERS, "-m", "not full", *_WITH_CONTAINERS, *session.posargs, env=environ)


@nox.session
def full(session: nox.Session) -> None:
    """Run every test with real Docker, registry, Azurite and SDKs."""
    _install(session)
    environ = _make_ready(session, "services")
    session.run("pytest", *_WORKERS, *_WITH_CONTAINERS, *session.posargs, env=environ)


@nox.session
def properties(session: nox.Session) -> None:
    """Look for foreign input that breaks a property: a million answers of services."""
    _install(session)
    options = ("--hypothesis-profile=search", "--timeout=14400", "tests/unit/properties")
    session.run("pytest", *_WORKERS, *options, env={"AML_TRAIN_ANSWERS": "1000000"})


@nox.session
def simulation(session: nox.Session) -> None:
    """Run 10,000 seeds of the simulation, or as many as five hours have room for.

    Arguments: those of ``python -m simulation`` instead.
    """
    _install(session)
    first = 10_000 * int(os.environ.get("SIMULATION_NIGHT", "0"))
    out = ("--out", os.environ.get("SIMULATION_FAILURES", "simulation-failures"))
    common = ("--workers", str(os.cpu_count() or 2), *out)
    night = ("--seeds", f"{first}-{first + 9_999}", "--minutes", "300")
    session.run(
        "python", "-m", "simulation", *(session.posargs or night), *common, env={"PYTHONPATH": "runner:action"}
    )


@nox.session
def demo(session: nox.Session) -> None:
    """Run the example from nothing, and again: the second run attaches."""
    _install(session)
    environ = _make_ready(session, "emulator-image")
    for _ in range(2):
        session.run("aml-train", "run", "-C", "examples/digits", env=environ)


@nox.session
def distributed_torch(session: nox.Session) -> None:
    """Train on two nodes by PyTorch, submitted by both SDKs.

    Its build for processors is some 200 MB: from pip's own sources, or from PyTorch's index.
    """
    _install(session)
    session.install("pip")
    environ = _make_ready(session, "services")
    context = Path(session.create_tmp()) / "torch"
    shutil.copytree("examples/distributed/torch", context, dirs_exist_ok=True)
    wheels = ("--dest", str(context / "wheels"), "--only-binary=:all:", "--python-version=3.11")
    index = ("--retries=0", "--extra-index-url=https://download.pytorch.org/whl/cpu")
    session.run("python", "-m", "pip", "download", "--quiet", *wheels, *index, "torch==2.13.0+cpu", "numpy")
    image = "aml-train-test-torch:1"
    session.run("docker", "build", "--quiet", "--tag", image, str(context), external=True)
    session.run(
        "pytest", "tests/large/test_torch.py", *session.posargs, env={**environ, "AML_TRAIN_TORCH_IMAGE": image}
    )


@nox.session
def azure(session: nox.Session) -> None:
    """Run the contract suite of job services in your own workspace: docs/azure-check.md.

    Arguments: ``--workspace ID --compute NAME``.
    """
    _install(session)
    session.run("pytest", "-v", "tests/large/test_workspace.py", *session.posargs)


@nox.session
def benchmarks(session: nox.Session) -> None:
    """Print the ratios; nothing is judged."""
    _install(session)
    environ = _make_ready(session, "services")
    session.run("python", "-m", "benchmarks", *session.posargs, env=environ)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation's site; a warning or a dead link fails."""
    _install(session)
    session.run("python", "-m", "scripts.docs", "build")


@nox.session(name="lock-check")
def lock_check(session: nox.Session) -> None:
    """Check that the lock files agree with pyproject.toml."""
    session.install("--require-hashes", "-r", "requirements/tools.txt")
    session.run("python", "-m", "scripts.lock", "--check")
