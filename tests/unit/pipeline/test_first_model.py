"""`bootstrap` lets a first model pass, and no regression; what a gate says that judged nothing, or late values."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aml_train.config.sections.gate import BaselineConfig
from aml_train.core.events import Event, JobStatusChanged, Notice
from aml_train.gate.history import MetricPoint
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView, ModelView
from tests.support.fake_workspace import FakeService
from tests.unit.pipeline.test_run import configured, good_service, make_plan, run

PRODUCTION = BaselineConfig(model="digits", stage="production", bootstrap=True, where="aml-train.yml:3")
RULES = {"acc": [">= baseline"]}


def in_production(version: str = "1", accuracy: float = 0.99) -> ModelView:
    tags = {"aml-train.stage": "production", "aml-train.metric.acc": str(accuracy)}
    return ModelView(name="digits", version=version, path="azureml://x", tags=tags)


def emptying(service: FakeService, when: JobStatus) -> Callable[[Event], None]:
    """Return a listener that takes every model out of the workspace when the job has that status."""

    def listen(event: Event) -> None:
        if isinstance(event, JobStatusChanged) and event.status == when.value:
            service.registered.clear()

    return listen


def test_a_model_that_leaves_the_stage_while_the_job_runs_is_no_first_model() -> None:
    service = good_service(registered=[in_production()])
    outcome, _ = run(make_plan(RULES, baseline=PRODUCTION), service, listener=emptying(service, JobStatus.RUNNING))
    assert (outcome.status, outcome.exit_code) == ("gate-failed", 6)
    assert "digits version 1 (stage production) was the baseline when the run began" in outcome.message
    assert service.registered == []


def test_who_attaches_later_knows_what_the_baseline_was_at_the_submission() -> None:
    service = good_service(registered=[in_production()])
    plan = make_plan(RULES, baseline=PRODUCTION)
    submitted, _ = run(plan, service, wait=False)
    assert submitted.status == "submitted"
    service.registered.clear()
    for attach in (True, False):
        outcome, _ = run(plan, service, attach=attach)
        assert outcome.status == "gate-failed", attach
        assert "digits version 1 (stage production) was the baseline when the job was submitted" in outcome.message
    other, _ = run(configured(plan, baseline=replace(PRODUCTION, stage="staging")), service, attach=True)
    assert other.status == "passed", "nothing was in that stage"


def test_a_gate_whose_every_rule_was_skipped_is_not_called_met() -> None:
    service = good_service()
    outcome, _ = run(make_plan(RULES, baseline=PRODUCTION), service)
    assert outcome.message == "The job completed, and every rule of the gate was skipped: nothing was judged."
    assert outcome.facts()["gate"] == "skipped"
    (job,), (model,) = service.jobs.values(), service.registered
    assert job.tags["aml-train.gate"] == model.tags["aml-train.gate"] == "skipped"


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"acc": [">= 0.9", ">= baseline"]}, "The job completed and the gate is met (1 met, 1 skipped)."),
        ({"acc": [">= 0.9"]}, "The job completed and the gate is met."),
        (None, "The job completed and no gate was given."),
    ],
)
def test_what_is_said_of_a_gate(rules: Any, message: str) -> None:
    assert run(make_plan(rules, baseline=PRODUCTION), good_service())[0].message == message


END = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
MS = int(END.timestamp() * 1000)


def late_service(*seconds: float) -> FakeService:
    """Return a workspace with a completed job `job`, and values of `acc` so many seconds after its end."""
    job = JobView(name="job", status=JobStatus.COMPLETED, ended=END)
    points = [
        MetricPoint(step=step, value=0.9, timestamp=MS + int(after * 1000)) for step, after in enumerate(seconds)
    ]

    class Late(FakeService):
        def metric_history(self, name: str, metric: str) -> list[MetricPoint]:
            return points

    return Late(metrics={"acc": [0.9]}, artifacts=["outputs/model"], jobs={"job": job})


def test_values_that_were_written_after_the_end_are_reported() -> None:
    outcome, events = run(make_plan({"acc": [">= 0.5"]}), late_service(-5, 90), attach=True, job="job")
    assert outcome.status == "passed"
    notices = [event for event in events if isinstance(event, Notice) and event.level == "warning"]
    (notice,) = [one for one in notices if "after" in one.text]
    assert notice.text == (
        "acc has 1 value that was logged after the job's end, at step 1, 90 s after it; it counts for the gate."
    )


NO_MODEL = "The job completed and no gate was given. No model is registered: the configuration has no `model`."


@pytest.mark.parametrize(
    ("properties", "ending"),
    [
        ({}, " Not kept, as it was written outside outputs/: model.joblib (train.py:4)."),
        ({"aml-emulator.files-not-kept": ""}, ""),
        (
            {"aml-emulator.files-not-kept": "model.pt (3.1 MB)"},
            " Not kept, as it was written outside outputs/: model.pt (3.1 MB).",
        ),
    ],
)
def test_a_run_without_a_model_says_what_the_job_lost(
    tmp_path: Path, properties: dict[str, str], ending: str
) -> None:
    """The local AzureML knows the files; on Azure, the code tells those with literal names."""
    (tmp_path / "train.py").write_text(
        "import joblib\nmodel.to_csv('outputs/a.csv')\nopen('in.csv')\njoblib.dump(model, 'model.joblib')\n"
    )
    plan = configured(make_plan(), model=None)
    plan = configured(plan, job=replace(plan.config.job, code=tmp_path))
    service = good_service()

    def ending_so(event: Event) -> None:
        if isinstance(event, JobStatusChanged):
            (job,) = service.jobs.values()
            service.jobs[job.name] = replace(job, properties={**job.properties, **properties})

    assert run(plan, service, listener=ending_so)[0].message == NO_MODEL + ending
