"""The unmodified azureml-core against a real emulator with everything real."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests import contracts
from tests.support.emulator_process import Emulator, python_of_v1, running

pytestmark = pytest.mark.full

PATIENCE_SECONDS = 3600
"""For a step that has an image built with azureml-core in it; nothing is measured by it."""


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    with running(Emulator(tmp_path_factory.mktemp("emulator"), record=True)) as service:
        yield service


def step(emulator: Emulator, name: str) -> dict[str, Any]:
    """Run one step of a user of azureml-core, who has a home of their own."""
    return emulator.client(name, script="v1_steps.py", python=python_of_v1(), seconds=PATIENCE_SECONDS)


def test_a_script_runs_and_is_logged_to(emulator: Emulator) -> None:
    seen = step(emulator, "run")
    assert (seen["status"], seen["target"], seen["script"]) == ("Completed", "local-cluster", "train.py")
    assert seen["tags"] == {"commit": "abc"}
    assert seen["metrics"] == {"accuracy": 0.9}
    assert seen["files"] == ["outputs/model.txt", "user_logs/std_log.txt"]
    assert "hello ['--rate', '0.5', '--text', \"it's $HOME\"] a run" in seen["log"]
    assert "['lib', 'logs', 'outputs', 'train.py']" in seen["log"]
    assert seen["model"] == "weights"
    assert seen["second"] == "Completed"
    # Only the new file was sent; the others come from the snapshot before.
    assert "['lib', 'logs', 'outputs', 'second.txt', 'train.py']" in seen["second log"]["user_logs/std_log.txt"]
    assert seen["listed"]
    assert f"/runs/{seen['id']}" in seen["portal"]


def test_what_the_tutorials_do(emulator: Emulator) -> None:
    seen = step(emulator, "tutorial")
    assert "ComputeTargetNotFound" in seen["missing"]
    assert seen["cluster"] == ["Steady", "STANDARD_DS3_V2", 4]
    name, version, dockerfile = seen["environment"]
    assert (name, version) == ("tutorial-env", "1")
    assert "pip install" in dockerfile
    assert "Successfully built" in seen["logs"]["azureml-logs/20_image_build_log.txt"]
    run = seen["id"]
    assert f"in {run} tutorial ['from']" in seen["logs"]["user_logs/std_log.txt"]
    assert seen["status"] == "Completed"
    assert math.isnan(seen["metrics"].pop("nan"))
    assert seen["metrics"] == {
        "loss": [1.0, 0.5, 1 / 3],
        "list": [1.5, 2.5],
        "note": "fine",
        "row": {"x": [1, 2], "y": [2.5, 3.5]},
        "table": {"a": [1, 2], "b": ["x", "y"]},
        "matrix": f"aml://artifactId/ExperimentRun/dcid.{run}/matrix",
    }
    assert {"uploads/one.txt", "folder/a.txt", "outputs/model.txt", "matrix"} <= set(seen["files"])
    assert seen["tags"] == {"from": "outside", "mood": "good", "after": "wards"}
    assert seen["properties"] == "test"
    # The sign is azureml-core's own.
    assert seen["children"] == [[">first child", "Completed", {"inner": 7.0}]]
    assert seen["model"] == ["tutorial-model:1", run, {"a": "b", "k": "v"}, {"p": "q"}]
    assert {"from-inside:1", "tutorial-model:1", "uploaded:1"} <= set(seen["models"])
    assert seen["tagged"] == ["tutorial-model:1"]
    assert (seen["content"], seen["back"]) == ("weights", ["one/weights.txt", "two.txt"])
    assert seen["framework"] == "ScikitLearn"
    _check_beside(emulator.client("beside_v1", run=run), run)


def _check_beside(seen: dict[str, Any], run: str) -> None:
    """What azure-ai-ml and MLflow see of it."""
    assert (seen["status"], seen["experiment"]) == ("Completed", "tutorial")
    assert seen["tags"]["mood"] == "good"
    assert seen["loss"] == [1.0, 0.5, 1 / 3]
    assert seen["model"] == [run, {"a": "b", "k": "v"}]
    assert seen["files"] == ["model.txt"]
    assert seen["environment"]
    assert seen["children"] == [">first child"]


def test_an_environment_is_built_without_a_job(emulator: Emulator) -> None:
    seen = step(emulator, "build")
    assert (seen["before"], seen["status"], seen["exists"]) == (False, "Succeeded", True)
    assert re.fullmatch(r"amllocal\.azurecr\.io/azureml/azureml_[0-9a-f]{32}@sha256:[0-9a-f]{64}", seen["image"])
    assert " : RUN echo built" in seen["log"]
    assert seen["broken"] == "Failed"
    assert "returned a non-zero code: 3" in seen["why"]


def test_data_comes_from_a_datastore(emulator: Emulator) -> None:
    seen = step(emulator, "data")
    assert seen["default"] == "workspaceblobstore"
    assert seen["registered"] == ["pictures", "pictures", "pictures"]
    assert {"pictures", "workspaceartifactstore", "workspaceblobstore"} <= set(seen["datastores"])
    assert "got ['a.txt', 'deep'] /mnt/azureml/" in seen["log"]
    name, version, identifier = seen["dataset"]
    assert (name, version, seen["known"]) == ("made-data", 1, ["made-data"])
    assert sorted((one["inputName"], one["mechanism"]) for one in seen["read"]) == [
        ("digits", "Mount"),
        ("plain", "Direct"),
    ]
    assert f"dataset ['made.txt'] True {identifier} plain:direct,digits:mount" in seen["used"]
    assert seen["files"] == [f"made/{seen['writer']}/made.txt", "v1-data/a.txt", "v1-data/deep/b.txt"]


def test_every_answer_was_as_the_clients_declare_it(emulator: Emulator) -> None:
    """After the tests above. What azureml-mlflow declares of run history holds for the answers to azureml-core too."""
    wrong, beyond, checked, _ = contracts.check(emulator.recorded())
    assert wrong == {}
    assert sorted(beyond - contracts.undeclared().keys()) == []
    assert any("details" in one for one in checked)
