"""The way to a development container: build and test the image, write devcontainer.json, bring it up with the command line of dev containers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT, TIMEOUT, Local, edit
from tests.e2e.test_tutorial import Reader, install

pytestmark = pytest.mark.full

PAGE = (ROOT / "docs/devcontainer.md").read_text()
FILE = ".devcontainer/devcontainer.json"


@pytest.fixture
def reader(local: Local, digits: Path, tmp_path: Path) -> Iterator[Reader]:
    """The example, and a shell whose `aml-train` is this checkout's; no container of it is left."""
    # Other tests build the example's own image in the same registry: here no run has built it yet.
    edit(digits / "aml-train.yml", "image:\n", f"image:\n  env: {{DESK: {uuid.uuid4().hex!r}}}\n")
    yield Reader(local, install(local, tmp_path), digits)
    label = f"label=devcontainer.local_folder={digits}"
    found = subprocess.run(["docker", "ps", "-aq", "--filter", label], capture_output=True, text=True, check=True)
    for container in found.stdout.split():
        subprocess.run(["docker", "rm", "-f", container], check=True, stdout=subprocess.DEVNULL)


def commands(heading: str) -> str:
    """Return the shell commands of a section of the page."""
    return PAGE.partition(f"\n## {heading}\n")[2].partition("```sh\n")[2].partition("```")[0]


def devcontainer(folder: Path, command: str, *arguments: str) -> str:
    """Run the command line of dev containers; return what it prints."""
    program = shutil.which("devcontainer")
    assert program, "python3 -m scripts.bootstrap --for services installs it into .aml-train/bin"
    done = subprocess.run(
        [program, command, "--workspace-folder", str(folder), *arguments],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_tested_image_comes_up_in_a_development_container(reader: Reader) -> None:
    assert "is not in" in reader.type("aml-train image devcontainer --check", code=3)
    reader.type(commands("Build the image, and write the file"))
    text = (reader.folder / FILE).read_text()
    image = named_image(text)
    assert "/digits-proposals@sha256:" in image  # outside a git repository
    assert "unchanged" in reader.type("aml-train image devcontainer --check")

    up = json.loads(devcontainer(reader.folder, "up").splitlines()[-1])
    assert up["outcome"] == "success"
    inspected = subprocess.run(
        ["docker", "inspect", up["containerId"]], capture_output=True, text=True, check=True
    ).stdout
    assert json.loads(inspected)[0]["Config"]["Image"] == image
    tests = devcontainer(reader.folder, "exec", "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests")
    assert " passed" in tests

    shell = reader.type("aml-train image shell -- python -m pytest -q -p no:cacheprovider tests </dev/null")
    assert tests.splitlines()[-1].split(" in ")[0] == shell.splitlines()[-1].split(" in ")[0]
    reader.type("aml-train image shell -- sh -c 'exit 7' </dev/null", code=7)

    # Another image: the file is outdated, and keeps what the user wrote.
    (reader.folder / FILE).write_text(text.replace('"customizations": {', '"customizations": { // ours'))
    edit(reader.folder / "aml-train.yml", "env: {DESK:", "env: {AT_THE_DESK: 'yes', DESK:")
    assert "is not in" in reader.type("aml-train image devcontainer --check", code=3)
    reader.type("aml-train image build")
    assert "does not name" in reader.type("aml-train image devcontainer --check", code=10)
    reader.type("aml-train image devcontainer")
    updated = (reader.folder / FILE).read_text()
    assert '"customizations": { // ours' in updated
    assert named_image(updated) != image
    reader.type("aml-train image devcontainer --check")
    assert reader.type("aml-train image shell -- printenv AT_THE_DESK </dev/null").splitlines()[-1] == "yes"


def named_image(text: str) -> str:
    return text.partition('"image": "')[2].partition('"')[0]
