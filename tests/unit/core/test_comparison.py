"""Two sides, and what differs."""

from __future__ import annotations

import math

import pytest

from aml_train.cli.tables import comparison_table
from aml_train.core.comparison import Comparison, Side, metric_difference
from aml_train.gate.recompute import decide_data

A = "a" * 40
LEFT = Side(
    title="the job new",
    job="new",
    status="Completed",
    seconds=62,
    metrics={"acc": 0.97, "only": 1.0},
    data={"train": "digits:7"},
    digest="sha256:" + "1" * 64,
    commit=A + "-dirty",
    parameters={"epochs": "3", "rate": "0.1"},
)
RIGHT = Side(
    title="digits version 3 (stage production)",
    job="old",
    status="Completed",
    seconds=61,
    model="digits",
    version="3",
    metrics={"acc": 0.95},
    data={"train": "digits:6"},
    digest="sha256:" + "1" * 64,
    commit="b" * 40,
    parameters={"epochs": "2", "rate": "0.1"},
)


def test_the_table_shows_what_differs_and_by_how_much() -> None:
    head = ("", "this job", "baseline", "difference")
    assert list(comparison_table(Comparison(left=LEFT, right=RIGHT), head=head)) == [
        "            this job             baseline             difference",
        "job         new                  old",
        "status      Completed            Completed            same",
        "ran for     1 min 02 s           1 min 01 s           +1.0 s",
        "model                            digits:3",
        "commit      aaaaaaaaaaaa-dirty   bbbbbbbbbbbb",
        "image       sha256:111111111111  sha256:111111111111  same",
        "data train  digits:7             digits:6             differs",
        "epochs      3                    2                    differs",
        "acc                        0.97                 0.95  +0.02 (+2.11 %)",
        "only                          1",
    ]
    short = list(comparison_table(Comparison(left=LEFT, right=RIGHT), head=head, most=1))
    assert short[-1] == "and 1 more metrics"


@pytest.mark.parametrize(
    ("left", "right", "difference", "percent"),
    [
        (0.3, 0.1, 0.2, 200.0),
        (1.0, 0.0, 1.0, None),
        (math.nan, 1.0, None, None),
        (1.7e308, -1.7e308, None, 200.0),
        (1.0, None, None, None),
    ],
)
def test_differences_of_numbers(
    left: float | None, right: float | None, difference: float | None, percent: float | None
) -> None:
    found = metric_difference(left, right)
    assert (found.difference, found.percent) == (difference, pytest.approx(percent) if percent else percent)


def test_what_is_not_known_is_not_the_same() -> None:
    assert Comparison(left=LEFT, right=Side(title="a file")).different_data is None
    assert Comparison(left=LEFT, right=LEFT).different_data == ()
    nothing = Comparison(
        left=Side(title="x", metrics={"m": math.nan}), right=Side(title="y", metrics={"m": math.nan})
    )
    (row,) = nothing.rows()
    assert row.same
    assert not metric_difference(None, None).same


@pytest.mark.parametrize(
    ("left", "right", "policy", "verdict", "reason"),
    [
        ({"a": "d:1"}, {"a": "d:1"}, "warn", "met", "the data are those of the baseline B: a is d:1"),
        ({"a": "d:2"}, {"a": "d:1"}, "warn", "warned", "the data differ from those of the baseline B: a is d:2, and was d:1"),
        ({"a": "d:2"}, {"a": "d:1"}, "ignore", None, ""),
        ({"b": "d:1"}, {"a": "d:1"}, "fail", "missed", "a, which is d:1 there, is not read; b is d:1, which the baseline does not read"),
        ({}, {}, "warn", None, ""),
        ({"a": "d:1"}, None, "warn", "warned", "it is not known which data the baseline B has read"),
        (None, {"a": "d:1"}, "fail", "missed", "it is not known which data this job has read"),
        ({}, None, "warn", None, ""),
        ({"a": "azureml://datastores/s/paths/p"}, {"a": "azureml://datastores/s/paths/p"}, "fail", "met", "(a: the same place, whose contents are not known)"),
    ],
)  # fmt: skip
def test_the_rule_over_data(
    left: dict[str, str] | None, right: dict[str, str] | None, policy: str, verdict: str | None, reason: str
) -> None:
    this, other = Side(title="this job", data=left), Side(title="the baseline B", data=right)
    decision = decide_data(this, other, "", policy, "f.yml:3")  # type: ignore[arg-type]
    assert (decision and decision.verdict) == verdict
    if decision is not None:
        assert reason in decision.reason
        assert decision.where == "f.yml:3"


@pytest.mark.parametrize(
    ("left", "right", "reason"),
    [
        ("2 files, m", "2 files, m", "the data are those of the baseline B: a is azureml://datastores/s/paths/p"),
        ("2 files, n", "2 files, m", "a is azureml://datastores/s/paths/p, whose contents were others (2 files, n, and 2 files, m there)"),
        ("2 files, n", None, "the same place, whose contents are not known"),
    ],
)  # fmt: skip
def test_the_same_place_may_have_other_contents(left: str, right: str | None, reason: str) -> None:
    this, other = (
        Side(title=title, data={"a": "azureml://datastores/s/paths/p"}, contents={"a": text} if text else {})
        for title, text in (("this job", left), ("the baseline B", right))
    )
    compared = Comparison(left=this, right=other)
    differs = right is not None and left != right
    assert compared.different_data == (("a",) if differs else ())
    assert next(row for row in compared.rows() if row.kind == "data").same == (left == right)
    decision = decide_data(this, other, "", "fail", "f.yml:3")
    assert decision is not None
    assert (decision.verdict, reason in decision.reason) == ("missed" if differs else "met", True), decision.reason
