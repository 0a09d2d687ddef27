"""No false green: every state, series, rule and policy, with verdicts written by hand.

The gate's code is not used for them: each rule has a function next to it that says in plain Python what a person means by
it. The run must pass, and register a model, if and only if the job completed and no rule that counts is broken.
"""

from __future__ import annotations

import datetime
import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

import pytest

from aml_train.config.sections.gate import BaselineConfig, GateRule
from aml_train.core.errors import ServiceError
from aml_train.core.git import Origin
from aml_train.gate.rules import DataPolicy, Policies, Policy, parse_rule
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView, ModelView
from aml_train.pipeline.branch_verdicts import GateWord, record_verdict
from tests.support.decisions import DECISIONS
from tests.support.fake_workspace import FakeService, lost
from tests.unit.pipeline.test_run import make_plan, run

NAN, INF = math.nan, math.inf
S = JobStatus

Ending = tuple[tuple[JobStatus | Exception, ...], int]

#: How jobs continue, and the exit code without a gate.
ENDINGS: Final[dict[str, Ending]] = {
    "completed": ((S.QUEUED, S.RUNNING, S.COMPLETED), 0),
    "completed at once": ((S.COMPLETED,), 0),
    "through every state": ((*(state for state in S if not state.terminal), S.COMPLETED), 0),
    "an outage, then completed": ((S.RUNNING, lost(), lost(), S.COMPLETED), 0),
    "preempted, then completed": ((S.RUNNING, S.QUEUED, S.RUNNING, S.COMPLETED), 0),
    "failed": ((S.QUEUED, S.RUNNING, S.FAILED), 5),
    "failed before it ran": ((S.QUEUED, S.FAILED), 5),
    "cancelled": ((S.RUNNING, S.CANCEL_REQUESTED, S.CANCELED), 7),
}

#: What a job logs of `m`; None: nothing.
COURSES: Final[dict[str, Sequence[float] | None]] = {
    "good": [0.2, 0.6, 0.9],
    "falls": [0.9, 0.6, 0.2],
    "one": [0.5],
    "flat": [0.5, 0.5],
    "best in the middle": [0.1, 0.95, 0.4],
    "ends in NaN": [0.9, NAN],
    "starts with NaN": [NAN, 0.9],
    "infinite": [0.9, INF],
    "minus infinite": [-INF],
    "negative zero": [-0.0],
    "huge": [1.7e308, 1.7e308],
    "missing": None,
}

Meaning = Callable[[Sequence[float]], bool]


def clean(values: Sequence[float]) -> bool:
    return all(value == value for value in values)


def real(value: float) -> bool:
    return value == value and abs(value) != INF


