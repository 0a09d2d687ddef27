"""Reports as JSON: what is written is read again, and nothing else is read."""

from __future__ import annotations

import datetime
import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aml_train.core.checks import Finding
from aml_train.core.comparison import Row
from aml_train.core.errors import InvalidError
from aml_train.core.events import (
    AttemptEnded,
    CostCounted,
    GraphNode,
    ImageReady,
    LogTail,
    RuleVerdict,
    TestFailure,
    TestsFinished,
)
from aml_train.core.tables import Table
from aml_train.models.lineage import LineageStep
from aml_train.report import values as report

NOW = datetime.datetime(2026, 11, 20, 12, 30, tzinfo=datetime.UTC)


def small(**fields: Any) -> report.Report:
    """Return a report with *fields*."""
    return report.Report(**{"title": "digits", "created": NOW, "status": "passed", **fields})


FULL = small(
    configuration="examples/digits/aml-train.yml",
    target="local",
    source=report.Source(repository="contoso/digits", commit="0" * 40, branch="main", pull_request=7),
    job=report.Job(name="digits-1", status="Completed", created=NOW, seconds=61.5),
    attempts=(AttemptEnded(job="digits-1", attempt=1, status="Completed", ending="completed"),),
    gate="failed",
    rules=(
        RuleVerdict(metric="val/accuracy", rule=">= 0.9", verdict="missed", value=math.inf, limit=0.9, reason="NaN"),
    ),
    baseline=report.Baseline(title="main", rows=(Row(kind="metric", name="loss", left="1", right="2"),)),
    metrics={"val/accuracy": -math.inf, "loss": 0.25},
    curves=(
        report.Curve(
            metric="loss",
            series=(report.Series(title="digits-1", role="job", points=((1, 0.5), (2, 0.25))),),
            limits=(0.3,),
        ),
    ),
    tables=(Table(name="confusion", kind="matrix", head=("", "a"), rows=(("a", "1"),)),),
    images=(ImageReady(reference="r.azurecr.io/digits@sha256:1", digest="sha256:1", address="a", how="built"),),
    package_changes=(Row(kind="package", name="pip:torch", left="2.6", right="2.5"),),
    tests=(
        TestsFinished(
            passed=3,
            failed=1,
            skipped=None,
            seconds=1.0,
            cached=False,
            failures=(TestFailure(name="test_a", file="tests/test_a.py", line=3, message=""),),
        ),
    ),
    checks=(Finding(check="shell", level="info", what="bash"),),
    nodes=(GraphNode(name="train", needs=("prepare",), status="Completed"),),
    trials=(report.Trial(name="t1", value=0.5, parameters={"lr": "0.1"}),),
    model=report.Model(name="digits", version="3", stage="production"),
    lineage=LineageStep(
        kind="model",
        name="digits:3",
        state="verified",
        parts=(LineageStep(kind="job", name="digits-1", state="verified"),),
    ),
    pictures=(report.Picture(name="roc.png", type="image/png", data=b"\x89PNG"),),
    cost=CostCounted(text="0.02 node hours", node_hours=0.02, gpu_hours=None, cost=None, currency=""),
)


def test_a_report_is_read_as_it_was_written() -> None:
    assert report.decode(report.encode(FULL), origin="report.json") == FULL


def test_numbers_that_are_not_finite_are_names() -> None:
    written = json.loads(report.encode(small(metrics={"a": math.nan, "b": math.inf})))
    assert written["metrics"] == {"a": "NaN", "b": "Infinity"}
    again = report.decode(json.dumps(written).encode(), origin="report.json")
    assert math.isnan(again.metrics["a"])


def test_members_of_a_later_version_are_ignored() -> None:
    written = {**json.loads(report.encode(small())), "script": "<b>"}
    assert report.decode(json.dumps(written).encode(), origin="report.json") == small()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"format": 0}, "format"),
        ({"title": None}, "title"),
        ({"gate": "met"}, "gate"),
        ({"exit_code": "zero"}, "exit_code"),
        ({"metrics": {"loss": "low"}}, "metrics"),
        ({"rules": [{"metric": "a", "rule": "b", "value": None, "limit": None, "verdict": "fine"}]}, "verdict"),
        ({"curves": [{"metric": "a", "series": [{"title": "b", "role": "job", "points": [[1, 2, 3]]}]}]}, "points"),
        ({"pictures": [{"name": "a", "type": "image/svg+xml", "data": ""}]}, "type"),
        ({"created": "yesterday"}, "created"),
    ],
)
def test_a_forged_report_is_refused(change: dict[str, Any], reason: str) -> None:
    forged = {**json.loads(report.encode(small())), **change}
    with pytest.raises(InvalidError, match=rf"artifact is no report of aml-train: .*{reason}"):
        report.decode(json.dumps(forged).encode(), origin="artifact")


def test_a_report_of_another_format_names_both_numbers() -> None:
    newer = json.dumps({"format": 2, "sections": []}).encode()
    with pytest.raises(InvalidError, match="its format is 2, and this version of aml-train reads 1"):
        report.decode(newer, origin="artifact")


def test_a_report_that_is_too_large_is_refused_unread() -> None:
    with pytest.raises(InvalidError, match="artifact has 101 bytes; a report has at most 100"):
        report.decode(b"[" * 101, origin="artifact", most=100)


def test_what_has_no_room_is_left_out_and_named() -> None:
    large = replace(
        FULL, notices=("n" * 1000,) * 50, logs=(LogTail(origin="a", rank="", size=9, lines=("l" * 1000,) * 50),)
    )
    kept = report.decode(report.encode(large, most=60_000), origin="report.json")
    assert kept.left_out == ("pictures", "logs")
    assert kept.notices == large.notices
    assert kept.logs == ()
    smaller = report.decode(report.encode(large, most=3_000), origin="report.json")
    assert smaller.rules == FULL.rules
    assert smaller.baseline == FULL.baseline
    assert "notices" in smaller.left_out


@given(st.integers(0, 2000), st.integers(2, 400))
def test_thinned_points_keep_their_ends(count: int, most: int) -> None:
    points = tuple((step, float(step)) for step in range(count))
    kept = report.thin(points, most)
    assert len(kept) == min(count, most)
    assert kept[:1] == points[:1]
    assert kept[-1:] == points[-1:]
    assert list(kept) == sorted(set(kept))
