"""Gate decisions in jobs' tags, and the latest run of a branch that passed."""

from __future__ import annotations

import datetime
import json
from dataclasses import replace
from typing import Any

import pytest

from aml_train.core.git import Origin
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView
from aml_train.pipeline.branch_verdicts import (
    GateWord,
    Recorded,
    latest_passed,
    read_verdict,
    record_verdict,
    verdict_tag,
)
from tests.support.decisions import DECISIONS
from tests.support.fake_workspace import FakeService

ORIGIN = Origin(repository="github.com/o/r", configuration="aml-train.yml", branch="main", commit="a" * 40)
NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)


def service_with(*names: str, status: JobStatus = JobStatus.COMPLETED) -> FakeService:
    return FakeService(jobs={name: JobView(name=name, status=status) for name in names})


def record(service: FakeService, job: str, gate: GateWord, minute: int = 0, **changes: Any) -> None:
    now = NOON + datetime.timedelta(minutes=minute)
    record_verdict(service, service.jobs[job], replace(ORIGIN, **changes), DECISIONS[gate], now=now)


def latest(service: FakeService, branch: str = "main", **more: Any) -> str | None:
    found = latest_passed(service, Recorded(origin=ORIGIN), branch, **more)
    assert (found.view is None) == bool(found.why)
    return None if found.view is None else found.view.name


def test_the_latest_verdict_counts_and_not_the_latest_job() -> None:
    service = service_with("old", "new")
    record(service, "new", "passed", 1)
    record(service, "old", "passed", 2)
    assert latest(service) == "old"
    assert read_verdict(service.jobs["old"].tags, "main") is not None
    assert service.jobs["old"].tags["aml-train.gate"] == "passed"


def test_the_candidate_is_not_its_own_baseline() -> None:
    service = service_with("one", "two")
    record(service, "one", "passed")
    record(service, "two", "passed", 1)
    assert latest(service, besides="two") == "one"
    assert latest_passed(service_with(), Recorded(origin=ORIGIN), "main").why == (
        "no run of aml-train.yml in github.com/o/r on the branch main has passed"
    )


def test_the_same_verdict_once_more_is_not_later() -> None:
    service = service_with("one", "two")
    record(service, "one", "passed")
    record(service, "two", "passed", 1)
    before = service.jobs["one"].tags
    record(service, "one", "passed", 2)
    assert service.jobs["one"].tags == before
    assert latest(service) == "two"
    record(service, "one", "passed", 3, commit="b" * 40)
    assert latest(service) == "one"


@pytest.mark.parametrize(
    "value", ["passed", "[]", "{}", "null", '{"gate": "great"}', '{"gate": "passed"}', "[" * 9999]
)
def test_a_tag_that_somebody_changed_is_no_verdict(value: str) -> None:
    service = service_with("job")
    record(service, "job", "passed")
    service.tag("job", {"aml-train.verdict.main": value})
    assert latest(service) is None


def test_long_names_of_branches_have_tags_of_their_own() -> None:
    service, long = service_with("one", "two"), "feature/" + "x" * 200
    record(service, "one", "passed", branch=long)
    record(service, "two", "passed", 1, branch=f"{long}y")
    assert latest(service, long) == "one"
    assert latest(service, f"{long}y") == "two"
    assert max(len(tag) for tag in service.jobs["one"].tags) == 100


def test_the_value_tells_everything_that_it_stands_for() -> None:
    service = service_with("job")
    record(service, "job", "passed")
    assert json.loads(service.jobs["job"].tags["aml-train.verdict.main"]) == {
        "gate": "passed",
        "at": "2026-01-01T12:00:00.000+00:00",
        "commit": "a" * 40,
        "repository": "github.com/o/r",
        "configuration": "aml-train.yml",
        "against": "",
        "rules": [["m", ">= 0.5", 0.5, 0.5, "met"]],
    }


@pytest.mark.parametrize("branch", ["main", None])
def test_a_later_look_by_other_rules_leaves_the_verdict_of_the_run_with_its_rules(branch: str | None) -> None:
    service = service_with("job")
    record(service, "job", "passed", branch=branch)
    before = dict(service.jobs["job"].tags)
    by_run = {name: before[name] for name in ("aml-train.gate", "aml-train.gate-rules")}
    now = NOON + datetime.timedelta(minutes=1)
    origin = replace(ORIGIN, branch=branch)
    record_verdict(service, service.jobs["job"], origin, DECISIONS["passed"], now=now, later=True)
    assert service.jobs["job"].tags == before, "nothing else was found"
    record_verdict(service, service.jobs["job"], origin, DECISIONS["failed"], now=now, later=True)
    tags = service.jobs["job"].tags
    assert {name: tags[name] for name in by_run} == by_run
    added = json.loads(tags[f"aml-train.verdict.{branch or ''}"])
    assert (added["gate"], added["rules"]) == ("failed", [["m", ">= 0.5", 0.4, 0.5, "missed"]])


def test_a_later_look_at_a_job_without_a_verdict_gives_it_one() -> None:
    service = service_with("job")
    record_verdict(service, service.jobs["job"], None, DECISIONS["failed"], now=NOON, later=True)
    assert service.jobs["job"].tags["aml-train.gate"] == "failed"


def test_a_long_name_that_is_not_utf_8_has_a_tag() -> None:
    assert len(verdict_tag("\udcff" * 300)) == 100
    assert verdict_tag("\udcff" * 300) != verdict_tag("\udcfe" * 300)
