"""Reports as JSON: what is written is read again, and nothing else is read."""

from __future__ import annotations

import datetime
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from aml_train.core.errors import InvalidError
from aml_train.report import values as report

NOW = datetime.datetime(2026, 11, 20, 12, 30, tzinfo=datetime.UTC)


def small(**fields: Any) -> report.Report:
    """Return a report with *fields*."""
    return report.Report(**{"title": "digits", "created": NOW, "status": "passed", **fields})


FULL = small(
    configuration="examples/digits/aml-train.yml",
    target="local",
    source=report.Source(repository="contoso/digits", commit="0" * 40, branch="main", pull_request=7),
    job=report.Job(name="digits-1", status="Completed", started=NOW, seconds=61.5),
    attempts=(report.Attempt(job="digits-1", attempt=1, status="Completed", ending="completed"),),
    gate="failed",
    rules=(
        report.Rule(metric="val/accuracy", rule=">= 0.9", verdict="missed", value="NaN", limit=0.9, reason="NaN"),
    ),
    baseline=report.Baseline(
        title="main", rows=(report.Difference(kind="metric", name="loss", left="1", right="2"),)
    ),
    metrics={"val/accuracy": "NaN", "loss": 0.25},
    curves=(
        report.Curve(
            metric="loss",
            series=(report.Series(title="digits-1", points=((1, 0.5), (2, 0.25))),),
            limits=(0.3,),
        ),
    ),
    tables=(report.Table(name="confusion", kind="matrix", head=("", "a"), rows=(("a", "1"),)),),
    images=(
        report.Image(
            reference="r.azurecr.io/digits@sha256:1",
            digest="sha256:1",
            changes=(report.PackageChange(name="torch", kind="python", before="2.5", after="2.6"),),
        ),
    ),
    tests=(
        report.Tests(passed=3, failed=1, failures=(report.Failure(name="test_a", file="tests/test_a.py", line=3),)),
    ),
    checks=(report.Check(check="shell", level="info", what="bash"),),
    nodes=(report.Node(name="train", needs=("prepare",), status="Completed"),),
    trials=(report.Trial(name="t1", value=0.5, parameters={"lr": "0.1"}),),
    model=report.Model(name="digits", version="3", stage="production"),
    lineage=report.Step(
        kind="model",
        name="digits:3",
        state="verified",
        parts=(report.Step(kind="job", name="digits-1", state="verified"),),
    ),
    pictures=(report.Picture(name="roc.png", type="image/png", data=b"\x89PNG"),),
    cost=report.Cost(text="0.02 node hours", node_hours=0.02),
)


def test_a_report_is_read_as_it_was_written() -> None:
    assert report.decode(report.encode(FULL), origin="report.json") == FULL


def test_the_schema_accepts_what_is_written_and_refuses_other_fields() -> None:
    validator = Draft202012Validator(report.schema())
    written = json.loads(report.encode(FULL))
    assert list(validator.iter_errors(written)) == []
    assert list(validator.iter_errors({**written, "script": "<script>"}))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"format": 0}, "format"),
        ({"script": "<b>"}, "script"),
        ({"title": "x" * 1001}, "title"),
        ({"title": None}, "title"),
        ({"message": "x" * 20_001}, "message"),
        ({"gate": "met"}, "gate"),
        ({"exit_code": "0"}, "exit_code"),
        ({"metrics": {"loss": "0.5"}}, "metrics"),
        ({"source": {"pull_request": 0}}, "pull_request"),
        ({"rules": [{"metric": "a", "rule": "b", "verdict": "fine"}]}, "verdict"),
        ({"curves": [{"metric": "a", "series": [{"title": "b", "points": [[1, 2, 3]]}]}]}, "points"),
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
    large = msgspec.structs.replace(
        FULL, notices=("n" * 1000,) * 50, logs=(report.Log(origin="a", lines=("l" * 1000,) * 50),)
    )
    kept = report.decode(report.encode(large, most=60_000), origin="report.json")
    assert kept.left_out == ("pictures", "the ends of the logs")
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
