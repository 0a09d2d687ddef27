"""Which host is asked for run history and MLflow, whatever of discovery is missing."""

from __future__ import annotations

from typing import Any

import pytest

from aml_train.azure.clouds import address_of
from aml_train.azure.http import AzureHttp
from aml_train.azure.names import WorkspaceId
from aml_train.core.answers import Answer
from aml_train.core.errors import ServiceError

#: As in Microsoft's REST guide.
GUIDE = dict.fromkeys(
    (
        "api",
        "experimentation",
        "history",
        "hyperdrive",
        "labeling",
        "modelmanagement",
        "pipelines",
        "studiocoreservices",
    ),
    "https://east.experiments.azureml.net",
)
GUIDE |= {"api": "https://east.api.azureml.ms", "history": "https://east.history.azureml.ms"}
TRACKING = "azureml://east.tracking.azureml.ms/mlflow/v1.0/subscriptions/s"


@pytest.mark.parametrize(
    ("discovered", "tracking", "history", "mlflow"),
    [
        (GUIDE, TRACKING, "https://east.history.azureml.ms", "https://east.tracking.azureml.ms"),
        (GUIDE, None, "https://east.history.azureml.ms", "https://east.api.azureml.ms"),
        ({"api": "https://a/"}, None, "https://a", "https://a"),
        ({"history": "https://h"}, None, "https://h", "https://h"),
        ({}, TRACKING, "https://east.tracking.azureml.ms", "https://east.tracking.azureml.ms"),
        (
            {"api": None, "history": 5},
            TRACKING,
            "https://east.tracking.azureml.ms",
            "https://east.tracking.azureml.ms",
        ),
        ({"api": "http://a", "history": "https://"}, "azureml://[", None, None),
        ({}, "", None, None),
    ],
)
def test_the_host_of_a_service(
    discovered: dict[str, Any], tracking: Any, history: str | None, mlflow: str | None
) -> None:
    assert address_of("history", discovered, tracking) == history
    assert address_of("mlflow", discovered, tracking) == mlflow


class Http(AzureHttp):
    """Answers by address."""

    def __init__(self, answers: dict[str, Any]) -> None:
        workspace = WorkspaceId(subscription_id="s", resource_group="g", name="w")
        super().__init__(workspace, credential=None, session=None)  # type: ignore[arg-type]
        self.answers = {self.arm(""): answers.pop("workspace"), **answers}
        self.asked: list[str] = []

    def read(self, url: str, what: str, **_: Any) -> Any:
        self.asked.append(url)
        found = self.answers.get(url)
        return None if found is None else Answer(found, ServiceError)


def test_a_discovery_without_mlflow_is_enough() -> None:
    properties = {"discoveryUrl": "https://d", "mlFlowTrackingUri": TRACKING}
    http = Http({"workspace": {"properties": properties}, "https://d": GUIDE})
    assert http.mlflow("/runs/get").startswith("https://east.tracking.azureml.ms/mlflow/v2.0/subscriptions/s/")
    assert http.history("/runs/j").startswith("https://east.history.azureml.ms/history/v1.0/")
    assert http.metrics("/runs/j").startswith("https://east.history.azureml.ms/metric/v2.0/")
    assert http.asked.count("https://d") == 1


@pytest.mark.parametrize("found", [None, {}, {"api": "ftp://x"}])
@pytest.mark.parametrize("url", [{}, {"discoveryUrl": None}, {"discoveryUrl": "https://d"}])
def test_nothing_that_names_a_host_is_a_clear_error(found: Any, url: dict[str, Any]) -> None:
    http = Http({"workspace": {"properties": url}, "https://d": found})
    with pytest.raises(ServiceError, match=r"The workspace w names no host for (mlflow|history)") as caught:
        http.mlflow("/runs/get")
    assert "discoveryUrl and mlFlowTrackingUri" in (caught.value.hint or "")
    with_tracking = Http({"workspace": {"properties": {**url, "mlFlowTrackingUri": TRACKING}}, "https://d": found})
    assert with_tracking.history("").startswith("https://east.tracking.azureml.ms/")
