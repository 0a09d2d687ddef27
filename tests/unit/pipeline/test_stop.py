"""``watch.stop`` in whole runs: what is reported, what is cancelled, and what such a run ends with."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from aml_train.config.load import load_config
from aml_train.config.sections.watch import RetryConfig
from aml_train.core.errors import ServiceError
from aml_train.core.events import Event, Notice, RuleVerdict, StopFound
from aml_train.gate.history import MetricPoint
from aml_train.jobs.placement import NodeKind, Placement
from aml_train.pipeline.plan import Plan
from aml_train.pipeline.plan_values import plan_facts, render_plan
from aml_train.report.html import render_html
from aml_train.report.record import RunRecord, begun_report
from aml_train.report.values import decode, encode
from aml_train.testing.memory import MemoryJob, MemoryService
from tests.support.fake_workspace import FakeClock
from tests.unit.pipeline.test_run import make_plan, run

BEGAN = datetime.datetime(2031, 1, 1, tzinfo=datetime.UTC)
JOB = "job: {command: x, environment: 'azureml:e:1'}\n"


@dataclass
class Workspace(MemoryService):
    """A workspace whose calendar goes by the clock of the test; reading its metrics may fail.

    *metric_faults* are raised by the next readings, after *slow* seconds.
    """

    clock: FakeClock = field(default_factory=FakeClock)
    metric_faults: list[ServiceError] = field(default_factory=list)
    reads: int = 0
    slow: float = 0.0
    spot: bool = False
    cancels: int = 0
    cancel_faults: list[ServiceError] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.now = lambda: BEGAN + datetime.timedelta(seconds=self.clock.time)

    def metric_history(self, name: str, metric: str) -> list[MetricPoint]:
        self.reads += 1
        if self.metric_faults:
            self.clock.time += self.slow
            raise self.metric_faults.pop()
        return list(super().metric_history(name, metric))

    def node_kind(self, placement: Placement) -> NodeKind:
        return NodeKind(size="s", spot=self.spot)

    def cancel(self, name: str) -> bool:
        self.cancels += 1
        if self.cancel_faults:
            raise self.cancel_faults.pop()
        return super().cancel(name)


def training(
    service: Workspace,
    values: Mapping[str, list[float]],
    *,
    looks: int = 1,
    then: Callable[[MemoryJob], None] | None = None,
) -> Callable[[MemoryJob], Iterator[None]]:
    """Return a training that logs one value of each metric, and is looked at *looks* times after it."""

    def train(job: MemoryJob) -> Iterator[None]:
        for step in range(max(map(len, values.values()))):
            for metric, found in values.items():
                if step < len(found):
                    at = int(service.now().timestamp() * 1000)
                    job.metrics.setdefault(metric, []).append(MetricPoint(step=step, value=found[step], timestamp=at))
            job.say(f"step {step}")
            for _ in range(looks):
                yield
        if then is not None:
            then(job)
        job.write("outputs/model/model.txt", b"weights")

    return train


def plan_of(tmp_path: Path, text: str) -> Plan:
    (tmp_path / "aml-train.yml").write_text(JOB + text)
    config = load_config(None, directory=tmp_path)
    return make_plan(gate=config.gate, watch=config.watch, baseline=config.baseline)


def found_in(events: list[Event]) -> list[StopFound]:
    return [event for event in events if isinstance(event, StopFound)]


IMPOSSIBLE = "gate: {loss: [finite, '< 5']}\nwatch: {stop: {MODEgate: impossible}}\n"
LOST = {"loss": [1.0, math.nan, 0.5, 0.4, 0.3, 0.2]}


def test_what_would_have_been_stopped_is_reported_once_with_its_hours(tmp_path: Path) -> None:
    service = Workspace()
    service.training = training(service, LOST, looks=20)
    record = RunRecord(report=begun_report("t"))
    outcome, events = run(
        plan_of(tmp_path, IMPOSSIBLE.replace("MODE", "")), service, clock=service.clock, listener=record
    )
    assert (outcome.status, outcome.exit_code) == ("gate-failed", 6)
    assert service.cancels == 0
    first, last = found_in(events)
    assert (first.rule.metric, first.rule.rule, first.node_hours) == ("loss", "finite", None)
    assert first.rule.reason == "loss cannot meet finite any more: it is nan at step 1"
    assert first.rule.where.endswith("aml-train.yml:2")
    (job,) = service.jobs.values()
    assert job.ended is not None
    assert last.node_hours == pytest.approx((job.ended - BEGAN).total_seconds() / 3600 * 4 / 6, rel=0.5)
    assert outcome.stops == (last,)
    assert "'rule': 'loss finite'" in str(outcome.facts()["stops"])
    assert str(decode(encode(record.report), origin="here").stops) == str(record.report.stops) == str((last,))
    page = render_html(record.report).decode()
    assert "loss cannot meet finite any more" in page
    assert "only reported: the job went on for" in page


def test_a_job_that_cannot_pass_is_cancelled_and_its_gate_is_failed(tmp_path: Path) -> None:
    service = Workspace()
    service.training = training(service, LOST, looks=20)
    plan = plan_of(tmp_path, IMPOSSIBLE.replace("MODE", "mode: cancel, "))
    outcome, events = run(plan, service, clock=service.clock)
    assert (outcome.status, outcome.exit_code) == ("gate-failed", 6)
    assert "is Canceled: loss cannot meet finite any more: it is nan at step 1 (" in outcome.message
    (job,) = service.jobs.values()
    assert len(service.work[job.name].metrics["loss"]) == 2
    assert job.tags["aml-train.stopped"].startswith("loss finite: loss cannot")
    assert job.tags["aml-train.gate"] == "failed"
    assert [event.rule for event in events if isinstance(event, RuleVerdict)] == ["finite"]
    assert outcome.gate is not None
    assert len(outcome.gate.histories["loss"]) == 2
    assert outcome.logs is not None
    assert outcome.logs.tails[0].lines == ("step 0", "step 1")
    assert not service.registered
    # A later look at the job has the same verdict; the tag alone, on a job that completed, has none.
    later, _ = run(plan, service, clock=service.clock, attach=True)
    assert (later.exit_code, "loss cannot meet finite any more" in later.message) == (6, True)
    others, _ = run(plan_of(tmp_path, "gate: {loss: '< 5'}\n"), service, clock=service.clock, attach=True)
    assert (others.status, others.exit_code) == ("cancelled", 7)
    again, _ = run(plan, service, clock=service.clock)
    assert (again.attached, again.exit_code) == (False, 6)


def test_a_tag_decides_nothing_on_a_job_that_completed(tmp_path: Path) -> None:
    service = Workspace()
    service.training = training(service, {"loss": [1.0, 0.5]})
    plan = plan_of(tmp_path, IMPOSSIBLE.replace("MODE", "mode: cancel, "))
    assert run(plan, service, clock=service.clock)[0].exit_code == 0
    (job,) = service.jobs.values()
    service.tag(job.name, {"aml-train.stopped": "loss finite: forged"})
    assert run(plan, service, clock=service.clock, attach=True)[0].exit_code == 0


def test_a_job_that_completes_before_it_is_cancelled_is_gated(tmp_path: Path) -> None:
    service = Workspace(cancel_faults=[ServiceError("no")] * 99)
    service.training = training(service, {"loss": [1.0, math.inf, 0.5]}, looks=3)
    text = "gate: {loss: '< 5'}\nwatch: {stop: {mode: cancel, metrics: {loss: nan}}}\n"
    outcome, events = run(plan_of(tmp_path, text), service, clock=service.clock)
    assert outcome.exit_code == 0
    told = [event.text for event in events if isinstance(event, Notice) and "could not be cancelled" in event.text]
    assert len(told) == 1


@pytest.mark.parametrize("spot", [True, False])
def test_a_job_that_may_begin_anew_is_cancelled_for_no_rule_of_the_gate(tmp_path: Path, *, spot: bool) -> None:
    service = Workspace(spot=spot)
    service.training = training(service, LOST, looks=3)
    plan = plan_of(tmp_path, IMPOSSIBLE.replace("MODE", "mode: cancel, "))
    if not spot:
        plan = replace(plan, config=replace(plan.config, retry=RetryConfig(preempted=1)))
    outcome, events = run(plan, service, clock=service.clock)
    assert service.cancels == 0
    assert outcome.exit_code == 6
    assert any("a preemption would begin another attempt" in one.text for one in events if isinstance(one, Notice))


def test_the_job_of_another_run_is_not_cancelled(tmp_path: Path) -> None:
    service = Workspace()
    service.training = training(service, LOST, looks=3)
    plan = plan_of(tmp_path, IMPOSSIBLE.replace("MODE", "mode: cancel, "))
    run(plan, service, clock=service.clock, wait=False)
    outcome, events = run(plan, service, clock=service.clock, attach=True)
    assert (service.cancels, outcome.exit_code) == (0, 6)
    assert [one.cancels for one in found_in(events)] == [False, False]


def test_metrics_that_cannot_be_read_change_nothing_and_delay_little(tmp_path: Path) -> None:
    service = Workspace(metric_faults=[ServiceError("503")] * 3, slow=120.0)
    service.training = training(service, {"loss": [1.0] * 100}, looks=4)
    plan = plan_of(tmp_path, IMPOSSIBLE.replace("MODE", "mode: cancel, "))
    outcome, events = run(plan, service, clock=service.clock)
    assert (outcome.exit_code, service.metric_faults) == (0, [])
    told = [one.text for one in events if isinstance(one, Notice) and "cannot be read" in one.text]
    assert told == ["The job's metrics cannot be read, and `watch.stop` waits: 503"]
    assert service.clock.time > 10 * 3 * 120.0


def test_many_metrics_have_their_turn(tmp_path: Path) -> None:
    service = Workspace()
    metrics = {f"m{number}": [1.0] * 6 for number in range(20)} | {"m19": [1.0, 1.0, 1.0, math.nan, 1.0, 1.0]}
    service.training = training(service, metrics, looks=3)
    named = ", ".join(f"{name}: nan" for name in metrics)
    looks = 6 * 3
    _, events = run(plan_of(tmp_path, f"watch: {{stop: {{metrics: {{{named}}}}}}}\n"), service, clock=service.clock)
    assert [one.rule.metric for one in found_in(events)] == ["m19", "m19"]
    assert service.reads <= 8 * looks


def test_a_curve_is_compared_with_that_of_the_baseline(tmp_path: Path) -> None:
    service = Workspace()
    service.training = training(service, {"acc": [0.2, 0.4, 0.6, 0.95]})
    plan = plan_of(tmp_path, "gate: {acc: '>= 0.9'}\n")
    before = run(plan, service, clock=service.clock)[0].job
    assert before is not None
    service.training = training(service, {"acc": [0.2, 0.2, 0.3, 0.9]}, looks=3)
    stop = "watch: {stop: {metrics: {acc: {below-baseline: {at: step 2, margin: 20 %}}}}}\n"
    text = f"gate: {{acc: '>= 0.9'}}\nbaseline: {{job: {before.name}}}\n{stop}"
    outcome, events = run(plan_of(tmp_path, text), service, clock=service.clock, fresh=True)
    assert outcome.exit_code == 0
    assert "acc is 0.3 at step 2, where the baseline has 0.6" in found_in(events)[0].rule.reason
    service.jobs.pop(before.name)
    outcome, events = run(plan_of(tmp_path, text), service, clock=service.clock, fresh=True)
    assert not found_in(events)
    assert any("compares with nothing" in one.text for one in events if isinstance(one, Notice))


SILENCE = "watch: {stop: {mode: cancel, silence: 10m}}\n"


def hang(
    seconds: float, *, heartbeat: float = 0.0, ranks: int = 4
) -> Callable[[Workspace], Callable[[MemoryJob], Iterator[None]]]:
    """Return a training of several ranks that all fall silent, the third one first, for some time; perhaps its metrics go on."""

    def of(service: Workspace) -> Callable[[MemoryJob], Iterator[None]]:
        def train(job: MemoryJob) -> Iterator[None]:
            def say(rank: int) -> None:
                path = f"user_logs/std_log_process_{rank}.txt"
                job.logs[path] = job.logs.get(path, b"") + b"a line\n"

            for number in range(200):
                for rank in range(ranks):
                    if rank != 2 or number < 100:
                        say(rank)
                yield
            began = service.clock.time
            while service.clock.time < began + seconds:
                if heartbeat:
                    at = int(service.now().timestamp() * 1000)
                    if (
                        at - max((one.timestamp for one in job.metrics.get("alive", ())), default=0)
                        > heartbeat * 1000
                    ):
                        job.metrics.setdefault("alive", []).append(MetricPoint(step=0, value=1.0, timestamp=at))
                yield
            job.write("outputs/model/model.txt", b"weights")

        return train

    return of


@pytest.mark.parametrize(
    ("work", "code"),
    [
        (hang(1500), 6),
        (hang(500), 0),
        (hang(1500, heartbeat=300.0), 0),
    ],
    ids=["silent", "shortly", "heartbeat"],
)
def test_the_silence_of_a_job_is_found_and_its_rank_named(tmp_path: Path, work: Any, code: int) -> None:
    service = Workspace()
    service.training = work(service)
    outcome, _ = run(plan_of(tmp_path, SILENCE), service, clock=service.clock)
    assert outcome.exit_code == code
    if code:
        assert "no line in any log and no metric for 10" in outcome.message
        assert "rank 2 has been silent the longest" in outcome.message
        assert "user_logs/std_log_process_2.txt" in outcome.message
        (job,) = service.jobs.values()
        assert job.tags["aml-train.stopped"].startswith("job silence 600 s: ")
        assert run(plan_of(tmp_path, SILENCE), service, clock=service.clock, attach=True)[0].exit_code == 6


def test_a_machine_that_was_asleep_has_heard_no_silence(tmp_path: Path) -> None:
    service = Workspace()
    values = {"loss": [1.0] * 60}
    service.training = training(service, values)
    slept: list[bool] = []

    def sleep(_now: float) -> None:
        if not slept and service.clock.time > 5:
            slept.append(True)
            service.clock.time += 7200

    service.clock.on_sleep = sleep
    outcome, events = run(plan_of(tmp_path, SILENCE), service, clock=service.clock)
    assert (bool(slept), outcome.exit_code, found_in(events)) == (True, 0, [])


def test_logs_that_cannot_be_read_are_no_silence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = Workspace()
    service.training = hang(1500)(service)

    def fail(*_: object) -> Iterator[bytes]:
        raise ServiceError("503", transient=True)

    monkeypatch.setattr(service, "read_log", fail)
    outcome, events = run(plan_of(tmp_path, SILENCE), service, clock=service.clock)
    assert outcome.exit_code == 0
    assert any("its silence is not known" in one.text for one in events if isinstance(one, Notice))


def test_the_plan_names_the_rules(tmp_path: Path) -> None:
    text = (
        "gate: {loss: finite, val/loss: '< 1'}\n"
        "watch: {stop: {mode: cancel, gate: impossible, silence: 45m, metrics: {val/loss: {no-improvement: 20 steps}, loss: nan}}}\n"
    )
    plan = plan_of(tmp_path, text)
    facts = plan_facts(plan)["stop"]
    assert (facts["mode"], facts["gate"]) == ("cancel", "impossible")
    assert [(one["metric"], one["rule"]) for one in facts["rules"]] == [
        ("loss", "finite"),
        ("val/loss", "no-improvement 20 steps"),
        ("loss", "nan"),
        ("job", "silence 2700 s"),
    ]
    assert "no-improvement 20 steps" in render_plan(plan)
