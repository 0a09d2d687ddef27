from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import pytest

from aml_train.config.job.model import Job
from aml_train.config.model import Config
from aml_train.config.sections.gate import BaselineConfig, GateRule
from aml_train.config.sections.model import ModelConfig
from aml_train.config.sections.targets import ClusterConfig, TargetConfig
from aml_train.config.sections.watch import WatchConfig
from aml_train.core.clock import Clock
from aml_train.core.errors import AmlTrainError, ImageError, ServiceError, TestsFailedError
from aml_train.core.events import (
    BaselineCompared,
    Event,
    ImageReady,
    JobSubmitted,
    Notice,
    RunFinished,
    StageFinished,
)
from aml_train.core.git import Origin
from aml_train.core.references import ImageRef
from aml_train.core.trust import PROTECTED, Trust, proposal
from aml_train.gate.rules import parse_rule
from aml_train.image.inputs import BaseImage
from aml_train.image.registry.client import Registry, RegistryLocation
from aml_train.image.spec import ImageSpec, Tested, TestRecord, TestSpec
from aml_train.jobs.attempts import next_name
from aml_train.jobs.identity import Identity
from aml_train.jobs.pace import Pace
from aml_train.jobs.spec import JobTemplate, TargetNames
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView
from aml_train.pipeline.branch_verdicts import Recorded
from aml_train.pipeline.context import RunContext
from aml_train.pipeline.plan import Plan, PlannedImage
from aml_train.pipeline.resolve import Commit
from aml_train.pipeline.result import Group, RunOptions, RunResult
from aml_train.pipeline.run import run as run_pipeline
from aml_train.testing.memory import MemoryService
from tests.support.fake_workspace import FakeClock, FakeService, lost

S = JobStatus
DIGEST = "sha256:" + "d" * 64
NAMES = TargetNames(
    target="local",
    description="a test",
    scope="local",
    registry_for_jobs="r.azurecr.io",
    registry_for_engine="localhost:1",
    compute="local",
)
SPEC = ImageSpec(
    base=BaseImage(reference=ImageRef.parse("python:3.11"), digest=DIGEST),
    platform="linux/amd64",
    repository="digits",
    dockerfile="FROM x\n",
    address="a" * 64,
)
TESTED = Tested(
    reference=ImageRef.parse(f"r.azurecr.io/digits@{DIGEST}"),
    digest=DIGEST,
    address="a" * 64,
    how="built",
    record=None,
    compressed_bytes=10,
)


def image_named(name: str, image: Tested = TESTED) -> Tested:
    """Return *image* for the name "", and another one for each other name."""
    if not name:
        return image
    digest = f"sha256:{hashlib.sha256(name.encode()).hexdigest()}"
    return replace(image, digest=digest, reference=ImageRef.parse(f"r.azurecr.io/digits-{name}@{digest}"))


@dataclass
class FakeTarget:
    """A registry that has the image, or fails with an error, and a workspace of the tests."""

    service: MemoryService
    image: Tested | AmlTrainError = TESTED
    pace: Pace = field(default_factory=Pace)
    compute: AmlTrainError | None = None
    ensured: list[ClusterConfig] = field(default_factory=list)

    def ensure_image(self, spec: ImageSpec, tests: TestSpec | None, *, force: bool, commit: str | None) -> Tested:
        if isinstance(self.image, AmlTrainError):
            raise self.image
        return image_named(spec.name, self.image)

    def ensure_compute(self, cluster: ClusterConfig, clock: Clock) -> None:
        if isinstance(self.compute, AmlTrainError):
            raise self.compute
        self.ensured.append(cluster)

    def registry(self, host: str) -> Registry | None:
        return None

    def find_image(self, spec: ImageSpec) -> Tested | None:
        return None if isinstance(self.image, AmlTrainError) else image_named(spec.name, self.image)

    def find_build(self, spec: ImageSpec, tests: TestSpec | None, known: Tested, digest: str) -> Tested | None:
        return None

    def image_registry(self) -> RegistryLocation:
        raise AssertionError("a run goes through ensure_image")


