"""Pipelines and sweeps by the unmodified azure-ai-ml, their nodes and trials in containers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import contracts
from tests.support.emulator_process import Emulator, running

SCRIPT = "graph_steps.py"


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    with running(Emulator(tmp_path_factory.mktemp("graphs"), record=True)) as service:
        yield service


@pytest.mark.full
def test_a_sweep_is_a_node_of_a_pipeline(emulator: Emulator) -> None:
    seen = emulator.client("tuned", script=SCRIPT)
    for way, trials in (("yaml", ["0", "1", "2"]), ("python", ["0", "1"])):
        found = seen[way]
        assert found["status"] == "Completed", seen
        assert (found["nodes"], found["trials"]) == ({"tune": "Completed", "use": "Completed"}, trials)
        weights = found["files"]["named-outputs/model/weights"]
        assert weights.split()[0] == found["score"].removesuffix(".0")
        assert found["files"]["artifacts/user_logs/std_log.txt"] == weights
    assert (seen["yaml"]["best"], seen["yaml"]["score"]) == (f"{seen['yaml']['names']['tune']}_1", "5.0")


def test_clients_read_of_a_reused_node_what_the_earlier_one_has(instant: Emulator) -> None:
    seen = instant.client("played", script=SCRIPT)
    first, again = seen["first"], seen["again"]
    for found in (first, again):
        assert (found["status"], set(found["nodes"].values())) == ("Completed", {"Completed"}), seen
        assert (found["metrics"], found["params"]) == ({"loss": 1.5}, {"rate": "0.1"})
        assert found["history"] == [[0, 2.5], [1, 1.5]]
        assert (found["listed"], found["weights"]) == (["model", "user_logs"], "trained")
        assert (found["score"], found["files"]["named-outputs/model/weights"]) == ("5.0", "5")
    assert set(first["reuses"].values()) == {None}
    assert again["reuses"] == first["names"]
    assert (first["trials"], again["trials"]) == (["0", "1", "2"], [])
    check_answers(instant)


def check_answers(emulator: Emulator) -> None:
    """Fail if an answer was not as the clients declare it."""
    wrong, beyond, checked, _ = contracts.check(emulator.recorded())
    # As Azure answers for nodes, which azure-ai-ml knows (``_is_pipeline_child_job``) and its models do not declare.
    assert wrong == {"JobBase .properties: null, not JobBaseProperties": "GET {WS}/jobs/{}"}
    assert sorted(beyond - contracts.undeclared().keys()) == []
    assert "PUT {WS}/jobs/{} 201" in checked, sorted(checked)
