from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from aml_train.azure.clouds import AZURE_PUBLIC
from aml_train.azure.names import WorkspaceId
from aml_train.azure.workspace import AzureRest
from aml_train.core.errors import ServiceError
from aml_train.jobs.placement import NodeKind, Placement
from tests.support.plain_answers import answered

SIZES = {
    "value": [{"name": "STANDARD_NC6S_V3", "gpus": 1}, {"name": "STANDARD_DS3_V2", "gpus": 0}, {"name": "STANDARD_X"}]
}


class Rest(AzureRest):
    """A workspace whose answers are given: path → JSON, or an error."""

    def __init__(self, **answers: Any) -> None:
        super().__init__(WorkspaceId(subscription_id="s", resource_group="g", name="w"), None, AZURE_PUBLIC)  # type: ignore[arg-type]
        self.answers = {"vmSizes": SIZES, **answers}

    def location(self) -> str:
        return "westeurope"

    def read(
        self, url: str, what: str, *, params: Mapping[str, str] | None = None, attempts: int | None = None
    ) -> Any:
        assert params is not None
        answer = self.answers.get(url.rpartition("/")[2])
        if isinstance(answer, Exception):
            raise answer
        return answered(answer)


def cluster(**inner: Any) -> dict[str, Any]:
    return {"properties": {"computeType": "AmlCompute", "properties": inner}}


@pytest.mark.parametrize(
    ("answers", "placement", "kind"),
    [
        (
            {"gpu": cluster(vmSize="Standard_NC6s_v3", vmPriority="Dedicated")},
            Placement(compute="gpu"),
            NodeKind(size="Standard_NC6s_v3", gpus=1),
        ),
        (
            {"gpu": cluster(vmSize="STANDARD_NC6S_V3", vmPriority="LowPriority")},
            Placement(compute="gpu"),
            NodeKind(size="STANDARD_NC6S_V3", gpus=1, spot=True),
        ),
        ({}, Placement(size="Standard_DS3_v2", spot=True), NodeKind(size="Standard_DS3_v2", gpus=0, spot=True)),
        (
            {},
            Placement(compute="serverless", size="Standard_DS3_v2"),
            NodeKind(size="Standard_DS3_v2", gpus=0),
        ),
        ({}, Placement(compute="gone"), NodeKind(problem="There is no compute gone.")),
        (
            {"k8s": cluster()},
            Placement(compute="k8s"),
            NodeKind(problem="AzureML does not say what VM size the nodes have."),
        ),
        (
            {},
            Placement(size="Standard_Y"),
            NodeKind(size="Standard_Y", problem="AzureML does not say how many GPUs Standard_Y has."),
        ),
        (
            {},
            Placement(size="Standard_X"),
            NodeKind(size="Standard_X", problem="AzureML does not say how many GPUs Standard_X has."),
        ),
        (
            {"vmSizes": ServiceError("403")},
            Placement(size="Standard_X"),
            NodeKind(size="Standard_X", problem="The kind of the nodes is not known: 403"),
        ),
    ],
)
def test_the_kind_of_nodes(answers: dict[str, Any], placement: Placement, kind: NodeKind) -> None:
    assert Rest(**answers).node_kind(placement) == kind


@pytest.mark.parametrize(
    ("inner", "reason"),
    [
        (
            {"errors": [{"error": {"code": "ClusterCoreQuotaReached", "message": "No cores."}}]},
            "The compute gpu cannot grow: ClusterCoreQuotaReached: No cores.",
        ),
        (
            {"errors": [{"code": "AllocationFailed", "message": "No room."}], "currentNodeCount": 1},
            "The compute gpu cannot grow: AllocationFailed: No room.",
        ),
        (
            {
                "errors": None,
                "currentNodeCount": 2,
                "scaleSettings": {"maxNodeCount": 4},
                "nodeStateCounts": {"runningNodeCount": 1, "preparingNodeCount": 1},
            },
            "The compute gpu has 2 of at most 4 nodes; 1 of them run jobs, 1 are starting.",
        ),
        ({}, ""),
    ],
)
def test_why_a_job_waits(inner: dict[str, Any], reason: str) -> None:
    assert Rest(gpu=cluster(**inner)).waiting_reason(Placement(compute="gpu")) == reason