#: Rule → what it means for values that are there.
RULES: Final[dict[str, Meaning]] = {
    ">= 0.9": lambda v: real(v[-1]) and v[-1] >= 0.9,
    "> 0.9": lambda v: real(v[-1]) and v[-1] > 0.9,
    "<= 0": lambda v: real(v[-1]) and v[-1] <= 0,
    "== 0": lambda v: v[-1] == 0,
    "first < 0.5": lambda v: real(v[0]) and v[0] < 0.5,
    "max > 0.9": lambda v: clean(v) and real(max(v)) and max(v) > 0.9,
    "best >= 0.9": lambda v: clean(v) and real(max(v)) and max(v) >= 0.9,
    "best <= 0.1": lambda v: clean(v) and real(min(v)) and min(v) <= 0.1,
    "min <= 0.1": lambda v: clean(v) and real(min(v)) and min(v) <= 0.1,
    "mean > 0.5": lambda v: all(map(real, v)) and sum(value / len(v) for value in v) > 0.5,
    "mean(2) >= 0.5": lambda v: len(v) >= 2 and all(map(real, v[-2:])) and v[-1] / 2 + v[-2] / 2 >= 0.5,
    "median <= 0.6": lambda v: all(map(real, v)) and sorted(v)[len(v) // 2] / 2 + sorted(v)[(len(v) - 1) // 2] / 2 <= 0.6,
    "p(100) >= 0.9": lambda v: clean(v) and real(max(v)) and max(v) >= 0.9,
    "p(0) >= 0.2": lambda v: clean(v) and real(min(v)) and min(v) >= 0.2,
    "steps >= 2": lambda v: len(v) >= 2,
    "count < 2": lambda v: len(v) < 2,
    "finite": lambda v: all(map(real, v)),
    "increasing": lambda v: all(map(real, v)) and len(v) > 1 and list(v) == sorted(v) and v[0] < v[-1],
    "decreasing": lambda v: all(map(real, v)) and len(v) > 1 and list(v) == sorted(v, reverse=True) and v[0] > v[-1],
    ">= metric(other)": lambda v: real(v[-1]) and v[-1] >= 0.5,
    "<= metric(other) - 20%": lambda v: real(v[-1]) and v[-1] <= 0.4,
    ">= metric(never)": lambda _: False,
    ">= baseline": lambda v: real(v[-1]) and v[-1] >= 0.6,
    ">= baseline - 0.1": lambda v: real(v[-1]) and v[-1] >= 0.5,
    "max <= baseline + 50%": lambda v: clean(v) and real(max(v)) and max(v) <= 0.9,
}  # fmt: skip
OTHER: Final = [0.1, 0.5]
SEVERITIES: Final[tuple[Literal["fail", "warn"], ...]] = ("fail", "warn")
MISSING: Final[tuple[Policy, ...]] = ("fail", "warn", "skip")
POLICIES: Final = [Policies(severity=one, missing=other) for one, other in itertools.product(SEVERITIES, MISSING)]


def judged(text: str, values: Sequence[float] | None, policies: Policies) -> bool:
    """Return whether a person would let the run pass."""
    if values is None or "never" in text or (text.startswith("mean(") and len(values) < 2):
        return policies.missing != "fail"
    return RULES[text](values) or policies.severity == "warn"


def baseline_file(folder: Path) -> BaselineConfig:
    file = folder / "baseline.json"
    if not file.exists():
        file.write_text('{"m": 0.6}')
    return BaselineConfig(file=file, where="aml-train.yml:1")


#: Ways to an ending that another one tries with the same rules.
SAME_END: Final = ("completed at once", "through every state", "preempted, then completed", "failed before it ran")


@pytest.mark.parametrize(
    "ending", [pytest.param(ending, marks=[pytest.mark.full] * (ending in SAME_END)) for ending in ENDINGS]
)
def test_what_passes_and_what_does_not(ending: str, tmp_path: Path) -> None:
    """For each ending: every course × rule × policy, one rule alone."""
    script, code = ENDINGS[ending]
    baseline = baseline_file(tmp_path)
    seen: Counter[int] = Counter()
    for (course, values), text, policies in itertools.product(COURSES.items(), RULES, POLICIES):
        metrics = {"other": OTHER, **({"m": values} if values is not None else {})}
        service = FakeService(script=script, metrics=metrics, artifacts=["outputs/model"])
        rule = GateRule(metric="m", rule=parse_rule(text), where="aml-train.yml:9", policies=policies)
        outcome, _ = run(make_plan(gate=(rule,), baseline=baseline), service)
        expected = code or (0 if judged(text, values, policies) else 6)
        case = f"{ending}, {course}, {text}, {policies}"
        assert outcome.exit_code == expected, f"{case}: {outcome.message}"
        assert len(service.registered) == (expected == 0), case
        seen[outcome.exit_code] += 1
    assert sum(seen.values()) == len(COURSES) * len(RULES) * len(POLICIES)
    assert min(seen[0], seen[6]) > 100 if code == 0 else list(seen) == [code]


#: Rarer endings, which are tried with a few rules.
RARE_ENDINGS: Final[dict[str, Ending]] = {
    "paused, then completed": ((S.RUNNING, S.PAUSED, S.RUNNING, S.COMPLETED), 0),
    "unknown, then completed": ((S.RUNNING, S.UNKNOWN, S.COMPLETED), 0),
    "lost": ((S.RUNNING, S.NOT_RESPONDING), 8),
    "not responding, then completed": ((S.RUNNING, S.NOT_RESPONDING, S.RUNNING, S.COMPLETED), 0),
    "not responding, then failed": ((S.RUNNING, S.NOT_RESPONDING, S.FAILED), 5),
    "not responding, then cancelled": ((S.RUNNING, S.NOT_RESPONDING, S.CANCELED), 7),
    "paused, then cancelled": ((S.RUNNING, S.PAUSED, S.CANCELED), 7),
    "unknown, then failed": ((S.RUNNING, S.UNKNOWN, S.FAILED), 5),
    "failed while it ended": ((S.RUNNING, S.FINALIZING, S.FAILED), 5),
    "cancelled before it ran": ((S.NOT_STARTED, S.CANCELED), 7),
    "an unknown word": ((S.RUNNING, ServiceError("AzureML reported the job status 'Asleep'")), 8),
    "an outage without end": ((S.RUNNING, lost()), 8),
}


@pytest.mark.parametrize("ending", RARE_ENDINGS)
def test_rarer_endings(ending: str, tmp_path: Path) -> None:
    script, code = RARE_ENDINGS[ending]
    baseline = baseline_file(tmp_path)
    rules = (">= 0.9", "finite", "count < 2", ">= baseline")
    for course, text, policies in itertools.product(("good", "falls", "ends in NaN", "missing"), rules, POLICIES):
        values = COURSES[course]
        metrics = {"m": values} if values is not None else {}
        service = FakeService(script=script, metrics=metrics, artifacts=["outputs/model"])
        rule = GateRule(metric="m", rule=parse_rule(text), where="aml-train.yml:9", policies=policies)
        outcome, _ = run(make_plan(gate=(rule,), baseline=baseline), service)
        expected = code or (0 if judged(text, values, policies) else 6)
        case = f"{ending}, {course}, {text}, {policies}: {outcome.message}"
        assert outcome.exit_code == expected, case
        assert len(service.registered) == (expected == 0), case


def test_of_two_rules_each_can_end_the_run(tmp_path: Path) -> None:
    baseline = baseline_file(tmp_path)
    for (first, second), (course, values) in itertools.product(itertools.combinations(RULES, 2), COURSES.items()):
        metrics = {"other": OTHER, **({"m": values} if values is not None else {})}
        # A job that is there already takes no thread that submits it.
        service = FakeService(
            jobs={"job": JobView(name="job", status=S.COMPLETED)}, metrics=metrics, artifacts=["outputs/model"]
        )
        outcome, _ = run(make_plan({"m": [first, second]}, baseline=baseline), service, attach=True, job="job")
        good = judged(first, values, Policies()) and judged(second, values, Policies())
        assert outcome.exit_code == (0 if good else 6), f"{course}, {first}, {second}: {outcome.message}"


Kind = Literal["none", "missing stage", "production", "its job is gone"]


@pytest.mark.parametrize("kind", ["none", "missing stage", "production", "its job is gone"])
@pytest.mark.parametrize("bootstrap", [False, True])
@pytest.mark.parametrize("policy", ["fail", "warn", "skip"])
@pytest.mark.parametrize("value", [0.7, 0.5])
def test_the_model_in_production_is_the_baseline(
    kind: Kind, bootstrap: bool, policy: Literal["fail", "warn", "skip"], value: float
) -> None:
    service = FakeService(metrics={"m": [value]}, artifacts=["outputs/model"])
    tags = {"aml-train.job": "old", "aml-train.metric.m": "0.6", "aml-train.stage": "production"}
    if kind != "none":
        if kind == "missing stage":
            del tags["aml-train.stage"]
        service.registered.append(ModelView(name="digits", version="1", path="azureml://x", tags=tags))
    if kind == "production":
        service.history_of["old"] = {"m": [0.9, 0.6]}
    rule = GateRule(
        metric="m", rule=parse_rule(">= baseline"), where="aml-train.yml:9", policies=Policies(no_baseline=policy)
    )
    baseline = BaselineConfig(model="digits", stage="production", bootstrap=bootstrap, where="aml-train.yml:3")
    before = len(service.registered)
    outcome, _ = run(make_plan(gate=(rule,), baseline=baseline), service)
    there = kind in ("production", "its job is gone")
    expected = (0 if value >= 0.6 else 6) if there else (0 if bootstrap or policy != "fail" else 6)
    assert outcome.exit_code == expected, outcome.message
    assert len(service.registered) - before == (expected == 0)
    if not there and expected == 6:
        assert not service.submitted, "hours of GPUs for a gate that nothing can meet"
        assert "`baseline.bootstrap: true` lets the first model pass" in (outcome.hint or "")


OURS: Final = Origin(repository="github.com/o/r", configuration="aml-train.yml", branch="main", commit="a" * 40)
NOON: Final = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)


