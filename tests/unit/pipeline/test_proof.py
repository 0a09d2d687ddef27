"""The gate of a verdict, decided again from the metrics of its job; and what is sealed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from aml_train.config.sections.gate import GateRule
from aml_train.core.events import RuleVerdict, Verdict
from aml_train.gate.rules import parse_rule
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView
from aml_train.pipeline.branch_verdicts import BranchVerdict, Proof, latest_passed
from aml_train.pipeline.proof import fault_of_gate
from tests.support.fake_workspace import FakeService
from tests.unit.pipeline.test_branch_verdicts import ORIGIN, record, service_with

ABSOLUTE, RELATIVE = ">= 0.9", ">= baseline - 0.1"


def fault(rules: Sequence[str], recorded: Sequence[tuple[float | None, float | None, str]], **changes: Any) -> str:
    """Return the fault of a verdict on a job that logged 0.95, against one that logged 0.9."""
    service = FakeService(history_of={"job": {"acc": [0.5, 0.95]}, "before": {"acc": [0.9]}})
    verdict = BranchVerdict(
        **{
            "gate": "passed",
            "at": "2026-01-01T12:00:00+00:00",
            "commit": "a" * 40,
            "repository": "",
            "configuration": "aml-train.yml",
            "against": "before",
            "rules": tuple(
                RuleVerdict(metric="acc", rule=text, value=one, limit=other, verdict=cast(Verdict, word))
                for text, (one, other, word) in zip([*rules, ABSOLUTE], recorded, strict=False)
            ),
            **changes,
        }
    )
    given = [GateRule(metric="acc", rule=parse_rule(text), where="aml-train.yml:1") for text in rules]
    return fault_of_gate(service, "job", given, verdict)


@pytest.mark.parametrize(
    ("rules", "recorded", "said"),
    [
        ([ABSOLUTE], [(0.95, 0.9, "met")], ""),
        ([ABSOLUTE, RELATIVE], [(0.95, 0.9, "met"), (0.95, 0.8, "met")], ""),
        ([], [], ""),
        # A tag had no room for the values of every rule: those without a baseline are decided again all the same.
        ([ABSOLUTE, RELATIVE], [(0.95, 0.9, "met")], ""),
        ([">= 0.96"], [], "decided again, its gate is not met"),
        # Metrics that were edited, and values that never were.
        ([ABSOLUTE], [(0.99, 0.9, "met")], "the value was 0.99, and the job's metrics give 0.95"),
        ([">= 0.96"], [(0.97, 0.96, "met")], "decided again, its gate is not met"),
        ([RELATIVE], [(0.95, 0.1, "met")], "the limit was 0.1, and the metrics of before give 0.8"),
        ([RELATIVE], [(0.95, None, "met")], "it is recorded as met without value or limit"),
        # The first run of a branch had nothing to be compared with; its values are recorded all the same.
        ([RELATIVE], [(0.95, None, "skipped")], ""),
        ([RELATIVE], [(0.97, None, "skipped")], "the value was 0.97, and the job's metrics give 0.95"),
        # Its configuration has other rules.
        ([], [(0.95, 0.9, "met")], "1 rules are recorded, and its configuration has 0"),
        ([ABSOLUTE], [(0.95, 0.9, "skipped")], "it is recorded as passed, and its rules give skipped"),
        ([ABSOLUTE], [(0.95, 0.9, "missed")], "it is recorded as passed, and its rules give failed"),
    ],
)
def test_a_verdict_follows_from_rules_and_metrics(
    rules: Sequence[str], recorded: Sequence[tuple[float | None, float | None, str]], said: str
) -> None:
    word = "none" if not rules else "skipped" if "skipped" in str(recorded) and rules == [RELATIVE] else "passed"
    found = fault(rules, recorded, gate=word)
    assert said in found
    assert bool(said) == bool(found)


def test_a_verdict_by_other_rules_is_none_of_the_configuration() -> None:
    recorded = (RuleVerdict(metric="acc", rule=">= 0.5", value=0.95, limit=0.5, verdict="met"),)
    verdict = BranchVerdict(gate="passed", at="", commit="", repository="", configuration="", rules=recorded)
    given = [GateRule(metric="acc", rule=parse_rule(ABSOLUTE), where="aml-train.yml:1")]
    service = FakeService(history_of={"job": {"acc": [0.95]}})
    assert (
        fault_of_gate(service, "job", given, verdict)
        == "it is recorded for acc >= 0.5, and its configuration has acc >= 0.9"
    )


@dataclass(frozen=True, kw_only=True)
class Prover:
    """Proves the verdicts on jobs as told; by default none has a fault."""

    proofs: dict[str, Proof] = field(default_factory=dict)
    origin: Any = ORIGIN

    def prove(self, _service: Any, job: JobView, _branch: str, _verdict: BranchVerdict) -> Proof:
        return self.proofs.get(job.name, Proof())

    def fault_of_work(self, *_args: Any) -> str:
        return ""


@pytest.mark.parametrize(
    ("proofs", "job", "why", "doubted"),
    [
        ({}, "newest", "", False),
        ({"newest": Proof(fault="x")}, "older", "", False),
        ({"newest": Proof(fault="x"), "older": Proof(fault="y")}, None, "newest on the branch main does not count: x; 1 more do not count either", True),
        # The branch's own job was altered: an older, weaker one does not take its place.
        ({"newest": Proof(fault="x", altered=True)}, None, "newest on the branch main does not count: x", True),
        ({"older": Proof(fault="x", altered=True)}, "newest", "", False),
    ],
)  # fmt: skip
def test_the_newest_proved_verdict_counts(
    proofs: dict[str, Proof], job: str | None, why: str, *, doubted: bool
) -> None:
    service = service_with("older", "newest")
    record(service, "older", "passed", 1)
    record(service, "newest", "passed", 2)
    found = latest_passed(service, Prover(proofs=proofs), "main")
    assert (found.view.name if found.view else None, found.doubted) == (job, doubted)
    assert found.why.endswith(why)


def test_what_was_never_judged_is_not_doubted() -> None:
    service = FakeService(jobs={"job": JobView(name="job", status=JobStatus.COMPLETED)})
    found = latest_passed(service, Prover(), "main")
    assert (found.view, found.doubted) == (None, False)
