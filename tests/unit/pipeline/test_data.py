"""What a run does with data that change, or that nobody can list."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from aml_train.config.sections.code import DataConfig
from aml_train.core.events import Notice
from aml_train.core.tags import Tag
from aml_train.jobs.data import recorded_data
from aml_train.jobs.states import JobStatus as S
from aml_train.pipeline.plan import Plan
from aml_train.pipeline.plan_values import render_plan
from aml_train.testing.memory import MemoryJob, MemoryService, Training
from tests.unit.pipeline.test_run import make_plan, run

PATH = "azureml://datastores/d/paths/images"


def plan_of(data: DataConfig | None = None) -> Plan:
    plan = make_plan(data_config=data or DataConfig(where="aml-train.yml:5"))
    inputs = {"images": {"type": "uri_folder", "path": PATH}}
    return replace(plan, job=replace(plan.job, document={**plan.job.document, "inputs": inputs}))


def service_of(change: dict[str, str] | None = None) -> MemoryService:
    """A workspace with data, to which a job adds *change* before it ends."""

    def training(job: MemoryJob) -> Iterator[None]:
        job.log_metric("acc", 0.9)
        job.write("outputs/model/a", b"x")
        service.data[PATH].update(change or {})
        yield

    service = MemoryService(training=training, any_compute=True)
    service.data[PATH] = {"a.png": "1", "b.png": "2"}
    return service


def said(events: Any) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice)]


def test_a_run_attaches_until_the_data_change() -> None:
    service = service_of()
    first, _ = run(plan_of(), service)
    assert run(plan_of(), service)[0].attached
    service.data[PATH]["a.png"] = "3"
    second, events = run(plan_of(), service)
    assert not second.attached
    assert first.job is not None
    assert f"Trains, as these differ from the last job, {first.job.name}: images: 1 file, e.g. a.png." in said(events)
    assert second.model is not None
    (identity,) = recorded_data(second.model.tags).values()
    assert (identity.files, identity.newest) == (2, "3")


@pytest.mark.parametrize("pin", ["warn", "strict"])
def test_data_that_change_during_the_job(pin: Any) -> None:
    service = service_of({"c.png": "4"})
    result, events = run(plan_of(DataConfig(pin=pin, where="aml-train.yml:5")), service)
    text = "images: 1 file, e.g. c.png"
    assert result.data_changed == result.facts()["data_changed"] == text
    assert f"The result is not reproducible: data changed after the job was submitted. {text}." in said(events)
    assert result.job is not None
    view = service.jobs[result.job.name]
    assert view.tags[Tag.DATA_CHANGED] == text
    if pin == "strict":
        assert (result.exit_code, result.status, result.model) == (6, "gate-failed", None)
        assert "`data.pin` is `strict` (aml-train.yml:5)" in result.message
        return
    assert result.model is not None
    assert result.model.tags[Tag.DATA_CHANGED] == text
    # Also for who names the job later.
    named, events = run(plan_of(), service, attach=True, job=view.name)
    assert named.data_changed == text


def test_data_that_changed_since_a_named_job_was_submitted() -> None:
    service = service_of()
    result, _ = run(plan_of(), service)
    assert result.job is not None
    options: Any = {"attach": True, "job": result.job.name}
    assert not run(plan_of(), service, **options)[0].data_changed
    service.data[PATH]["b.png"] = "9"
    later, _ = run(plan_of(DataConfig(pin="strict")), service, **options)
    assert (later.exit_code, later.data_changed) == (6, "images: 1 file, e.g. b.png")


def test_data_that_cannot_be_listed_again_are_not_known_to_have_changed() -> None:
    service = service_of()
    listed = service.data[PATH].copy()
    for pin, code in (("warn", 0), ("strict", 6), ("strict", 0)):
        service.data[PATH] = {**listed, pin: "1"}
        service.training = emptied(service) if code or pin == "warn" else service.training
        result, events = run(plan_of(DataConfig(pin=pin)), service)  # type: ignore[arg-type]
        assert (result.exit_code, result.data_changed) == (code, "")
        unknown = "Whether data changed after the job was submitted is not known: images (there is nothing at"
        assert any(text.startswith(unknown) for text in said(events)) == (not result.attached)


def emptied(service: MemoryService) -> Training:
    """A training after which the data cannot be listed."""

    def training(job: MemoryJob) -> Iterator[None]:
        job.log_metric("acc", 0.9)
        job.write("outputs/model/a", b"x")
        service.data[PATH] = {}
        yield

    return training


def test_a_strict_run_cancels_a_job_that_would_begin_with_other_data() -> None:
    service = service_of()
    submit = service.submit

    def change(*args: Any) -> Any:
        view = submit(*args)
        service.data[PATH]["c.png"] = "5"
        return view

    service.submit = change  # type: ignore[assignment,method-assign]
    result, _ = run(plan_of(DataConfig(pin="strict")), service)
    assert result.job is not None
    assert result.exit_code == 6
    assert service.jobs[result.job.name].status is S.CANCEL_REQUESTED


@pytest.mark.parametrize(
    ("unidentified", "register", "attached"),
    [(None, True, False), (None, False, True), ("retrain", False, False), ("allow", True, True)],
)
def test_data_that_nobody_can_list(unidentified: Any, *, register: bool, attached: bool) -> None:
    service = service_of()
    service.data[PATH] = {}
    plan = plan_of(DataConfig(unidentified=unidentified))
    first, events = run(plan, service, register=register)
    effect = "changes at their addresses go unnoticed (`data.unidentified: allow`)"
    if not attached:
        effect = "no completed job is attached to (`data.unidentified: retrain`)"
    assert f"Data are not identified: images (there is nothing at {PATH}): {effect}." in said(events)
    assert first.job is not None
    assert Tag.DATA_IDENTITY not in service.jobs[first.job.name].properties
    again, events = run(plan, service, register=register)
    assert again.attached == attached
    if not attached:
        assert f"Trains again after {first.job.name}, which is Completed: its data may be others." in said(events)


def test_data_that_nobody_can_list_may_fail_the_run() -> None:
    service = service_of()
    service.data[PATH] = {}
    result, _ = run(plan_of(DataConfig(unidentified="fail", where="aml-train.yml:5")), service)
    assert (result.exit_code, result.job, service.jobs) == (2, None, {})
    assert result.message.startswith("aml-train.yml:5: Data are not identified: images (there is nothing")


def test_the_plan_shows_what_the_data_are() -> None:
    plan = plan_of()
    job = replace(plan.job, local_digests={"inputs.local": "ab" * 32})
    assert "    local: on this machine, abababababababab\n" in render_plan(replace(plan, job=job, images=()))
