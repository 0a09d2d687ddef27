"""Test the built artefacts: the wheel, the action's image, the emulator's image."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from scripts.release.commands import ReleaseError, run, show, tool
from scripts.release.images import load_image
from scripts.release.record import Record

if TYPE_CHECKING:
    from docker import DockerClient

#: Variables that name the images for the tests.
ACTION_IMAGE: Final = "AML_TRAIN_ACTION_IMAGE"
EMULATOR_IMAGE: Final = "AML_TRAIN_EMULATOR_IMAGE"
#: No code of the checkout in the processes of the installed package.
ISOLATED: Final = {"PYTHONPATH": ""}
#: The action under the hosted runner's contract; the emulator's container, reached by the unmodified SDKs.
TESTS: Final = ("tests/e2e/test_action.py", "tests/integration/emulator/test_container.py")


def run_checks(
    root: Path,
    folder: Path,
    record: Record,
    engine: DockerClient,
    options: Sequence[str],
    say: Callable[[str], None],
) -> None:
    """Test a build.

    Args:
        root: the repository, whose tests run.
        folder: the build.
        record: its record.
        engine: loads the images.
        options: of pytest, in addition to :data:`TESTS`.
        say: shows a line to the user.

    Raises:
        ReleaseError: something does not do what it should.
    """
    images = {image.name: load_image(engine, folder, image) for image in record.images}
    for name, known in images.items():
        say(f"The {name}'s image is loaded as {known}")
    with tempfile.TemporaryDirectory(prefix="aml-train-release-") as scratch:
        python = install_wheel(root, folder / record.wheel.file, Path(scratch), record.version)
        say(f"{record.wheel.file} is installed in an empty environment and runs a training in the emulator's image")
        train(root, python, Path(scratch), {EMULATOR_IMAGE: images["emulator"]})
    chosen = {ACTION_IMAGE: images["action"], EMULATOR_IMAGE: images["emulator"]}
    argv = [sys.executable, "-m", "pytest", "-q", "-n", "0", *options, *TESTS]
    show(argv, cwd=root, environ=chosen)


def install_wheel(root: Path, wheel: Path, folder: Path, version: str) -> Path:
    """Install *wheel* alone into a new environment in *folder*; return its Python.

    Raises:
        ReleaseError: it cannot be installed, or its commands do not start.
    """
    environment = folder / "environment"
    run([tool("uv"), "venv", "--quiet", f"--python={sys.executable}", str(environment)], cwd=folder)
    python = environment / "bin/python"
    run([tool("uv"), "pip", "install", "--quiet", f"--python={python}", str(wheel)], cwd=folder)
    said = run([str(environment / "bin/aml-train"), "--version"], cwd=folder, environ=ISOLATED).decode().strip()
    if version not in said.split():
        raise ReleaseError(f"aml-train --version of the installed wheel says {said!r}, not {version}.")
    run(
        [str(environment / "bin/aml-train"), "validate", "-C", str(root / "examples/digits")],
        cwd=folder,
        environ=ISOLATED,
    )
    return python


def train(root: Path, python: Path, folder: Path, environ: Mapping[str, str]) -> None:
    """Run examples/digits with the installed package, on a separate emulator.

    Raises:
        ReleaseError: the run does not pass, or runs code of the checkout.
    """
    import shutil

    from tests.support.ports import free_port

    project = folder / "digits"
    shutil.copytree(root / "examples/digits", project, ignore=shutil.ignore_patterns("__pycache__", "mlruns*"))
    variables = {
        **ISOLATED,
        **environ,
        "AML_TRAIN_EMULATOR_NAME": f"aml-emulator-release-{os.getpid()}",
        "AML_TRAIN_EMULATOR_PORT": str(free_port()),
        "AML_TRAIN_EMULATOR_REGISTRY_PORT": str(free_port()),
    }
    command = [str(python.with_name("aml-train"))]
    where = run(
        [str(python), "-c", "import aml_train; print(aml_train.__file__)"], cwd=folder, environ=ISOLATED
    ).decode()
    if str(folder) not in where:
        raise ReleaseError(f"The installed package is not what runs: {where.strip()}.")
    events = folder / "events"
    try:
        run([*command, "run", "-C", str(project), "--events", str(events)], cwd=folder, environ=variables)
        finished = json.loads(events.read_text(encoding="utf-8").splitlines()[-1])
        if finished.get("status") != "passed":
            raise ReleaseError(f"The run with the installed wheel ended as {finished}.")
    finally:
        run([*command, "emulator", "reset", "--yes"], cwd=folder, environ=variables)
