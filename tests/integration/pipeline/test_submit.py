"""``aml-train submit`` against an emulator: arguments, code, data and setup arrive as they were meant."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.pipeline.conftest import AmlTrain
from tests.support.emulator_process import Emulator

ARGUMENTS = ("a b", "it's", '"q"', "$HOME", "`id`", "", "\\n", "ü€", "new\nline", "${{inputs.x}}", "$[[y]]", "*")
SHOW = "import json, sys; print(json.dumps(sys.argv[1:]))"


def put(emulator: Emulator, name: str, text: str) -> None:
    """Write a blob into the default datastore, with the account's key."""
    done = emulator.client("put_blob", script="code_steps.py", name=name, text=text)
    assert done == {"name": name}


def test_commands_arrive_as_they_are_with_their_code(aml_train: AmlTrain, tmp_path: Path) -> None:
    project, empty = tmp_path / "a project", tmp_path / "empty"
    (project / "pkg").mkdir(parents=True)
    empty.mkdir()
    (project / "pkg/show.py").write_text(SHOW)
    (project / ".env").write_text("TOKEN=secret")
    options = ("--env", "GREETING=it's $HOME", "--tag", "who=me", "--experiment", "tries", "--display-name", "A try")
    shown = aml_train.submit(project, "python", "pkg/show.py", *ARGUMENTS, options=options)
    nothing = aml_train.submit(
        empty, "sh", "-c", 'ls -A; echo "$0 $AZUREML_RUN_ID"; exit 3', options=("--name", "my-own")
    )
    ended = shown.ended()
    assert (ended.code, ended.errors) == (0, "")
    assert json.loads("\n".join(ended.log())) == list(ARGUMENTS)
    assert ended.job.startswith("tries-")
    failed = nothing.ended()
    assert failed.code == 5
    assert failed.log()[-1] == "sh my-own"
    assert ".env" not in failed.log()
    assert "the job gets no code" in failed.output
    again = aml_train.submit(empty, "true", options=("--name", "my-own")).ended()
    assert again.code == 2
    assert "There is a job named my-own already" in again.output


@pytest.mark.full
def test_data_and_setup_of_the_project_hold(emulator: Emulator, aml_train: AmlTrain, tmp_path: Path) -> None:
    put(emulator, "shared/images/cat.txt", "miau")
    put(emulator, "shared/labels.csv", "cat,1")
    project = tmp_path / "project"
    project.mkdir()
    (project / "job.yml").write_text("command: other\nenvironment: {image: 'python:3.11-slim-bookworm'}\n")
    (project / "aml-train.yml").write_text(
        "job: job.yml\n"
        "setup:\n"
        "  - echo \"set up $(cat 'da ta/images/cat.txt')\" >> made\n"
        "  - ls data > /dev/null || ls 'da ta' >> made\n"
        "data:\n"
        "  da ta/images: azureml://datastores/workspaceblobstore/paths/shared/images\n"
        "  labels.csv: {path: azureml://datastores/workspaceblobstore/paths/shared/labels.csv, type: uri_file}\n"
    )
    good = aml_train.submit(project, "cat", "made", "da ta/images/cat.txt", "labels.csv", image=None)
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "aml-train.yml").write_text("setup: ['true', 'exit 7']\n")
    bad = aml_train.submit(broken, "echo", "never")
    ended = good.ended()
    assert (ended.code, ended.errors) == (0, "")
    assert "".join(ended.log()).endswith("set up miauimagesmiaucat,1")
    failed = bad.ended()
    assert failed.code == 5
    assert failed.log()[-1] == "aml-train: setup 2 of 2 failed with exit code 7: exit 7"

    (project / "labels.csv").write_text("local")
    refused = aml_train.submit(project, "true", image=None).ended()
    assert refused.code == 2
    assert "aml-train.yml:7: the data cannot be linked to `labels.csv`: the code has `labels.csv`" in refused.errors
