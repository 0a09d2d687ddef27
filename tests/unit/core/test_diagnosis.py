"""Running checks: order, prerequisites, time-outs, and whatever a check raises."""

from __future__ import annotations

import threading
from typing import NoReturn

import pytest

from aml_train.core.diagnosis import (
    Check,
    CheckResult,
    Diagnosis,
    Outcome,
    failed,
    misconfigured,
    ok,
    run_checks,
    skipped,
    warning,
)
from aml_train.core.errors import InvalidError, ServiceError


def check(name: str, outcome: Outcome, *needs: str) -> Check:
    return Check(name=name, run=lambda: outcome, needs=needs)


def test_results_come_in_the_order_of_the_checks() -> None:
    reported: list[str] = []
    first = threading.Event()

    def late() -> Outcome:
        first.wait(60)
        return ok("late")

    def early() -> Outcome:
        first.set()
        return ok("early")

    results = run_checks(
        (Check(name="a", run=late), Check(name="b", run=early)), lambda one: reported.append(one.name)
    )
    assert [one.name for one in results] == reported == ["a", "b"]


def test_what_needs_a_failure_is_skipped_and_names_it() -> None:
    results = run_checks(
        (
            check("a", failed("no", "mend it")),
            check("b", ok("never"), "a"),
            check("c", ok("never"), "b"),
            check("d", warning("doubt", "look")),
            check("e", ok("done"), "d"),
            check("f", skipped("does not apply")),
            check("g", ok("done"), "f"),
        )
    )
    found = {one.name: (one.outcome.status, one.outcome.found) for one in results}
    assert found["b"] == ("skipped", "skipped, because a failed")
    assert found["c"] == ("skipped", "skipped, because b failed")
    assert found["e"] == found["g"] == ("ok", "done")


@pytest.mark.parametrize(
    ("error", "found", "remedy", "code"),
    [
        (ServiceError("no answer\nat all", hint="wait"), "no answer at all", "wait", 8),
        (ServiceError("no", transient=True), "no", "https://azure.status.microsoft", 8),
        (InvalidError("wrong", hint="correct it"), "wrong", "correct it", 2),
        (KeyError("x"), "the check itself failed: KeyError: 'x'", "please report it", 1),
    ],
)
def test_whatever_a_check_raises_is_a_result(error: Exception, found: str, remedy: str, code: int) -> None:
    def run() -> NoReturn:
        raise error

    (result,) = run_checks((Check(name="a", run=run),))
    assert (result.outcome.status, result.outcome.found, result.outcome.exit_code) == ("failed", found, code)
    assert remedy in result.outcome.remedy


def test_a_check_has_a_time_out() -> None:
    release = threading.Event()

    def hang() -> Outcome:
        release.wait(60)
        return ok("late")

    (result,) = run_checks((Check(name="a", run=hang, seconds=0.01),))
    release.set()
    assert (result.outcome.status, result.outcome.found) == ("failed", "no result in 0.01 seconds")


@pytest.mark.parametrize(
    ("outcomes", "code", "summary"),
    [
        ((ok("x"), skipped("y")), 0, "All 2 checks are done."),
        ((ok("x"), warning("y", "z")), 0, "All 2 checks are done, with 1 warning."),
        ((failed("x", "y"), ok("z")), 8, "1 of 2 checks failed."),
        ((failed("x", "y"), misconfigured("x", "y"), warning("a", "b"), warning("a", "b")), 2, "2 of 4 checks failed, with 2 warnings."),
    ],
)  # fmt: skip
def test_the_exit_code_and_the_summary(outcomes: tuple[Outcome, ...], code: int, summary: str) -> None:
    results = tuple(CheckResult(name=str(number), outcome=one) for number, one in enumerate(outcomes))
    diagnosis = Diagnosis(target="azure", results=results)
    assert (diagnosis.exit_code, diagnosis.summary(), diagnosis.facts()["ok"]) == (code, summary, code == 0)
