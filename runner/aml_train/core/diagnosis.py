"""Checks of an environment: what each found, and what mends it. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, Literal

from aml_train.core.errors import AmlTrainError, InvalidError, ServiceError
from aml_train.core.threads import in_background

Status = Literal["ok", "warning", "failed", "skipped"]
MARKS: Final = {"ok": "✓", "warning": "!", "failed": "✗", "skipped": "-"}

CHECK_SECONDS: Final = 45.0
"""Seconds that one check may take; a request has two attempts of ten seconds for the connection."""
_OUTAGE: Final = "Run again in some minutes; https://azure.status.microsoft reports outages."


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of a check.

    Attributes:
        status: ``failed`` keeps a run from its end, ``warning`` does not.
        found: the facts, in one line.
        remedy: the command, or what else mends it; empty if there is nothing to mend.
        exit_code: of a failure: 2 for this machine and its configuration, 8 for services.
    """

    status: Status
    found: str
    remedy: str = ""
    exit_code: int = ServiceError.exit_code


def ok(found: str) -> Outcome:
    """Return the result of a check that found everything in order."""
    return Outcome(status="ok", found=found)


def warning(found: str, remedy: str = "") -> Outcome:
    """Return the result of a check that found a doubt."""
    return Outcome(status="warning", found=found, remedy=remedy)


def failed(found: str, remedy: str) -> Outcome:
    """Return the result of a check that found a fault of a service."""
    return Outcome(status="failed", found=found, remedy=remedy)


def misconfigured(found: str, remedy: str) -> Outcome:
    """Return the result of a check that found a fault of machine or configuration."""
    return Outcome(status="failed", found=found, remedy=remedy, exit_code=InvalidError.exit_code)


def skipped(reason: str) -> Outcome:
    """Return the result of a check that does not apply."""
    return Outcome(status="skipped", found=reason)


@dataclass(frozen=True, kw_only=True)
class Check:
    """One check.

    Attributes:
        name: its name, which others need it by.
        run: does it; reads only.
        needs: names of checks before it in the list; without them it is skipped.
        seconds: how long it may take.
    """

    name: str
    run: Callable[[], Outcome]
    needs: tuple[str, ...] = ()
    seconds: float = CHECK_SECONDS


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """A check that is over.

    *blocked*: it was skipped because of another one.
    """

    name: str
    outcome: Outcome
    blocked: bool = False

    @property
    def blocks(self) -> bool:
        """Whether checks that need this one are skipped."""
        return self.blocked or self.outcome.status == "failed"

    def facts(self) -> dict[str, str]:
        """Return the result for JSON."""
        found = {"name": self.name, "status": self.outcome.status, "found": self.outcome.found}
        return {**found, "remedy": self.outcome.remedy} if self.outcome.remedy else found


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """All results, in the order of the checks."""

    target: str
    results: tuple[CheckResult, ...]

    @property
    def failures(self) -> tuple[CheckResult, ...]:
        """The checks that failed."""
        return tuple(one for one in self.results if one.outcome.status == "failed")

    @property
    def exit_code(self) -> int:
        """0, or 2 if this machine or its configuration has a fault, else 8."""
        return min((one.outcome.exit_code for one in self.failures), default=0)

    def summary(self) -> str:
        """Return the number of failures and warnings in one line."""
        count = len(self.failures)
        doubts = sum(one.outcome.status == "warning" for one in self.results)
        text = (
            f"{count} of {len(self.results)} checks failed" if count else f"All {len(self.results)} checks are done"
        )
        return f"{text}, with {doubts} {'warning' if doubts == 1 else 'warnings'}." if doubts else f"{text}."

    def facts(self) -> dict[str, Any]:
        """Return the diagnosis for JSON."""
        return {
            "target": self.target,
            "ok": not self.failures,
            "exit_code": self.exit_code,
            "checks": [one.facts() for one in self.results],
        }


def run_checks(
    checks: Sequence[Check], report: Callable[[CheckResult], object] = lambda _result: None
) -> tuple[CheckResult, ...]:
    """Run the checks in parallel, each after those that it needs.

    Args:
        checks: a check follows those that it needs.
        report: receives each result, in the order of the checks.
    """
    running: dict[str, Future[CheckResult]] = {}
    for check in checks:
        before = [running[name] for name in check.needs]
        running[check.name] = in_background(_following(check, before), f"check {check.name}")
    results = []
    for future in running.values():
        results.append(result := future.result())
        report(result)
    return tuple(results)


def _following(check: Check, before: Iterable[Future[CheckResult]]) -> Callable[[], CheckResult]:
    def run() -> CheckResult:
        blocking = next((one.name for one in [future.result() for future in before] if one.blocks), None)
        outcome = skipped(f"skipped, because {blocking} failed") if blocking is not None else _bounded(check)
        return CheckResult(name=check.name, outcome=outcome, blocked=blocking is not None)

    return run


def _bounded(check: Check) -> Outcome:
    """Run a check; whatever happens in it is a result."""
    try:
        return in_background(check.run, f"work of {check.name}").result(check.seconds)
    except TimeoutError:
        return failed(
            f"no result in {check.seconds:g} seconds", "Check the network, HTTPS_PROXY and NO_PROXY: docs/azure.md."
        )
    except AmlTrainError as error:
        if not isinstance(error, ServiceError):
            return misconfigured(_line(error.message), error.hint or "See docs/doctor.md.")
        return failed(_line(error.message), error.hint or (_OUTAGE if error.transient else "See docs/doctor.md."))
    except Exception as error:  # noqa: BLE001 - a fault of one check must not hide the results of the others
        return Outcome(
            status="failed",
            found=_line(f"the check itself failed: {type(error).__name__}: {error}"),
            remedy="This is a fault of aml-train: please report it.",
            exit_code=AmlTrainError.exit_code,
        )


def _line(text: str) -> str:
    return " ".join(text.split())