@dataclass(frozen=True, kw_only=True)
class Past:
    """A past to compare with: a job `old` whose `m` is 0.6, and what is known of it.

    Attributes:
        config: what `baseline:` asks for.
        there: whether a person would compare with it.
        status: the job's; None where there is no such job.
        verdicts: what gates said of it, in their order: where, and what.
        model: tags of a model in production that it wrote; None for no model.
        unknown: whether it is not known any more which data it has read.
        brief: whether it is enough to try it with the same data.
    """

    config: BaselineConfig
    there: bool
    status: JobStatus | None = S.COMPLETED
    verdicts: Sequence[tuple[Origin, GateWord]] = ()
    model: Mapping[str, str] | None = None
    unknown: bool = False
    brief: bool = False

    def service(self, data: str | None, value: float) -> FakeService:
        """Return a workspace with this past, whose next job logs *value*; the old one has read *data*."""
        service = FakeService(script=(S.COMPLETED,), metrics={"m": [value]}, artifacts=["outputs/model"])
        tags = {"aml-train.data.train": data} if data is not None and not self.unknown else {}
        if self.status is not None:
            service.jobs["old"] = JobView(name="old", status=self.status, tags=tags)
            service.history_of["old"] = {"m": [0.9, 0.6]}
        for minute, (origin, gate) in enumerate(self.verdicts):
            now = NOON + datetime.timedelta(minutes=minute)
            record_verdict(service, service.jobs["old"], origin, DECISIONS[gate], now=now)
        if self.model is not None:
            model = {**tags, **self.model, "aml-train.job": "old", "aml-train.stage": "production"}
            service.registered.append(ModelView(name="digits", version="1", path="azureml://x", tags=model))
        return service


