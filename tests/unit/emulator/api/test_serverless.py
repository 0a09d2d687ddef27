"""Jobs without a compute run on the local cluster, and are shown as serverless."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.emulator.parts import IDENTITY, WS, Service


@pytest.mark.parametrize("compute", [None, "", f"{WS}/computes/serverless", "azureml:serverless"])
def test_a_serverless_job_runs_on_the_local_cluster(service: Service, compute: str | None) -> None:
    shown = service.submit("job", computeId=compute, resources={"instanceType": "Standard_E4s_v3"}).json["properties"]
    assert shown["computeId"] == compute
    assert shown["queueSettings"] == {"jobTier": "Standard", "priority": None}
    assert service.runner.submitted[0].compute == "local-cluster"
    assert service.runner.submitted[0].memory_bytes == 32 * 2**30
    assert service.runner.submitted[0].notes == (
        "compute: serverless jobs run on the cluster local-cluster.",
        "resources.instance_type: the job runs on the cluster local-cluster; of the size it has the memory at most.",
    )
    run = service.call("GET", f"/history/v1.0{WS}/runs/job", host=IDENTITY.api_host).json
    assert (run["target"], run["compute"]["target"]) == ("Serverless", "Serverless")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"resources": {"instanceType": "Standard_D4s"}}, "The specified VM size 'Standard_D4s' is not supported"),
        (
            {"resources": {"instanceType": "Standard_D64s_v3", "instanceCount": 5}, "distribution": {"distributionType": "Mpi"}},
            "vCPU quota of 300",
        ),
        (
            {"resources": {"instanceCount": 3}, "distribution": {"distributionType": "Mpi"}},
            "exceeds the maximum node count 2 of the compute target 'local-cluster'",
        ),
    ],
)  # fmt: skip
def test_impossible_nodes_are_refused(service: Service, more: dict[str, Any], message: str) -> None:
    answer = service.submit("job", computeId=None, **more)
    assert answer.status == 400
    assert message in answer.json["error"]["message"]
