"""Addresses that MLflow prints, and the pages that are shown instead."""

from __future__ import annotations

import pytest

from aml_train.core.events import Event, LogLines
from aml_train.jobs.logs.follow import JobPages
from aml_train.jobs.logs.report import JobLogs
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView
from tests.support.fake_workspace import FakeService

_SCOPE = "/subscriptions/s-1/resourceGroups/g/providers/Microsoft.MachineLearningServices/workspaces/w"
MLFLOW = f"https://eastus.api.azureml.ms/mlflow/v2.0{_SCOPE}/#/experiments/5553-aa"
STUDIO = f"https://ml.azure.com/runs/digits-1?wsid={_SCOPE}&tid=t"
LOCAL = JobPages(
    job="digits-1",
    url="http://127.0.0.1:7380/ui/runs/digits-1",
    experiment_url="http://127.0.0.1:7380/ui/?experiment=digits",
)
AZURE = JobPages(job="digits-1", url=STUDIO)


@pytest.mark.parametrize(
    ("pages", "text", "shown"),
    [
        (LOCAL, f"🏃 View run calm_bee at: {MLFLOW}/runs/digits-1", "🏃 View run calm_bee at: " + LOCAL.url),
        (LOCAL, f"🧪 View experiment at: {MLFLOW}", f"🧪 View experiment at: {LOCAL.experiment_url}"),
        (AZURE, f"🏃 View run calm_bee at: {MLFLOW}/runs/digits-1", f"🏃 View run calm_bee at: {STUDIO}"),
        (
            AZURE,
            f"🧪 View experiment at: {MLFLOW}",
            f"🧪 View experiment at: https://ml.azure.com/experiments/id/5553-aa?wsid={_SCOPE}&tid=t",
        ),
        # a child run has a separate page
        (AZURE, f"a\nat: {MLFLOW}/runs/child_2\nb", f"a\nat: {STUDIO.replace('digits-1', 'child_2')}\nb"),
        (LOCAL, f"at: {MLFLOW}/runs/child_2", "at: http://127.0.0.1:7380/ui/runs/child_2"),
        # the subscription may be masked
        (LOCAL, f"at: {MLFLOW.replace('s-1', '***')}/runs/digits-1", f"at: {LOCAL.url}"),
    ],
)
def test_an_address_that_mlflow_makes_becomes_that_of_a_page(pages: JobPages, text: str, shown: str) -> None:
    assert pages.link(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "🏃 View run x at: https://mlflow.example.com/#/experiments/1/runs/2",
        "🏃 View run x at: https://mlflow.example.com/mlflow/#/experiments/1/runs/2",
        f"at: {MLFLOW}/models/m-1",
        f"at: {MLFLOW}/runs/digits-1/artifacts",
        f"{MLFLOW.replace('/#/', '/')}",
    ],
)
def test_other_addresses_stay_as_they_are(text: str) -> None:
    assert LOCAL.link(text) == text


def test_the_logs_and_their_last_lines_name_the_page() -> None:
    service = FakeService(logs={"user_logs/std_log.txt": f"done\nat: {MLFLOW}/runs/digits-1\n".encode()})
    service.script = [JobStatus.COMPLETED]
    service.jobs["digits-1"] = JobView(name="digits-1", status=JobStatus.RUNNING)
    events: list[Event] = []
    logs = JobLogs(service, "digits-1", events.append, pages=LOCAL)
    logs.read(service.details("digits-1"), final=True)
    ended = logs.end()
    lines = [event.text for event in events if isinstance(event, LogLines)]
    assert "\n".join(lines) == f"done\nat: {LOCAL.url}"
    assert ended.tails[0].lines == ("done", f"at: {LOCAL.url}")
