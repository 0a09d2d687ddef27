"""``aml-train image devcontainer`` and ``aml-train image shell``, with the image that was found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import aml_train.cli.devcontainer
from aml_train.cli.devcontainer import run_arguments
from aml_train.cli.main import cli
from aml_train.config.load import load_config
from aml_train.core.errors import ImageError, InvalidError, OutdatedError
from aml_train.dev_image import DevImage
from aml_train.image.base_files import ImageSettings

FILE = ".devcontainer/devcontainer.json"
FIRST, SECOND = "sha256:" + "a" * 64, "sha256:" + "b" * 64


class Project:
    """A project, and the image that its registry has."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.image = self.at(FIRST)

    def at(self, digest: str | None, **settings: Any) -> DevImage:
        found = ImageSettings(**{"user": "azureml", "variables": {"CUDA_VERSION": "12"}, **settings})
        return DevImage(repository="localhost:7381/digits", digest=digest, settings=found, address="addr-1")

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(
            cli, ["image", "devcontainer", "-C", str(self.folder), *arguments], catch_exceptions=False
        )

    @property
    def text(self) -> str:
        return (self.folder / FILE).read_text()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    job = "{command: python train.py, resources: {shm_size: 4g}}"
    (tmp_path / "aml-train.yml").write_text(f"job: {job}\nimage: {{base: python}}\n")
    made = Project(tmp_path)
    monkeypatch.setattr(
        aml_train.cli.devcontainer, "find_image", lambda *_: (load_config(None, directory=tmp_path), made.image)
    )
    return made


def test_the_file_is_written_kept_and_updated(project: Project) -> None:
    created = project.run()
    assert project.text.startswith("// The image in which the tests of this repository passed, by its digest.\n")
    assert created.stdout == f"{FILE}: created, localhost:7381/digits@{FIRST}\n"
    document = json.loads(project.text.partition("yours.\n")[2])
    assert document["remoteUser"] == "azureml"
    assert document["runArgs"] == ["--shm-size=4g"]
    assert document["hostRequirements"] == {"gpu": "optional"}
    assert document["customizations"] == {"vscode": {"extensions": ["ms-python.python", "ms-toolsai.vscode-ai"]}}

    assert "unchanged" in project.run().stdout
    assert "unchanged" in project.run("--check").stdout
    (project.folder / FILE).write_text(project.text.replace("{\n", "{ // the team's\n", 1))
    project.image = project.at(SECOND)
    before = project.text
    with pytest.raises(OutdatedError, match=f"{FILE} does not name localhost:7381/digits@{SECOND}") as caught:
        project.run("--check")
    assert (caught.value.exit_code, caught.value.hint) == (
        10,
        "Write it, and commit it: aml-train image devcontainer",
    )
    assert project.text == before
    updated = json.loads(project.run("--json").stdout)
    assert updated == {
        "status": "updated",
        "file": FILE,
        "image": f"localhost:7381/digits@{SECOND}",
        "address": "addr-1",
    }
    assert project.text == before.replace(FIRST, SECOND)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"build": {"dockerfile": "Dockerfile"}}', "no line names the `image`: the tested image is used as it is"),
        ('{\n  // "image": "x"\n}', "no line names the `image`"),
        ('{\n  "image": "x",\n  "features": {"image": "y"}\n}', "2 lines name an `image`"),
    ],
)
def test_a_file_that_is_not_changed(project: Project, text: str, message: str) -> None:
    (project.folder / FILE).parent.mkdir()
    (project.folder / FILE).write_text(text)
    with pytest.raises(InvalidError, match=f"{FILE}: {message}"):
        project.run()
    assert project.text == text


def test_a_missing_file_is_outdated(project: Project) -> None:
    with pytest.raises(OutdatedError, match=f"{FILE} does not exist"):
        project.run("--check")
    assert not (project.folder / FILE).exists()


def test_an_image_without_a_digest_is_refused(project: Project) -> None:
    project.image = project.at(None)
    with pytest.raises(ImageError, match="is in this engine only, so it has no digest") as caught:
        project.run()
    assert caught.value.hint == "Push it to a registry, or open it here: aml-train image shell"


def test_the_arguments_of_a_shell() -> None:
    plain = run_arguments("i@d", Path("/home/me/digits"), [], terminal=False, gpus=False, user=None)
    assert plain[:4] == ["run", "--rm", "--init", "--interactive"]
    assert plain[4:8] == [
        "--mount", "type=bind,source=/home/me/digits,target=/workspaces/digits", "--workdir", "/workspaces/digits",
    ]  # fmt: skip
    assert plain[8:] == ["--entrypoint", "/bin/sh", "i@d", "-c", plain[-2], "sh"]
    assert "exec bash" in plain[-2]
    full = run_arguments("i@d", Path("/a,b/c"), ["pytest", "-q"], terminal=True, gpus=True, user="me")
    assert full[4:9] == ["--tty", "--gpus", "all", "--user", "me"]
    assert 'type=bind,"source=/a,b/c",target=/workspaces/c' in full
    assert full[-5:] == ["-c", 'exec "$@"', "sh", "pytest", "-q"]