OURS = PlannedImage(spec=SPEC, tests=None)


def make_plan(rules: Mapping[str, Sequence[str]] | None = None, **changes: Any) -> Plan:
    gate = tuple(
        GateRule(metric=metric, rule=parse_rule(text), where="aml-train.yml:9")
        for metric, texts in (rules or {}).items()
        for text in texts
    )
    job = JobTemplate(
        document={"command": "python train.py", "type": "command"},
        directory=Path("/p"),
        code_digest="c",
        scope="local",
        stem="digits",
        tags={"aml-train.commit": "f" * 40},
    )
    config = Config(
        file=None,
        directory=Path("/p"),
        job=Job(document={}, directory=Path("/p"), file=Path("/p/job.yml"), code=None),
        image=None,
        tests=None,
        gate=gate,
        model=ModelConfig(name="digits", path="outputs/model", type="custom_model"),
        target=TargetConfig(name="local", kind="local", cluster=changes.pop("cluster", None)),
    )
    plan = Plan(
        config=config,
        images=(OURS,),
        job=job,
        names=NAMES,
        commit=Commit(sha="f" * 40, branch="main", dirty=False),
    )
    own = {name: changes.pop(name) for name in tuple(changes) if name in {one.name for one in fields(Plan)}}
    return configured(replace(plan, **own), **changes)


def configured(plan: Plan, **changes: Any) -> Plan:
    """Return *plan* with another configuration."""
    return replace(plan, config=replace(plan.config, **changes))


def run(
    plan: Plan,
    service: MemoryService,
    *,
    image: Tested | AmlTrainError = TESTED,
    clock: FakeClock | None = None,
    listener: Callable[[Event], None] | None = None,
    **options: Any,
) -> tuple[RunResult, list[Event]]:
    clock = clock or FakeClock()
    events: list[Event] = []

    def listen(event: Event) -> None:
        events.append(event)
        if listener:
            listener(event)

    context = RunContext(
        plan=plan,
        open_target=lambda: FakeTarget(service=service, image=image),
        options=RunOptions(**options),
        clock=Clock(now=clock.now, sleep=clock.sleep),
        emit=listen,
        prover=lambda _target: Recorded(origin=plan.origin),
    )
    return run_pipeline(context), events


def good_service(**changes: Any) -> FakeService:
    return FakeService(metrics={"acc": [0.5, 0.96]}, artifacts=["outputs/model/model.joblib"], **changes)


def test_a_commit_becomes_a_gated_registered_model() -> None:
    service = good_service()
    outcome, events = run(make_plan({"acc": [">= 0.95"]}), service)
    assert (outcome.status, outcome.exit_code) == ("passed", 0)
    (model,) = service.registered
    assert (model.name, model.version) == ("digits", "1")
    assert model.path == f"azureml://jobs/{service.submitted[0].name}/outputs/artifacts/paths/outputs/model"
    assert model.tags["aml-train.image-digest"] == DIGEST
    assert service.submitted[0].document["environment"] == {"image": f"r.azurecr.io/digits@{DIGEST}"}
    assert model.tags["aml-train.commit"] == "f" * 40
    assert model.tags["aml-train.job"] == service.submitted[0].name
    assert model.tags["aml-train.metric.acc"] == "0.96"
    assert [e.stage for e in events if isinstance(e, StageFinished)] == [
        "target",
        "submit",
        "watch",
        "gate",
        "register",
    ]
    assert isinstance(events[-1], RunFinished)
    assert events[-1].facts["model_version"] == "1"