MAIN: Final = BaselineConfig(branch="main", where="aml-train.yml:3")
JOB: Final = BaselineConfig(job="old", where="aml-train.yml:3")
MODEL: Final = BaselineConfig(model="digits", stage="production", where="aml-train.yml:3")
KEPT: Final = {"aml-train.metric.m": "0.6"}
PASTS: Final[dict[str, Past]] = {
    "main has passed": Past(config=MAIN, there=True, verdicts=[(OURS, "passed")]),
    "main has no rules": Past(config=MAIN, there=True, verdicts=[(OURS, "none")]),
    "main has failed": Past(config=MAIN, there=False, verdicts=[(OURS, "failed")]),
    "main has failed and then passed": Past(config=MAIN, there=True, verdicts=[(OURS, "failed"), (OURS, "passed")]),
    "main has passed and then failed": Past(config=MAIN, there=False, verdicts=[(OURS, "passed"), (OURS, "failed")]),
    "a feature has passed": Past(config=MAIN, there=False, verdicts=[(replace(OURS, branch="feature"), "passed")]),
    "a pull request has passed": Past(
        config=MAIN, there=False, verdicts=[(replace(OURS, branch="pull/7"), "passed")]
    ),
    "a pull request fails what main has passed": Past(
        config=MAIN, there=True, verdicts=[(OURS, "passed"), (replace(OURS, branch="pull/7"), "failed")]
    ),
    "no branch has passed": Past(config=MAIN, there=False, verdicts=[(replace(OURS, branch=None), "passed")]),
    "changed files have passed": Past(config=MAIN, there=False, verdicts=[(replace(OURS, dirty=True), "passed")]),
    "a fork's main has passed": Past(
        config=MAIN, there=False, verdicts=[(replace(OURS, repository="github.com/x/r"), "passed")]
    ),
    "another configuration has passed": Past(
        config=MAIN, there=False, verdicts=[(replace(OURS, configuration="other.yml"), "passed")]
    ),
    "no one has run": Past(config=MAIN, there=False, status=None),
    **{
        f"main has passed, and its job is {status.value}": Past(
            config=MAIN, there=False, status=status, verdicts=[(OURS, "passed")], brief=True
        )
        for status in S
        if status is not S.COMPLETED
    },
    **{
        f"the job is {status.value}": Past(config=JOB, there=False, status=status, brief=True)
        for status in S
        if status is not S.COMPLETED
    },
    "the job has completed": Past(config=JOB, there=True),
    "there is no such job": Past(config=JOB, there=False, status=None),
    "a model": Past(config=MODEL, there=True, model=KEPT),
    "a model whose job is gone": Past(config=MODEL, there=True, model=KEPT, status=None),
    "a model whose job failed": Past(config=MODEL, there=True, model=KEPT, status=S.FAILED),
    "a model of which nothing else is known": Past(config=MODEL, there=True, model=KEPT, status=None, unknown=True),
    "there is no such model": Past(config=MODEL, there=False),
}
DATA_POLICIES: Final[tuple[DataPolicy, ...]] = ("warn", "fail", "ignore")


