"""Pipelines and sweeps by the unmodified azure-ai-ml, without containers."""

from __future__ import annotations

from tests import contracts
from tests.support.emulator_process import Emulator

SCRIPT = "graph_steps.py"


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
    wrong, beyond, checked, _ = contracts.check(instant.recorded())
    # As Azure answers for nodes, which azure-ai-ml knows (``_is_pipeline_child_job``) and its models do not declare.
    assert wrong == {"JobBase .properties: null, not JobBaseProperties": "GET {WS}/jobs/{}"}
    assert sorted(beyond - contracts.undeclared().keys()) == []
    assert "PUT {WS}/jobs/{} 201" in checked, sorted(checked)