@pytest.mark.parametrize("register", [True, False])
def test_the_build_of_a_proposed_commit_reads_only_secrets_of_the_workflow(
    monkeypatch: pytest.MonkeyPatch, *, register: bool
) -> None:
    specs: list[ImageSpec] = []

    def ensure(_target: FakeTarget, spec: ImageSpec, _tests: object, **_options: object) -> Tested:
        specs.append(spec)
        return TESTED

    monkeypatch.setattr(FakeTarget, "ensure_image", ensure)
    run(make_plan(), good_service(), register=register)
    assert [spec.is_proposed for spec in specs] == [not register]


def test_the_latest_of_many_attempts_is_found() -> None:
    service = good_service()
    for number in range(1, 12):
        service.looks = 0
        outcome, _ = run(make_plan(), service, fresh=True)
        assert outcome.job is not None
        assert outcome.job.name.endswith(f"-{number}")
    attached, _ = run(make_plan(), service)
    assert attached.job is not None
    assert attached.job.name == service.submitted[-1].name


@pytest.mark.parametrize("end", [S.FAILED, S.CANCELED, S.NOT_RESPONDING])
def test_after_a_bad_end_the_next_run_makes_a_new_attempt(end: JobStatus) -> None:
    service = good_service(script=[S.RUNNING, end])
    first, _ = run(make_plan(), service)
    assert first.exit_code in (5, 7, 8)
    assert not service.registered
    service.script, service.looks = [S.COMPLETED], 0
    second, _ = run(make_plan(), service)
    assert second.exit_code == 0
    assert [job.name[-2:] for job in service.submitted] == ["-1", "-2"]


@pytest.mark.parametrize(("trust", "named"), [(PROTECTED, "ours"), (proposal(pull="8"), "theirs")])
def test_the_protected_branch_names_its_own_test_record_at_the_job_of_a_proposal(trust: Trust, named: str) -> None:
    def tested(key: str) -> Tested:
        numbers: dict[str, Any] = {"passed": 1, "failed": 0, "skipped": 0, "seconds": 1.0}
        record = TestRecord(digest=DIGEST, key=key, command="pytest", at="", commit=None, **numbers)
        return replace(TESTED, record=record)

    service = good_service()
    run(make_plan(trust=proposal(pull="7")), service, image=tested("theirs"), register=False)
    outcome, _ = run(make_plan(trust=trust), service, image=tested("ours"))
    assert outcome.attached
    view = service.find(service.submitted[0].name)
    assert view is not None
    assert view.tags["aml-train.tested"] == named
    assert [model.tags["aml-train.tested"] for model in service.registered] == [named]


@pytest.mark.parametrize("attach", [False, True])
def test_a_run_that_registers_nothing_gates_and_looks_for_the_model(*, attach: bool) -> None:
    service = good_service()
    if attach:
        run(make_plan(), service, wait=False)
    outcome, events = run(make_plan(), service, register=False, attach=attach)
    assert (outcome.status, outcome.model) == ("passed", None)
    assert not service.registered
    last = [event for event in events if isinstance(event, StageFinished)][-1]
    assert "written, and not registered" in last.summary

    service = replace(good_service(), artifacts=["outputs/other"])
    outcome, _ = run(make_plan(), service, register=False)
    assert (outcome.status, outcome.exit_code) == ("job-failed", 5)
    assert "wrote nothing at 'outputs/model'" in outcome.message


@pytest.mark.parametrize(
    ("error", "code"), [(ImageError("the disk is full"), 3), (TestsFailedError("2 tests failed"), 4)]
)
def test_nothing_is_submitted_when_the_image_or_its_tests_fail(error: AmlTrainError, code: int) -> None:
    service = good_service()
    outcome, _ = run(make_plan(), service, image=error)
    assert outcome.exit_code == code
    assert not service.submitted


def test_an_interrupt_leaves_the_job_where_that_is_wanted() -> None:
    service = good_service(script=[S.RUNNING])
    clock = FakeClock()

    def interrupt(now: float) -> None:
        if now > 3:
            raise KeyboardInterrupt

    clock.on_sleep = interrupt
    outcome, _ = run(make_plan(watch=WatchConfig(on_cancel="detach")), service, clock=clock)
    assert (outcome.status, outcome.exit_code, service.cancelled) == ("cancelled", 7, [])
    assert outcome.message.endswith("continues.")
    assert f"aml-train attach {service.submitted[0].name}" in str(outcome.hint)