@pytest.mark.parametrize("bootstrap", [False, True])
@pytest.mark.parametrize("data_policy", DATA_POLICIES)
def test_what_is_a_baseline_and_what_different_data_do(data_policy: DataPolicy, *, bootstrap: bool) -> None:
    """For each past: data now × data then × policy without a baseline × value.

    Gating again comes to the same decision.
    """
    seen: Counter[int] = Counter()
    for (name, past), now, then in itertools.product(
        PASTS.items(), ("digits:1", "digits:2", None), ("digits:1", None)
    ):
        if past.brief and not now == then == "digits:1":
            continue
        for policy, value in itertools.product(MISSING, (0.7, 0.5)):
            known = past.there and not (past.unknown or (past.status is None and then is None))
            good = (value >= 0.6) if past.there else (bootstrap or policy != "fail")
            if data_policy == "fail":
                good = good and ((known and now == then) if past.there else bootstrap)
            rule = GateRule(
                metric="m",
                rule=parse_rule(">= baseline"),
                where="aml-train.yml:9",
                policies=Policies(no_baseline=policy),
            )
            plan = make_plan(
                gate=(rule,), baseline=replace(past.config, data=data_policy, bootstrap=bootstrap), origin=OURS
            )
            if now is not None:
                document = {**plan.job.document, "inputs": {"train": {"path": f"azureml:{now}"}}}
                plan = replace(plan, job=replace(plan.job, document=document))
            service = past.service(then, value)
            before = len(service.registered)
            outcome, _ = run(plan, service)
            case = (
                f"{name}, {now}, {then}, {policy}, {value}, {data_policy}, bootstrap {bootstrap}: {outcome.message}"
            )
            assert outcome.exit_code == (0 if good else 6), case
            assert len(service.registered) - before == good, case
            if service.submitted:
                again, _ = run(plan, service, attach=True)
                assert again.exit_code == outcome.exit_code, f"{case}, and then {again.message}"
                assert len(service.registered) - before == good, case
            seen[outcome.exit_code] += 1
    assert sum(seen.values()) == sum(1 if past.brief else 6 for past in PASTS.values()) * 6
    assert min(seen[0], seen[6]) > 30
