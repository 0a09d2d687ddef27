"""A run over the replicates of a job: submitted together, judged together, ended early."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from aml_train.config.sections.gate import BaselineConfig
from aml_train.config.sections.replicates import ReplicatesConfig
from aml_train.config.sections.watch import CostConfig, RetryConfig
from aml_train.core.events import Event, LogLines, Notice, ReplicateChanged
from aml_train.gate.history import MetricPoint
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView
from aml_train.pipeline.branch_verdicts import BranchVerdict
from aml_train.pipeline.plan import Plan
from aml_train.pipeline.proof import fault_of_replicates
from tests.support.fake_workspace import FakeClock, FakeService
from tests.unit.jobs.test_endings import PREEMPTED
from tests.unit.pipeline.test_run import DIGEST, make_plan, run

S = JobStatus
FIVE = (1, 2, 3, 4, 5)


@dataclass
class Seeds(FakeService):
    """Jobs log what *values* say for their seed, and walk through a script of their own."""

    values: Mapping[int, float] = field(default_factory=dict)
    scripts: Mapping[int, Sequence[JobStatus]] = field(default_factory=dict)
    watched: dict[str, int] = field(default_factory=dict)

    def seed(self, name: str) -> int:
        return next(int(job.document["inputs"]["seed"]) for job in self.submitted if job.name == name)

    def details(self, name: str) -> JobView:
        look = self.watched.get(name, 0)
        self.watched[name] = look + 1
        script = self.scripts.get(self.seed(name), (S.RUNNING, S.COMPLETED))
        if not self.jobs[name].status.final:
            self.jobs[name] = replace(self.jobs[name], status=script[min(look, len(script) - 1)])
        files = {"user_logs/std_log.txt": f"fake://{name}"} if self.log else {}
        return replace(self.jobs[name], log_files=files)

    def last_metrics(self, name: str) -> Mapping[str, float]:
        return {"acc": self.values[self.seed(name)]}

    def metric_history(self, name: str, metric: str) -> Sequence[MetricPoint]:
        return [MetricPoint(step=0, value=self.last_metrics(name)[metric], timestamp=0)]


def plan(*rules: str, seeds: Sequence[int] = FIVE, stop: Any = "end", **changes: Any) -> Plan:
    config = ReplicatesConfig(input="seed", values=tuple(seeds), stop=stop, where="aml-train.yml:3")
    made = make_plan({"acc": rules}, replicates=config, **changes)
    job = replace(made.job, document={**made.job.document, "inputs": {"seed": seeds[0]}})
    return replace(made, job=job)


def service(*values: float, **changes: Any) -> Seeds:
    return Seeds(
        values=dict(enumerate(values, 1)), artifacts=["outputs/model/model.joblib"], log=b"epoch 1\n", **changes
    )


def seeds_of(found: Seeds) -> list[int]:
    return [int(job.document["inputs"]["seed"]) for job in found.submitted]


def states(events: Sequence[Event]) -> list[str]:
    return [f"{one.replicate} {one.status}" for one in events if isinstance(one, ReplicateChanged)]


GOOD = (0.95, 0.96, 0.94, 0.97, 0.95)


def test_each_value_is_a_job_in_one_image_and_the_first_is_registered() -> None:
    found = service(*GOOD)
    outcome, events = run(plan(">= 0.9", "replicates mean >= 0.95"), found)
    assert (outcome.status, outcome.exit_code) == ("passed", 0)
    assert seeds_of(found) == list(FIVE)
    assert len({job.name for job in found.submitted}) == 5
    assert {job.document["tags"]["aml-train.image-digest"] for job in found.submitted} == {DIGEST}
    (model,) = found.registered
    assert model.tags["aml-train.job"] == found.submitted[0].name
    assert [one.metrics for one in outcome.replicates] == [{"acc": value} for value in GOOD]
    facts = outcome.facts()["replicates"]
    assert isinstance(facts, list)
    assert [one["replicate"] for one in facts] == [f"seed = {seed}" for seed in FIVE]
    assert "The job runs" not in str(outcome)
    assert sum(isinstance(one, LogLines) for one in events) == 1  # only the log of the first is shown
    assert outcome.gate is not None
    mean = outcome.gate.decision.rules[1]
    assert mean.value == pytest.approx(0.954)
    assert mean.rule == "replicates mean >= 0.95 over 5 replicates"


def test_a_rule_without_a_word_holds_for_each_replicate() -> None:
    outcome, _ = run(plan(">= 0.945"), service(*GOOD))
    assert outcome.exit_code == 6
    assert "seed = 3; met by 4 of 5 replicates" in outcome.message


def test_a_second_run_attaches_to_all_and_submits_nothing() -> None:
    found = service(*GOOD)
    run(plan(">= 0.9"), found)
    outcome, _ = run(plan(">= 0.9"), found)
    assert outcome.exit_code == 0
    assert outcome.attached
    assert len(found.submitted) == 5
    # A value more is one job more, and the value that the job was run with alone is attached to.
    run(plan(">= 0.9", seeds=(2, 1, 6)), replace(found, values={**found.values, 6: 0.95}))
    assert seeds_of(found) == [*FIVE, 6]


@pytest.mark.parametrize(("name", "code"), [(False, 0), (True, 0)])
def test_jobs_that_were_submitted_are_gated_later(*, name: bool, code: int) -> None:
    found = service(*GOOD)
    given = plan("replicates median >= 0.95")
    submitted, _ = run(given, found, wait=False)
    assert (submitted.status, len(found.submitted), found.watched) == ("submitted", 5, {})
    assert submitted.job is not None
    outcome, _ = run(given, found, attach=True, job=submitted.job.name if name else None)
    assert (outcome.exit_code, len(found.submitted)) == (code, 5)
    assert outcome.gate is not None
    assert outcome.gate.decision.rules[0].value == 0.95


def test_a_replicate_that_is_named_must_be_the_first_and_all_must_be_there() -> None:
    found = service(*GOOD)
    run(plan(">= 0.9"), found, wait=False)
    outcome, _ = run(plan(">= 0.9"), found, attach=True, job=found.submitted[2].name)
    assert (outcome.exit_code, found.submitted[0].name in str(outcome.hint)) == (2, True)
    outcome, _ = run(plan(">= 0.9", seeds=(1, 2, 9)), found, attach=True, job=found.submitted[0].name)
    assert outcome.exit_code == 8
    assert "seed = 9" in outcome.message


def test_a_replicate_that_fails_ends_the_run_and_cancels_the_others() -> None:
    running = (S.RUNNING,) * 200
    found = service(*GOOD, scripts={1: running, 2: running, 3: (S.RUNNING, S.FAILED), 4: running, 5: running})
    outcome, _ = run(plan(">= 0.9"), found)
    assert (outcome.status, outcome.exit_code) == ("job-failed", 5)
    assert "seed = 3" in outcome.message
    assert sorted(map(found.seed, found.cancelled)) == [1, 2, 4, 5]
    assert not found.registered


def test_an_interruption_cancels_all() -> None:
    found = service(*GOOD, scripts=dict.fromkeys(FIVE, (S.RUNNING,)))
    clock = FakeClock()

    def interrupt(now: float) -> None:
        if now > 3:
            clock.on_sleep = None
            raise KeyboardInterrupt

    clock.on_sleep = interrupt
    outcome, _ = run(plan(">= 0.9"), found, clock=clock)
    assert outcome.exit_code == 7
    assert sorted(set(map(found.seed, found.cancelled))) == list(FIVE)


def test_a_red_replicate_ends_early_and_a_slow_good_one_does_not_decide() -> None:
    slow = (S.RUNNING,) * 50 + (S.COMPLETED,)
    found = service(0.95, 0.5, 0.95, 0.95, 0.95, scripts={4: slow, 5: slow})
    outcome, events = run(plan(">= 0.9", "replicates mean >= 0.1", stop="early"), found)
    assert outcome.exit_code == 6
    assert sorted(map(found.seed, found.cancelled)) == [4, 5]
    assert any(isinstance(one, Notice) and "decided after 2 of 5" in one.text for one in events)
    assert "seed = 4 Canceled" in states(events)
    assert outcome.gate is not None
    assert [one.verdict for one in outcome.gate.decision.rules] == ["missed", "skipped"]
    again, _ = run(plan(">= 0.9", stop="early"), found)
    assert (again.exit_code, len(found.submitted)) == (6, 5)


def test_a_clear_win_over_the_replicates_of_the_baseline_ends_early_and_stays_decided() -> None:
    found = service(0.901, 0.902, 0.900, 0.899, 0.903)
    run(plan(">= 0.8"), found)
    better = dict(zip(FIVE, (0.951, 0.950, 0.949, 0.95, 0.95), strict=True))
    baseline = BaselineConfig(job=found.submitted[0].name, data="ignore", where="aml-train.yml:5")
    new = plan(">= baseline", stop="early", baseline=baseline)
    new = replace(new, job=replace(new.job, code_digest="other"))
    old = dict(found.values)

    def value(self: Seeds, name: str) -> Mapping[str, float]:
        place = [job.name for job in self.submitted].index(name)
        return {"acc": (old if place < 5 else better)[self.seed(name)]}

    class Both(Seeds):
        last_metrics = value

    both = Both(**{**vars(found), "scripts": {5: (S.RUNNING,) * 99}})
    outcome, _ = run(new, both)
    assert outcome.exit_code == 0, outcome.message
    assert outcome.gate is not None
    (rule,) = outcome.gate.decision.rules
    assert rule.reason.startswith("mean of acc over 3 replicates = 0.95, wanted >= 0.901 (that of the job")
    assert "5 replicates" in rule.reason
    assert "shown, after 3 of 5 replicates" in rule.reason
    assert both.cancelled
    count = len(both.submitted)
    again, _ = run(new, both)
    assert (again.exit_code, len(both.submitted)) == (0, count)
    assert again.gate is not None
    assert again.gate.decision.rules == (replace(rule, at=again.gate.decision.rules[0].at),)


@pytest.mark.parametrize(("most", "code"), [(1, 0), (0, 8)])
def test_a_preempted_replicate_is_submitted_again_as_often_as_is_allowed(most: int, code: int) -> None:
    class Preempted(Seeds):
        """The first attempt of the second replicate is preempted while the first still runs."""

        def details(self, name: str) -> JobView:
            if self.seed(name) == 2 and name.endswith("-1"):
                self.jobs[name] = replace(self.jobs[name], status=S.FAILED, error=PREEMPTED, codes=("UserError",))
            return super().details(name)

    found = Preempted(**vars(service(0.95, 0.95, scripts={1: (S.RUNNING,) * 30 + (S.COMPLETED,)})))
    outcome, _ = run(plan(">= 0.9", seeds=(1, 2), retry=RetryConfig(preempted=most)), found)
    assert outcome.exit_code == code, outcome.message
    assert [job.name[-2:] for job in found.submitted] == ["-1", "-1", "-2"][: 2 + most]
    assert outcome.replicates[-1].job == found.submitted[-1].name


def test_the_cost_of_all_is_bounded_together() -> None:
    import datetime

    start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)

    class Timed(Seeds):
        def details(self, name: str) -> JobView:
            observed = start + datetime.timedelta(minutes=20 * self.watched.get(name, 0))
            return replace(super().details(name), started=start, observed=observed)

    found = Timed(**vars(service(*GOOD, scripts=dict.fromkeys(FIVE, (S.RUNNING,)))))
    outcome, _ = run(plan(">= 0.9", cost=CostConfig(max_node_hours=3.0)), found)
    assert outcome.exit_code == 7
    assert "3 node hours" in outcome.message
    assert sorted(map(found.seed, found.cancelled)) == list(FIVE)
    assert outcome.cost is not None
    assert outcome.cost.node_hours < 6


def test_one_name_does_not_go_with_replicates() -> None:
    found = service(*GOOD)
    outcome, _ = run(plan(">= 0.9"), found, name="mine")
    assert (outcome.exit_code, found.submitted) == (2, [])


@pytest.mark.parametrize("seeds", [(1, 2, 3, 4, 5), (1, 3, 5), (1, 2, 3, 4, 5, 6)])
def test_the_baseline_of_a_model_is_what_its_gate_judged(seeds: Sequence[int]) -> None:
    """Its job may have been submitted with other replicates, or alone, and run again since."""
    found = service(*GOOD, 0.9)
    run(plan(">= 0.9", seeds=(1, 2, 3, 4, 5)), found)  # names five replicates in each job's properties
    found.registered.clear()
    run(plan(">= 0.9", seeds=seeds), found)
    run(
        plan(">= 0.1", seeds=seeds),
        replace(found, values=dict.fromkeys(range(1, 7), 0.2)),
        fresh=True,
        register=False,
    )
    baseline = BaselineConfig(model="digits", version="1", data="ignore", where="aml-train.yml:5")
    new = plan("replicates mean >= baseline", baseline=baseline)
    new = replace(new, job=replace(new.job, code_digest="other"))

    class First(Seeds):
        def last_metrics(self, name: str) -> Mapping[str, float]:
            return {"acc": 0.2} if name.endswith("-2") else super().last_metrics(name)

    outcome, _ = run(new, First(**vars(found)))
    assert outcome.gate is not None, outcome.message
    (rule,) = outcome.gate.decision.rules
    assert rule.limit == pytest.approx(sum(found.values[seed] for seed in seeds) / len(seeds)), rule.reason


def test_a_baseline_whose_replicates_were_altered_is_none() -> None:
    found = service(*GOOD)
    run(plan(">= 0.9", "replicates mean >= 0.9"), found)
    baseline = BaselineConfig(model="digits", version="1", data="ignore", where="aml-train.yml:5")
    new = plan(">= baseline - 10%", baseline=baseline)
    new = replace(new, job=replace(new.job, code_digest="other"))
    fourth = found.submitted[3].name

    class Altered(Seeds):
        def last_metrics(self, name: str) -> Mapping[str, float]:
            return {"acc": 0.91} if name == fourth else super().last_metrics(name)

    outcome, _ = run(new, Altered(**vars(found)))
    assert outcome.exit_code == 6
    assert (
        "was altered after its registration: acc >= 0.9: the value was 0.94, and the replicates give 0.91"
        in outcome.message
    )


def test_a_branchs_verdict_over_replicates_is_decided_again() -> None:
    found = service(*GOOD)
    given = plan("replicates mean >= 0.95", "replicates worst >= 0.9", stop="early")
    outcome, _ = run(given, found)
    assert outcome.gate is not None
    rules, config = outcome.gate.decision.rules, given.config
    members = {"at": "2026-01-31T00:00:00Z", "commit": "f" * 40, "repository": "", "configuration": "aml-train.yml"}
    verdict = BranchVerdict(gate="passed", rules=rules, **members)
    view = found.find(found.submitted[0].name)
    assert view is not None
    assert config.replicates is not None
    assert fault_of_replicates(found, view, config.gate, config.replicates, verdict) == ""
    worse = Seeds(**{**vars(found), "values": {**found.values, 4: 0.5}})
    fault = fault_of_replicates(worse, view, config.gate, config.replicates, verdict)
    assert "replicates mean >= 0.95 over 5 replicates is missed" in fault
    forged = replace(verdict, rules=rules[:1])
    assert "its gate is not met" in fault_of_replicates(
        worse, view, config.gate[1:], config.replicates, replace(forged, rules=())
    )
    alone = replace(view, properties={})
    assert "1 replicates" in fault_of_replicates(found, alone, config.gate, config.replicates, verdict)