def test_without_waiting_the_job_is_submitted_and_left() -> None:
    service = good_service()
    outcome, _ = run(make_plan({"acc": [">= 2"]}), service, wait=False)
    assert (outcome.status, outcome.exit_code) == ("submitted", 0)
    assert service.looks == 0


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize(("rule", "code"), [(">= 0.95", 0), (">= 0.99", 6)])
def test_a_job_that_was_submitted_is_gated_later_with_the_same_verdict(named: bool, rule: str, code: int) -> None:
    service = good_service()
    submitted, _ = run(make_plan(), service, wait=False)
    assert submitted.job is not None
    outcome, events = run(make_plan({"acc": [rule]}), service, attach=True, job=submitted.job.name if named else None)
    assert outcome.exit_code == code
    assert len(service.submitted) == 1
    assert [event.digest for event in events if isinstance(event, ImageReady)] == [DIGEST]
    assert [event.attached for event in events if isinstance(event, JobSubmitted)] == [True]
    assert [model.tags["aml-train.commit"] for model in service.registered] == ["f" * 40] * (code == 0)


@pytest.mark.parametrize(
    ("tags", "branch", "why"),
    [
        ({"aml-train.branch": "main"}, "main", None),
        ({"aml-train.branch": "pull/7"}, None, None),
        ({"aml-train.branch": "pull/7"}, "main", "the job is one of pull/7, and not of main"),
        ({"aml-train.branch": ""}, "main", "the job's tags do not say that it is a job of main"),
        ({"aml-train.branch": "main", "aml-train.commit": "f" * 40 + "-dirty"}, "main", "with changes that are in no commit"),
        ({"aml-train.branch": "main", "aml-train.repository": "github.com/fork/r"}, "main", "one of github.com/fork/r"),
    ],
)  # fmt: skip
def test_a_named_job_of_another_branch_is_gated_and_not_registered(
    tags: dict[str, str], branch: str | None, why: str | None
) -> None:
    service = good_service()
    plan = replace(make_plan(), origin=ORIGIN)
    run(plan, service, register=False)
    job = service.submitted[0]
    service.tag(job.name, {"aml-train.commit": "f" * 40, "aml-train.repository": ORIGIN.repository, **tags})
    outcome, events = run(plan, service, attach=True, job=job.name, branch=branch)
    assert outcome.status == "passed"
    assert (outcome.model is None) is (why is not None)
    (summary,) = [event.summary for event in events if isinstance(event, StageFinished) and event.stage == "register"]
    assert why is None or why in summary


def grouped_job(service: FakeService, name: str, group: str, sequence: str, status: S = S.RUNNING) -> None:
    tags = {"aml-train.group": group, "aml-train.sequence": sequence}
    service.jobs[name] = JobView(name=name, status=status, tags=tags)


def test_older_runs_of_the_group_are_superseded_and_nobody_else() -> None:
    service = good_service()
    grouped_job(service, "digits-older-1", "octo/digits#7", "41")
    grouped_job(service, "digits-newer-1", "octo/digits#7", "43")
    grouped_job(service, "digits-ended-1", "octo/digits#7", "40", S.FAILED)
    grouped_job(service, "digits-other-1", "octo/digits#8", "41")
    grouped_job(service, "faces-older-1", "octo/digits#7", "41")
    for number, odd in enumerate(("x", "\u00b2", "9" * 5000)):
        grouped_job(service, f"digits-odd-{number}", "octo/digits#7", odd)
    outcome, events = run(make_plan(), service, group=Group(name="octo/digits#7", sequence=42), supersede=True)
    assert outcome.exit_code == 0
    assert service.cancelled == ["digits-older-1"]
    assert any("Superseded" in event.text for event in events if isinstance(event, Notice))
    tags = service.submitted[0].document["tags"]
    assert (tags["aml-train.group"], tags["aml-train.sequence"]) == ("octo/digits#7", "42")


