"""`aml-train jobs list`: results, order and width."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import pytest
from click.testing import CliRunner, Result

from aml_train.azure import results
from aml_train.azure.browse import JobRow
from aml_train.azure.workspace import AzureRest
from aml_train.cli.jobs import _table
from aml_train.cli.main import cli
from aml_train.cli.options import ProjectOptions
from aml_train.cli.tables import Column, fitted_table
from aml_train.core.errors import InvalidError, ServiceError
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
    return results.read_results(cast(AzureRest, rest), ROWS, now=NOW)[0]


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
    found, problem = results.read_results(cast(AzureRest, Rest("c")), ROWS, now=NOW)
    assert [one.name for one in found] == ["c", "b", "a"]
    assert (found[0], problem) == (ROWS[0], ("403", 1))


@pytest.mark.parametrize(
    ("key", "reverse", "names"),
    [
        ("created", False, "cba"), ("created", True, "abc"),
        ("name", False, "abc"), ("name", True, "cba"),
        ("status", False, "cab"), ("experiment", False, "cab"), ("compute", False, "acb"),
        ("duration", False, "bca"), ("duration", True, "cba"),
        ("acc", False, "bca"), ("acc", True, "cba"),
        ("loss", False, "bca"), ("loss", True, "bca"),
    ],
)  # fmt: skip
def test_the_order(key: str, reverse: bool, names: str) -> None:
    rows = read(Rest())
    assert "".join(one.name for one in results.sort_rows(rows, key, reverse=reverse)) == names


def test_a_metric_that_no_job_logged_is_no_order() -> None:
    with pytest.raises(
        InvalidError, match=r"--sort accu: none of the jobs logged it(.|\n)*Metrics of these jobs are acc"
    ):
        results.sort_rows(read(Rest()), "accu")
    assert results.sort_rows([], "accu") == []


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


def test_a_narrow_terminal_keeps_two_columns_and_wide_characters_count() -> None:
    columns = (Column(title="A"), Column(title="B"), Column(title="C", least=4))
    assert list(fitted_table(columns, [("x" * 30, "y", "zzz")], 10)) == ["A" + " " * 31 + "B", "x" * 30 + "  y"]
    assert list(fitted_table(columns, [("a", "b", "画像画像")], 12)) == ["A  B  C", "a  b  画像…"]
    assert list(fitted_table(columns, [], 80)) == ["A  B"]


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> Rest:
    rest = Rest()
    monkeypatch.setattr(ProjectOptions, "open_workspace", lambda _: rest)
    monkeypatch.setattr("aml_train.azure.browse.list_jobs", lambda *_: iter(ROWS))
    return rest


def jobs_list(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["jobs", "list", *arguments], catch_exceptions=False)


def names(result: Result) -> list[str]:
    return [json.loads(line)["name"] for line in result.stdout.splitlines()]


def test_the_command_sorts_before_it_cuts(listed: Rest) -> None:
    assert names(jobs_list("--json", "--sort", "acc", "-n", "1")) == ["b"]
    assert names(jobs_list("--json", "--sort", "name", "-n", "2")) == ["a", "b"]
    assert names(jobs_list("--json", "-n", "1", "--reverse")) == ["a"]
    listed.asked.clear()
    assert names(jobs_list("--json", "-n", "1")) == ["c"]
    assert listed.asked == ["c"], "results of the others are not read"
    first = json.loads(jobs_list("--json").stdout.splitlines()[0])
    assert (first["seconds"], first["metrics"]) == (30, {"acc": 0.5, "loss": "NaN"})


@pytest.mark.parametrize("arguments", [("--metric", "acc", "--sort"), ("--sort", "--metric", "acc", "--reverse")])
def test_without_a_key_the_shown_metric_is_sorted_by(arguments: tuple[str, ...], listed: Rest) -> None:
    del listed
    by_name = names(jobs_list("--json", "--sort", "acc", *(["--reverse"] if "--reverse" in arguments else [])))
    assert names(jobs_list("--json", *arguments)) == by_name


@pytest.mark.parametrize("metrics", [(), ("--metric", "acc", "--metric", "loss")])
def test_without_a_key_one_metric_must_be_named(metrics: tuple[str, ...], listed: Rest) -> None:
    del listed
    refused = jobs_list("--sort", *metrics)
    assert refused.exit_code == 2
    assert "--sort without a key needs one --metric" in refused.output


def test_without_metrics_nothing_more_is_read(listed: Rest) -> None:
    assert jobs_list("--no-metrics").stdout.splitlines()[0].split() == [
        "NAME",
        "STATUS",
        "CREATED",
        "EXPERIMENT",
        "COMPUTE",
    ]
    assert listed.asked == []
    refused = jobs_list("--no-metrics", "--sort", "duration")
    assert refused.exit_code == 2
    assert "--sort duration and --no-metrics exclude each other" in refused.output


def test_what_could_not_be_read_is_a_note(listed: Rest) -> None:
    listed.refused = ("c",)
    result = jobs_list()
    assert result.stderr == "note: the results of 1 of the jobs could not be read: 403\n"
    assert "b     Running" in result.stdout
