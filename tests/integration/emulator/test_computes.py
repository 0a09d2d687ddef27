"""Clusters of a real emulator, as the unmodified azure-ai-ml makes, uses and deletes them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.emulator_process import Emulator, running

pytestmark = pytest.mark.full

SCRIPT = "compute_steps.py"


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    with running(
        Emulator(
            tmp_path_factory.mktemp("emulator"),
            record=True,
            environment={"AML_EMULATOR_QUOTA": "standardNDASv4_A100Family=96", "AML_EMULATOR_MAX_JOBS": "3"},
        )
    ) as service:
        yield service


def test_a_cluster_keeps_its_settings_and_impossible_ones_are_refused(emulator: Emulator) -> None:
    seen = emulator.client("clusters", script=SCRIPT)
    assert seen["seen"] == ["Standard_NC6s_v3", "low_priority", {"team": "a"}, "me", None]
    assert seen["subnet"].endswith("/virtualNetworks/net/subnets/sub")
    assert seen["identity"] == ["user_assigned", True]
    assert (seen["ssh"], seen["nodes"], seen["changed"]) == (True, ["idle"], [0, 3, 1])
    refused = seen["refused"]
    assert {name: status for name, (status, _) in refused.items()} == {
        "size": 400,
        "quota": 400,
        "resize": 400,
        "kind": 501,
    }
    assert "'Standard_Huge_v9' is not supported in the location 'eastus'" in refused["size"][1]
    assert "vCPU quota of 96 and cannot accommodate for at least 4 requested" in refused["quota"][1]
    assert "The vmSize of the compute 'full' cannot be changed" in refused["resize"][1]
    assert "compute of type 'Kubernetes'" in refused["kind"][1]
    assert (seen["sizes"]["STANDARD_ND96ASR_V4"], seen["sizes"]["STANDARD_DS3_V2"]) == ([96, 8], [4, 0])
    assert seen["usage"]["standardNDASv4_A100Family"] == [0, 96]
    assert seen["listed"] == ["full", "local-cluster"]


def test_jobs_wait_for_the_nodes_of_their_cluster(emulator: Emulator) -> None:
    seen = emulator.client("queues", script=SCRIPT)
    assert seen["meanwhile"] == ["Queued", "Queued", "Queued"]
    assert seen["nodes"] == [["running", True]]
    assert (seen["second"][0], seen["second"][-1], seen["first"]) == ("Queued", "Completed", "Completed")
    assert (seen["closed"], seen["doomed"]) == ("Canceled", ["Failed", "Failed"])
    assert seen["why"] == "The compute target 'doomed' was deleted while the job was on it."
    assert seen["left"] == 0
    shown = emulator.admin("GET", "status").json()["clusters"]["single"]
    assert (shown["nodes"], shown["queue"], shown["max_nodes"], shown["cores"]) == (
        {"preparing": 0, "idle": 0, "running": 0},
        [],
        1,
        4,
    )
