"""Lists of jobs, and what is told of one, from the service's own shapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from aml_train.azure.browse import JobFilter, describe_job, list_jobs, view_job
from aml_train.azure.http import AzureHttp
from aml_train.azure.names import WorkspaceId
from aml_train.azure.workspace import AzureRest
from aml_train.config.sections.code import SetupCommand
from aml_train.core.errors import InvalidError, ServiceError
from aml_train.core.tables import Table
from aml_train.gate.logged import LoggedSet
from aml_train.jobs.metrics import tables_of_job
from aml_train.jobs.setup import script
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView, Workspace
from tests.support.plain_answers import answered


def item(name: str, status: str = "Completed", **properties: Any) -> dict[str, Any]:
    shown = {"jobType": "Command", "status": status, "experimentName": "e", **properties}
    return {"name": name, "properties": shown, "systemData": {"createdAt": "2026-11-21T10:00:00.123+00:00"}}


class FakeRest:
    """A workspace with given jobs."""

    find_job = AzureHttp.find_job
    view_of = AzureRest.view_of
    hide_secrets = AzureRest.hide_secrets

    def tagged_jobs(self, _tag: str) -> Iterator[JobView]:
        return iter(())

    def __init__(self, *items: dict[str, Any]) -> None:
        self.jobs = items
        self.params: Mapping[str, str] = {}
        self.hidden: list[str] = []
        self.credential = SimpleNamespace(fetched=self.hidden.append)
        self.workspace = WorkspaceId(subscription_id="s", resource_group="g", name="w")

    def arm(self, path: str) -> str:
        return path

    def items(self, url: str, what: str, *, params: Mapping[str, str]) -> Iterator[Any]:
        self.params = params
        yield from map(answered, self.jobs)

    def read(self, url: str, what: str, *, params: Mapping[str, str]) -> Any:
        return next((answered(one) for one in self.jobs if url == f"/jobs/{one['name']}"), None)

    def details(self, name: str) -> JobView:
        return JobView(name=name, status=JobStatus.FAILED, error="it broke", log_files={"user_logs/b": "", "a": ""})

    def last_metrics(self, name: str) -> Mapping[str, float]:
        return {"loss": 0.5}

    def logged_parameters(self, name: str) -> Mapping[str, str]:
        return {"lr": "0.1"}


JOBS = (
    item("a-1", "Running", tags={"who": "me"}, displayName="Train big"),
    item("a-2", "Failed", tags={"who": "you"}, experimentName="other"),
    item("b-1", "Completed", computeId="/x/computes/gpu"),
)


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (JobFilter(), ["a-1", "a-2", "b-1"]),
        (JobFilter(statuses=frozenset({JobStatus.RUNNING, JobStatus.COMPLETED})), ["a-1", "b-1"]),
        (JobFilter(experiment="other"), ["a-2"]),
        (JobFilter(name="A-*"), ["a-1", "a-2"]),
        (JobFilter(name="*BIG"), ["a-1"]),
        (JobFilter(name="a"), []),
        (JobFilter(tags={"who": None}), ["a-1", "a-2"]),
        (JobFilter(tags={"who": "you"}), ["a-2"]),
    ],
)
def test_every_filter_must_hold(wanted: JobFilter, names: list[str]) -> None:
    rest = FakeRest(*JOBS)
    assert [row.name for row in list_jobs(cast(AzureRest, rest), wanted)] == names
    assert rest.params.get("tag") == (next(iter(wanted.tags)) if wanted.tags else None)


def test_a_job_is_told_without_what_is_empty_and_without_the_prologue() -> None:
    before = script([SetupCommand(command="pip list", where="aml-train.yml:2")], [], {})
    job = item(
        "j",
        "Failed",
        command=before + "python train.py",
        codeId="/w/codes/c/versions/1",
        environmentVariables={"OMP_NUM_THREADS": "2", "HF_TOKEN": "abc"},
        inputs={"n": {"value": "3"}, "d": {"uri": "azureml:d:1"}},
        outputs={"o": None},
        resources={"instanceCount": 2, "instanceType": None, "properties": {}},
    )
    told = describe_job(cast(AzureRest, FakeRest(job)), "j")
    assert told == {
        "name": "j",
        "status": "Failed",
        "error": "it broke",
        "display_name": "j",
        "experiment": "e",
        "created": "2026-11-21T10:00:00.123+00:00",
        "code": "c:1",
        "prepared": "data and setup of aml-train.yml",
        "command": "python train.py",
        "inputs": {"n": "3", "d": "azureml:d:1"},
        "outputs": {"o": None},
        "resources": {"instanceCount": 2},
        "environment_variables": {"OMP_NUM_THREADS": "2", "HF_TOKEN": "***"},
        "logged_parameters": {"lr": "0.1"},
        "metrics": {"loss": 0.5},
        "logs": ["a", "user_logs/b"],
    }


def test_a_node_of_a_pipeline_has_what_run_history_knows_of_it() -> None:
    rest = cast(AzureRest, FakeRest({"name": "n", "properties": None}))
    told = describe_job(rest, "n")
    logs = ["a", "user_logs/b"]
    assert told == {
        "name": "n",
        "status": "Failed",
        "error": "it broke",
        "logged_parameters": {"lr": "0.1"},
        "metrics": {"loss": 0.5},
        "logs": logs,
    }
    assert sorted(view_job(rest, "n").log_files) == logs


def test_tables_are_told_as_json_and_a_service_that_refuses_them_is_told() -> None:
    text = Table(name="note", kind="text", rows=(("fine",),))
    summary = Table(
        name="lr", kind="list", head=("values", "min", "max", "last"), rows=(("2", "1", "3", "1"),), note="n"
    )
    matrix = Table(name="cm", kind="matrix", head=("actual", "0"), rows=(("0", "7"),), total=30, columns=31)
    assert [one.facts() for one in (text, summary, matrix)] == [
        {"name": "note", "kind": "text", "value": "fine"},
        {"name": "lr", "kind": "list", "values": "2", "min": "1", "max": "3", "last": "1", "note": "n"},
        {
            "name": "cm",
            "kind": "matrix",
            "columns": ["actual", "0"],
            "rows": [["0", "7"]],
            "total_rows": 30,
            "total_columns": 31,
        },
    ]

    class Refusing(FakeRest):
        def logged(self, name: str, **_: Any) -> LoggedSet:
            raise ServiceError("403")

    told = tables_of_job(cast(Workspace, Refusing()), "a-1", {})
    assert told == ((), 0, "Tables and files that the job logged are not shown: 403")


def test_a_job_that_is_not_there_is_told() -> None:
    with pytest.raises(InvalidError, match=r"There is no job x in the workspace.\nSee: aml-train jobs list"):
        describe_job(cast(AzureRest, FakeRest()), "x")


def test_the_secrets_of_jobs_that_are_read_are_hidden() -> None:
    node = {"train": {"environment_variables": {"API_TOKEN": "of-a-node", "MODE": "fast"}}}
    rest = FakeRest(
        item("a", environmentVariables={"SERVICE_API_KEY": "of-a-job", "SIZE": "4"}),
        item("b", jobType="Pipeline", jobs=node),
    )
    list(list_jobs(cast("AzureRest", rest), JobFilter()))
    assert rest.hidden == ["of-a-job", "of-a-node"]
    describe_job(cast("AzureRest", rest), "a")
    assert rest.hidden[2:] == ["of-a-job"]
