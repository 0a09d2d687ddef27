"""Pipelines and sweeps by the unmodified azure-ai-ml, their nodes and trials in containers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import contracts
from tests.contracts import clients
from tests.support.emulator_process import Emulator, running

SCRIPT = "graph_steps.py"


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    with running(Emulator(tmp_path_factory.mktemp("graphs"), record=True)) as service:
        yield service


def test_a_pipeline_runs_node_by_node_and_reuses_what_is_the_same(emulator: Emulator) -> None:
    seen = emulator.client("graph", script=SCRIPT)
    for turn, reused in (("first", None), ("again", "true")):
        assert seen[turn]["status"] == "Completed", seen
        assert seen[turn]["nodes"] == {"prep": "Completed", "train": "Completed"}
        assert seen[turn]["reused"] == {"prep": reused, "train": reused}
        assert seen[turn]["got"] == "Completed"
    assert "Reusing the outputs of" in seen["again"]["files"]["artifacts/logs/azureml/executionlogs.txt"]
    assert seen["node"]["artifacts/outputs/rows"] == "row\n" * 3
    assert seen["node"]["named-outputs/model/weights"] == "row\n" * 3


@pytest.mark.full
def test_a_sweep_tries_each_value_and_knows_the_best(emulator: Emulator) -> None:
    seen = emulator.client("sweep", script=SCRIPT)
    assert (seen["status"], seen["trials"]) == ("Completed", ["Completed"] * 3), seen
    assert (seen["best"], seen["score"]) == (f"{seen['name']}_1", "5.0")
    assert seen["files"]["named-outputs/model/weights"] == "5"


def test_what_was_answered_is_as_the_models_declare_it(emulator: Emulator) -> None:
    """After the tests before."""
    assert clients.unlisted(emulator.recorded()) == {}, clients.__doc__
    wrong, beyond, checked, _ = contracts.check(emulator.recorded())
    # As Azure answers for nodes, which azure-ai-ml knows (``_is_pipeline_child_job``) and its models do not declare.
    assert wrong in ({}, {"JobBase .properties: null, not JobBaseProperties": "GET {WS}/jobs/{}"})
    assert sorted(beyond - contracts.undeclared().keys()) == []
    assert "PUT {WS}/jobs/{} 201" in checked, sorted(checked)
