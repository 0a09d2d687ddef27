"""Data that change behind an address that stays: `aml-train run` as a process, on the real storage of the local AzureML."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.emulator_process import Emulator

STORE = "azureml://datastores/workspaceblobstore/paths"


class Project:
    """A project in a folder of its own, whose job has the given inputs and script."""

    def __init__(
        self, emulator: Emulator, folder: Path, inputs: dict[str, Any], *, more: str = "", **job: Any
    ) -> None:
        self.emulator = emulator
        self.folder = folder
        folder.mkdir()
        (folder / "aml-train.yml").write_text(
            f"job: job.yml\ntarget: azure\ntargets: {json.dumps({'azure': emulator.target()})}\ngate: {{accuracy: '>= 0.5'}}\n"
            f"model: {{name: seen, path: outputs/model}}\n{more}\n"
        )
        script = f"metric accuracy 1 0.9\nwrite outputs/model/model.json {{}}\n{job.pop('script', '')}"
        document = {"command": script, "inputs": inputs, "experiment_name": folder.name, **job}
        (folder / "job.yml").write_text(json.dumps({**document, "environment": {"image": "x"}}))

    def run(self, code: int = 0) -> tuple[dict[str, Any], str]:
        """Run it; return the result and all that was said."""
        ended = self.command("run", "--json", code=code)
        return json.loads(ended.stdout), ended.stderr

    def upload(self, name: str, text: str, *to: str) -> None:
        (self.folder / name).write_text(text)
        self.command("data", "upload", name, *to)

    def command(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        return self.emulator.python(self.folder, "-m", "aml_train", *arguments, code=code, NO_COLOR="1")


@pytest.mark.full
def test_data_behind_an_address_that_stays_train_again(instant: Emulator, tmp_path: Path) -> None:
    given = {
        "images": {"type": "uri_folder", "path": f"{STORE}/stays/images"},
        "labels": {"type": "uri_file", "path": "azureml:labels:1"},
    }
    project = Project(instant, tmp_path / "stays", given)
    for name in ("a.png", "b.png"):
        project.upload(name, name, f"{STORE}/stays/images/{name}")
    # It is no part of the folder, although its name begins like that.
    project.upload("c.png", "c.png", f"{STORE}/stays/images-of-others/c.png")
    project.upload("labels.csv", "1", f"{STORE}/stays/labels.csv", "--name", "labels")
    first = project.run()[0]["job"]
    assert project.run()[0]["job"] == first
    project.upload("c.png", "others", f"{STORE}/stays/images-of-others/c.png")
    assert project.run()[0]["job"] == first
    project.upload("a.png", "something else", f"{STORE}/stays/images/a.png")
    result, said = project.run()
    second = result["job"]
    assert f"Trains, as these differ from the last job, {first}: images: 1 file, e.g. a.png." in said, said
    project.upload("labels.csv", "2", f"{STORE}/stays/labels.csv")
    result, said = project.run()
    assert f"Trains, as these differ from the last job, {second}: labels: 1 file, e.g. labels.csv." in said, said
    assert result["job"] not in (first, second)


@pytest.mark.full
@pytest.mark.parametrize(("pin", "code"), [("warn", 0), ("strict", 6)])
def test_data_that_change_while_the_job_runs_make_the_result_not_reproducible(
    instant: Emulator, tmp_path: Path, pin: str, code: int
) -> None:
    place = f"{STORE}/{pin}/images"
    project = Project(
        instant,
        tmp_path / f"changes-{pin}",
        {"images": {"type": "uri_folder", "path": place}},
        more=f"data: {{pin: {pin}}}",
        script="output made z.png changed",
        outputs={"made": {"path": f"{place}/"}},
    )
    project.upload("a.png", "a", f"{place}/a.png")
    result, said = project.run(code)
    assert result["data_changed"] == "images: 1 file, e.g. z.png"
    assert "not reproducible: data changed after the job was submitted. images: 1 file, e.g. z.png." in said, said
    assert ("model" in result) == (pin == "warn")
    assert ("`data.pin` is `strict` (aml-train.yml:6)" in said) == (pin == "strict"), said
    # The next run trains on the data as they are now.
    assert project.run(code)[0]["job"] != result["job"]
