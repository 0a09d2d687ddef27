"""`aml-train jobs list`: results, order and width."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import pytest
from click.testing import CliRunner, Result

from aml_train.azure import browse
from aml_train.azure.browse import JobRow
from aml_train.azure.workspace import AzureRest
from aml_train.cli.jobs import _table
from aml_train.cli.main import cli
from aml_train.core.errors import ServiceError
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView

NOW = datetime.datetime(2026, 11, 21, 12, tzinfo=datetime.UTC)


def row(name: str, status: JobStatus = JobStatus.COMPLETED, **more: Any) -> JobRow:
    given: dict[str, Any] = {
        "type": "Command", "display_name": name, "experiment": "digits", "compute": "gpu", "created": "", "tags": {},
    }  # fmt: skip
    return JobRow(name=name, status=status, **{**given, **more})


ROWS = (
    row("c", created="2026-11-21T10:00:02Z"),
    row("b", JobStatus.RUNNING, created="2026-11-21T10:00:01Z", experiment="other"),
    row("a", JobStatus.QUEUED, created="2026-11-21T10:00:00Z", compute="cpu"),
)
METRICS: Mapping[str, Mapping[str, float]] = {
    "c": {"acc": 0.5, "loss": float("nan")},
    "b": {"acc": 0.75, "loss": 1.0},
}


class Rest:
    """A workspace whose jobs began two minutes before noon; *refused* are jobs whose results cannot be read."""

    def __init__(self, *refused: str) -> None:
        self.refused = refused
        self.asked: list[str] = []

    def details(self, name: str) -> JobView:
        self.asked.append(name)
        if name in self.refused:
            raise ServiceError("403")
        begun = NOW - datetime.timedelta(minutes=2)
        ended = None if name == "b" else begun + datetime.timedelta(seconds=30)
        return JobView(name=name, status=JobStatus.RUNNING, started=begun, ended=ended)

    def last_metrics(self, name: str) -> Mapping[str, float]:
        return METRICS[name]


def read(rest: Rest) -> list[JobRow]:
    return browse.read_results(cast(AzureRest, rest), ROWS, now=NOW)[0]


def test_durations_and_metrics_of_jobs_that_have_begun() -> None:
    rest = Rest()
    found = read(rest)
    assert [(one.name, one.seconds, dict(one.metrics)) for one in found[1:]] == [
        ("b", 120.0, {"acc": 0.75, "loss": 1.0}),
        ("a", None, {}),
    ]
    assert found[0].seconds == 30
    assert sorted(rest.asked) == ["b", "c"], "a waits, and has logged nothing"


def test_a_job_whose_results_cannot_be_read_is_listed_all_the_same() -> None:
    found, problem = browse.read_results(cast(AzureRest, Rest("c")), ROWS, now=NOW)
    assert [one.name for one in found] == ["c", "b", "a"]
    assert (found[0], problem) == (ROWS[0], ("403", 1))


@pytest.mark.parametrize(
    ("key", "reverse", "names"),
    [
        ("created", False, "cba"), ("created", True, "abc"),
        ("duration", False, "bca"), ("duration", True, "cba"),
        ("acc", False, "bca"), ("acc", True, "cba"),
        ("loss", False, "bca"), ("loss", True, "bca"),
    ],
)  # fmt: skip
def test_the_order(key: str, reverse: bool, names: str) -> None:
    rows = read(Rest())
    assert "".join(one.name for one in browse.sort_rows(rows, key, reverse=reverse)) == names


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_the_table_fits(width: int) -> None:
    rows = [
        replace(one, name=f"digits-4bd01f2c-{at}", metrics={"val/accuracy": 0.98123, "val/loss": 0.1}, seconds=62.0)
        for at, one in enumerate(ROWS)
    ]
    lines = list(_table(rows, (), width))
    assert max(map(len, lines)) <= width
    assert all("digits-4bd01f2c-" in line for line in lines[1:]), "names are never cut"
    assert ("COMPUTE" in lines[0]) == (width >= 120)
    if width == 80:
        assert lines[:2] == [
            "NAME               STATUS            RAN  CREATED           METRICS",
            "digits-4bd01f2c-0  Completed  1 min 02 s  2026-11-21 10:00  val/accuracy=0.9812…",
        ]
    assert list(_table(rows, ("val/loss",), None))[1].endswith("val/loss=0.1  digits      gpu      c")


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> Rest:
    rest = Rest()
    monkeypatch.setattr("aml_train.cli.jobs.open_workspace", lambda _: rest)
    monkeypatch.setattr("aml_train.api.workspace.list_jobs", lambda *_: iter(ROWS))
    return rest


def jobs_list(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["jobs", "list", *arguments], catch_exceptions=False)


def names(result: Result) -> list[str]:
    return [json.loads(line)["name"] for line in result.stdout.splitlines()]


def test_the_command_sorts_before_it_cuts(listed: Rest) -> None:
    assert names(jobs_list("--json", "--sort", "acc", "-n", "1")) == ["b"]
    assert names(jobs_list("--json", "-n", "1", "--reverse")) == ["a"]
    listed.asked.clear()
    assert names(jobs_list("--json", "-n", "1")) == ["c"]
    assert listed.asked == ["c"], "results of the others are not read"
    first = json.loads(jobs_list("--json").stdout.splitlines()[0])
    assert (first["seconds"], first["metrics"]) == (30, {"acc": 0.5, "loss": "NaN"})