def test_a_foreign_job_of_the_same_name_is_never_attached_to() -> None:
    service = good_service()
    run(make_plan(), service)
    name = service.submitted[0].name
    service.identities[name] = Identity(parts={**service.identities[name].parts, "command": frozenset({"another"})})
    outcome, events = run(make_plan(), service)
    assert outcome.exit_code == 0
    assert [job.name for job in service.submitted] == [name, next_name(name)]
    (warning,) = [event.text for event in events if isinstance(event, Notice) and event.level == "warning"]
    assert f"The job {name} has the name of this run's job, and is not it: what differs is `command`." in warning


def test_an_image_alone_is_tested_and_no_job_is_submitted() -> None:
    service = FakeService()
    result, events = run(make_plan(), service, submit=False)
    assert (result.status, result.exit_code) == ("passed", 0)
    assert result.image == TESTED
    assert not service.jobs
    assert not any(isinstance(event, JobSubmitted) for event in events)
    failed, _ = run(make_plan(), service, image=TestsFailedError("1 failed"), submit=False)
    assert failed.exit_code == 4


def test_without_an_image_the_environment_is_given_and_said_to_be_untested() -> None:
    job = replace(make_plan().job, document={"command": "x", "environment": "azureml:sklearn:1"})
    service = good_service()
    run(make_plan(images=(), job=job), service)
    (submitted,) = service.submitted
    assert submitted.document["environment"] == "azureml:sklearn:1"
    assert submitted.document["tags"]["aml-train.tested"] == "given, not tested"


ORIGIN = Origin(repository="github.com/o/r", configuration="aml-train.yml", branch="main", commit="f" * 40)


def of_main(rules: Mapping[str, Sequence[str]] | None = None, epochs: int = 1, **changes: Any) -> Plan:
    """Return the plan of a run on main; other *epochs* are another job."""
    plan = make_plan(rules, **{"origin": ORIGIN, **changes})
    document = {**plan.job.document, "inputs": {"epochs": epochs}}
    return replace(plan, job=replace(plan.job, document=document))


def test_the_next_run_is_compared_with_the_last_one_of_main_that_passed() -> None:
    rules = {"acc": [">= 0.9", ">= baseline"]}
    baseline = BaselineConfig(branch="main", bootstrap=True, where="f.yml:3")
    service = good_service()
    first, _ = run(of_main(rules, 1, baseline=baseline), service)
    assert first.status == "passed"
    assert first.job is not None

    service.history_of[first.job.name] = service.metrics
    service.metrics, service.looks = {"acc": [0.95]}, 0
    worse, events = run(of_main(rules, 2, baseline=baseline), service)
    assert worse.status == "gate-failed"
    assert f"(that of the job {first.job.name} (branch main, verdict not proved), 0.96)" in worse.message
    compared = next(event for event in events if isinstance(event, BaselineCompared)).comparison
    assert (compared.right.job, compared.right.metrics) == (first.job.name, {"acc": 0.96})
    assert compared.left.metrics == {"acc": 0.95}
    assert worse.facts()["baseline"] == compared.right.facts()

    again, _ = run(of_main(rules, 2, baseline=baseline), service)
    assert again.status == "gate-failed", "a job that failed is not the baseline of the next run"
    assert service.jobs[str(again.facts()["job"])].tags["aml-train.gate"] == "failed"


def test_the_verdict_stands_although_the_tags_cannot_be_written() -> None:
    service = good_service(tag_answers=[lost("AzureML answered 503")])
    outcome, events = run(of_main({"acc": [">= 0.9"]}), service)
    assert outcome.status == "passed"
    warnings = [event.text for event in events if isinstance(event, Notice) and event.level == "warning"]
    assert "The verdict could not be written into the job's tags" in warnings[0]
    attached, _ = run(of_main({"acc": [">= 0.9"]}), service, attach=True)
    assert attached.status == "passed"
    assert "aml-train.verdict.main" in next(iter(service.jobs.values())).tags


def test_a_run_that_is_no_baseline_for_the_next_one_does_not_pass() -> None:
    rules = {"acc": [">= 0.9", ">= baseline"]}
    baseline = BaselineConfig(branch="main", bootstrap=True, where="f.yml:3")
    service = good_service(tag_answers=[lost("AzureML answered 503")])
    outcome, _ = run(of_main(rules, 1, baseline=baseline), service)
    assert (outcome.status, outcome.exit_code) == ("service-error", 8)
    assert "its verdict could not be written" in outcome.message
    (name,) = service.jobs
    assert "aml-train.verdict.main" not in service.jobs[name].tags

    again, _ = run(of_main(rules, 1, baseline=baseline), service)
    assert (again.status, len(service.submitted)) == ("passed", 1)
    service.history_of[name] = service.metrics
    service.metrics, service.looks = {"acc": [0.95]}, 0
    worse, _ = run(of_main(rules, 2, baseline=baseline), service)
    assert worse.status == "gate-failed"


@pytest.mark.parametrize(
    ("baseline", "origin", "answer"),
    [
        ({"branch": "main"}, ORIGIN, ServiceError("AzureML answered 403")),
        ({"branch": "other"}, ORIGIN, lost("AzureML answered 503")),
        ({"branch": "main"}, replace(ORIGIN, dirty=True), lost("AzureML answered 503")),
        ({"model": "digits", "stage": "production"}, replace(ORIGIN, branch=None), lost("AzureML answered 503")),
    ],
    ids=["refused", "of another branch", "of changed files", "of no branch"],
)
def test_a_run_passes_whose_verdict_may_not_or_need_not_be_written(
    baseline: dict[str, str], origin: Origin, answer: ServiceError
) -> None:
    service = good_service(tag_answers=[answer])
    config = BaselineConfig(**baseline, bootstrap=True, where="f.yml:3")  # type: ignore[arg-type]
    rules = {"acc": [">= 0.9", ">= baseline"]}
    outcome, events = run(of_main(rules, baseline=config, origin=origin), service)
    assert outcome.status == "passed"
    assert any("could not be written" in event.text for event in events if isinstance(event, Notice))


def test_a_named_job_is_of_the_branch_that_it_was_submitted_from() -> None:
    feature = replace(ORIGIN, branch="feature", commit="e" * 40)
    job = JobView(name="theirs", status=S.COMPLETED, tags=feature.tags())
    service = good_service(jobs={"theirs": job})
    outcome, _ = run(of_main({"acc": [">= 0.9"]}), service, attach=True, job="theirs")
    assert outcome.status == "passed"
    tags = service.jobs["theirs"].tags
    assert "aml-train.verdict.main" not in tags, "main has trained nothing here"
    assert '"commit":"' + "e" * 40 in tags["aml-train.verdict.feature"]


def test_labels_are_looked_up_before_anything_is_built() -> None:
    plan = make_plan()
    document = {**plan.job.document, "inputs": {"train": {"path": "azureml:digits@latest"}}}
    plan = replace(plan, job=replace(plan.job, document=document))
    outcome, events = run(plan, good_service())
    assert outcome.status == "invalid"
    assert [event.stage for event in events if isinstance(event, StageFinished)] == ["target"]
    service = good_service(latest={("data", "digits"): "4"})
    run(plan, service)
    (job,) = service.submitted
    assert job.document["inputs"]["train"]["path"] == "azureml:digits:4"
    assert job.document["tags"]["aml-train.data.train"] == "digits:4"
    later, _ = run(plan, replace(service, latest={("data", "digits"): "5"}), attach=True)
    assert later.message == "No job was submitted from this commit and configuration."
    assert "It may have been submitted with an earlier version of its data." in (later.hint or "")
