"""The report of a job is read from a workspace, and says what it could not read."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from aml_train.comparison import Project, parse_reference
from aml_train.config.load import load_config
from aml_train.config.model import Config
from aml_train.core.clock import Clock
from aml_train.core.errors import AmlTrainError, InvalidError, ServiceError
from aml_train.core.git import Origin
from aml_train.core.masking import Masker
from aml_train.gate.history import MetricPoint
from aml_train.jobs.composed import ChildView, Objective
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView, StorageUnreachableError
from aml_train.pipeline.branch_verdicts import Recorded, latest_passed, record_verdict
from aml_train.pipeline.plan import origin_of
from aml_train.pipeline.project_name import folder_project
from aml_train.report import values
from aml_train.report.collect import collect_report
from aml_train.report.html import render_html
from aml_train.report.markdown import render_markdown
from aml_train.report.parts import picture_type
from aml_train.report.reader import ReportSources
from aml_train.testing.override import MemoryCatalogue
from tests.support.decisions import DECISIONS
from tests.support.fake_workspace import FakeClock
from tests.support.memory_graphs import GraphService
from tests.support.passport_world import JOB, PassportWorld, Shape

NOW = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
PNG = b"\x89PNG\r\n\x1a\n" + b"x" * 20
ORIGIN = Origin(repository="github.com/o/r", configuration="aml-train.yml", branch="main", commit="c0ffee")
FACTS = {
    "format": 1,
    "bash": None,
    "python": None,
    "python_packages": {"torch": "2.6"},
    "system_packages": {"bash": "5.2"},
}


def world(**shape: Any) -> PassportWorld:
    """A workspace with a job of three epochs, its model, its image with tests."""
    made = PassportWorld(
        shape=Shape(
            metrics={"accuracy": [0.8, 0.9, 0.95], "loss": [0.6, 0.4, 0.3], "seconds": [3.0]},
            facts=FACTS,
            tags={"aml-train.configuration": "aml-train.yml", "aml-train.gate": "passed"},
            artifacts={"confusion.png": PNG, "outputs/fake.png": b"no image", "notes.txt": b"n"},
            **shape,
        )
    )
    work = made.service.work[JOB]
    work.say("epoch 1\repoch 2\nsecret-of-mine")
    work.log_parameter("lr", "0.1")
    work.log_row("classes", name="cat", count=3)
    made.job = replace(made.job, kind="command", created=NOW, started=NOW, ended=NOW + datetime.timedelta(seconds=90))
    return made


def configuration(folder: Path, more: str = "") -> Config:
    """A configuration with a gate, and with *more* lines."""
    (folder / "job.yml").write_text(
        "command: python train.py\nenvironment: azureml:e:1\ncompute: azureml:cpu-cluster\n"
    )
    file = folder / "aml-train.yml"
    file.write_text(
        f"job: job.yml\ngate:\n  accuracy: '>= 0.9'\n  loss: 'min < 0.2'\nmodel:\n  name: digits\n  path: outputs/model\n{more}"
    )
    return load_config(file, directory=folder)  # fmt: skip


def sources(made: PassportWorld, config: Config | None = None, **more: Any) -> ReportSources:
    def project() -> Project:
        if config is None:
            raise InvalidError("There is no configuration here.")
        return Project(config=config, origin=ORIGIN)

    clock = FakeClock()
    return ReportSources(
        **{
            "service": made.service,
            "catalogue": made.catalogue,
            "registry": made.open,
            "project": project,
            "target": "azure",
            "clock": Clock(now=clock.now, sleep=clock.sleep),
            "now": lambda: NOW + datetime.timedelta(hours=1),
            **more,
        }
    )


def collected(made: PassportWorld, *jobs: str, config: Config | None = None, **more: Any) -> values.Report:
    baseline = more.pop("baseline", None)
    found = collect_report(
        sources(made, config, **more),
        [parse_reference(one) for one in jobs or (JOB,)],
        baseline=parse_reference(baseline) if baseline else None,
    )
    # Whatever was collected can be rendered in each form, and read again.
    assert values.decode(values.encode(found), origin="r").job == found.job
    render_html(found)
    render_markdown(found)
    return found


def gaps(found: values.Report) -> dict[str, str]:
    return {one.part: one.reason for one in found.missing}


def test_everything_that_is_known_is_read(tmp_path: Path) -> None:
    found = collected(world(), config=configuration(tmp_path))
    assert gaps(found) == {"pictures": "outputs/fake.png is no PNG, JPEG, GIF or WebP image"}
    assert found.status == "job"
    assert found.job is not None
    assert (found.job.name, found.job.status, found.job.seconds) == (JOB, "Completed", 90.0)
    assert found.source == values.Source(
        repository="github.com/o/r", commit="c0ffee", branch="main", run_url="https://github.com/o/r/actions/runs/1"
    )
    assert found.gate == "failed"
    assert [(rule.metric, rule.verdict, rule.value, rule.limit) for rule in found.rules] == [
        ("accuracy", "met", 0.95, 0.9),
        ("loss", "missed", 0.3, 0.2),
    ]
    assert [(one.metric, one.limits, len(one.series[0].points)) for one in found.curves] == [
        ("accuracy", (0.9,), 3),
        ("loss", (0.2,), 3),
    ]
    assert found.metrics["seconds"] == 3.0
    assert found.logged == {"lr": "0.1"}
    assert found.parameters == {"epochs": "2", "api_token": "***"}
    assert found.data == {"train": "images:4"}
    assert [(one.name, one.type) for one in found.pictures] == [("confusion.png", "image/png")]
    assert [(one.name, one.kind) for one in found.tables] == [("classes", "table")]
    assert [log.lines for log in found.logs] == [("epoch 2", "secret-of-mine")]
    assert found.model is not None
    assert (found.model.name, found.model.version, found.model.stage) == ("digits", "7", "candidate")
    assert found.model.passport.startswith("sha256:")
    assert found.lineage is not None
    assert (found.lineage.kind, found.lineage.state) == ("model", "verified")
    assert found.packages == {"apt:bash": "5.2", "pip:torch": "2.6"}
    assert [(one.passed, one.skipped) for one in found.tests] == [(3, 1)]
    assert found.reproduce == "aml-train model reproduce digits:7 --target azure"
    assert found.cost is not None
    assert found.cost.node_hours == pytest.approx(0.025)
    assert [(one.attempt, one.ending) for one in found.attempts] == [(1, "completed")]
    assert found.notices == (
        "The gate's verdict was 'passed' when the run ended; by the present rules and baseline it is 'failed'.",
    )


def test_secrets_are_masked_in_every_text(tmp_path: Path) -> None:
    made = world()
    made.service.work[JOB].say(f"{'x' * 1_990}secret-of-mine")
    found = collected(made, config=configuration(tmp_path), masker=Masker(["secret-of-mine", "github.com/o/r"]))
    assert b"secret-of" not in values.encode(found), "nor a part, where a line is cut"
    assert found.source.repository == "***"


def test_without_a_configuration_the_recorded_rules_are_checked_with_the_metrics() -> None:
    made = world()
    found = collected(made, "model:digits:7")
    assert found.gate == "passed"
    assert [(one.metric, one.rule, one.verdict, one.value) for one in found.rules] == [
        ("accuracy", ">= 0.9", "met", 0.95),
        ("loss", "min < 0.5", "met", 0.3),
    ]
    assert found.rules[0].reason == "recorded with the verdict"
    assert "There is no configuration here" in found.notices[0]
    made.service.work[JOB].metrics["accuracy"][-1] = MetricPoint(step=2, value=0.5, timestamp=9)
    changed = collected(made, "model:digits:7")
    assert "the value was 0.95, and the job's metrics give 0.5" in changed.rules[0].reason


def test_the_report_of_a_stopped_job_says_for_which_rule() -> None:
    made = world()
    rules = '[["loss","no-improvement 5 steps",0.3,null,"missed"]]'
    stopped = {"aml-train.gate-rules": rules, "aml-train.gate": "failed"}
    made.job = replace(
        made.job, tags={**stopped, "aml-train.stopped": "loss no-improvement 5 steps: it stays at 0.3"}
    )
    found = collected(made)
    assert [one.reason for one in found.rules] == ["the job was stopped for it: it stays at 0.3"]


def test_a_job_alone_has_the_verdict_of_its_tags_and_its_own_lineage() -> None:
    found = collected(world())
    assert (found.gate, found.rules, found.model) == ("passed", (), None)
    assert found.lineage is not None
    assert [part.kind for part in found.lineage.parts] == ["environment", "commit", "data"]
    assert found.reproduce == "git checkout c0ffee\naml-train run --config aml-train.yml --fresh --target azure"


def test_the_configuration_of_another_job_decides_nothing(tmp_path: Path) -> None:
    made = world()
    made.job = replace(made.job, tags={**made.job.tags, "aml-train.configuration": "other/aml-train.yml"})
    found = collected(made, config=configuration(tmp_path))
    assert found.rules == ()
    assert "the job is of other/aml-train.yml, and the configuration here is aml-train.yml" in found.notices[0]


def test_a_job_that_has_not_completed_is_not_gated(tmp_path: Path) -> None:
    made = world()
    made.job = replace(made.job, status=JobStatus.FAILED, error="ValueError: boom")
    found = collected(made, config=configuration(tmp_path))
    assert found.job is not None
    assert (found.job.status, found.job.error) == ("Failed", "ValueError: boom")
    assert "The gate decides completed jobs only; this one is Failed." in found.notices
    assert [(one.attempt, one.status) for one in found.attempts] == [(1, "Failed")]


def second(made: PassportWorld, name: str = "other-1", **changes: Any) -> None:
    """Add a completed job whose curves lie below those of the first."""
    made.service.jobs[name] = replace(made.job, name=name, **changes)
    work = made.service.work[JOB]
    points = [replace(point, value=point.value / 2) for point in work.metrics["accuracy"]]
    made.service.work[name] = replace(work, metrics={"accuracy": points}, parameters={"lr": "0.2"})


def test_curves_of_the_baseline_and_of_further_jobs_are_overlaid() -> None:
    made = world()
    second(made, "main-1")
    second(made, "try-2", parameters={"epochs": "9"})
    found = collected(made, JOB, "try-2", baseline="main-1")
    assert [(one.role, one.title, one.points[-1]) for one in found.curves[0].series] == [
        ("job", f"the job {JOB}", (2, 0.95)),
        ("baseline", "the job main-1", (2, 0.475)),
        ("other", "the job try-2", (2, 0.475)),
    ]
    assert [len(one.series) for one in found.curves] == [3, 1]
    assert found.baseline is not None
    rows = {row.name: (row.left, row.right) for row in found.baseline.rows if not row.same}
    assert rows["accuracy"] == ("0.95", "0.475")
    assert rows["logged lr"] == ("0.1", "0.2")
    assert [one.job for one in found.others] == ["try-2"]
    assert ("epochs", "2", "9") in [(row.name, row.left, row.right) for row in found.others[0].rows]
    assert found.package_changes == ()


def test_packages_that_differ_from_the_baselines_image_are_named() -> None:
    made = world()
    made.shape = replace(made.shape, facts={**FACTS, "python_packages": {"torch": "2.5", "numpy": "2.1"}})
    other = made._push_image(b"another")
    second(made, tags={**made.job.tags, "aml-train.image-digest": other.digest})
    changes = collected(made, baseline="other-1").package_changes
    assert [(one.name, one.left, one.right) for one in changes] == [
        ("pip:numpy", "missing", "2.1"),
        ("pip:torch", "2.6", "2.5"),
    ]


# What cannot be read


@dataclass
class Broken:
    """A workspace of which some methods fail."""

    service: Any
    failing: dict[str, AmlTrainError] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.service, name)
        error = self.failing.get(name)
        if error is None:
            return found

        def fail(*_args: object, **_named: object) -> Any:
            raise error

        return fail


REFUSED = ServiceError("HTTP 403: the identity has no permission")


@pytest.mark.parametrize(
    ("method", "part"),
    [
        ("details", "job"),
        ("last_metrics", "metrics"),
        ("logged_parameters", "parameters"),
        ("metric_history", "curves"),
        ("artifact_paths", "pictures"),
        ("read_artifact", "pictures"),
        ("read_log", "logs"),
        ("logged", "tables"),
        ("models", "model"),
        ("node_kind", "cost"),
    ],
)
def test_a_part_that_is_refused_is_missing_and_the_others_are_there(method: str, part: str, tmp_path: Path) -> None:
    made = world()
    config = replace(configuration(tmp_path), gate=())
    found = collected(made, config=config, service=Broken(made.service, {method: REFUSED}))
    assert "HTTP 403" in (gaps(found).get(part, "") or (found.cost.unknown if found.cost else ""))
    # The rules that a model carries are checked with the metrics.
    assert set(gaps(found)) - {"pictures"} <= {part, *(["gate"] if part == "curves" else [])}
    assert found.lineage is not None
    assert found.job is not None


def test_logs_in_storage_that_is_not_reached_are_missing() -> None:
    made = world()
    gone = StorageUnreachableError("x.blob.core.windows.net does not answer")
    broken = Broken(made.service, {"read_log": gone, "read_log_by_service": REFUSED})
    found = collected(made, service=broken)
    assert found.logs == ()
    assert "x.blob.core.windows.net does not answer" in gaps(found)["logs"]


@pytest.mark.parametrize(
    ("jobs", "error", "match"),
    [
        (("nowhere-1",), InvalidError, "There is no job nowhere-1"),
        ((JOB, "nowhere-1"), InvalidError, "There is no job nowhere-1"),
        (("model:digits:99",), InvalidError, "There is no model:digits:99"),
        (("baseline",), InvalidError, "no configuration here"),
    ],
)
def test_a_job_that_does_not_exist_ends_the_command(
    jobs: Sequence[str], error: type[AmlTrainError], match: str
) -> None:
    with pytest.raises(error, match=match):
        collected(world(), *jobs)


# Which job


def latest(made: PassportWorld, config: Config, origin: Origin = ORIGIN) -> values.Report:
    project = Project(config=config, origin=origin)
    return collect_report(sources(made, project=lambda: project), [])


def test_without_a_job_it_is_the_latest_of_the_configuration(tmp_path: Path) -> None:
    made = world()
    second(made, "newer-1")
    second(made, "elsewhere-1", tags={**made.job.tags, "aml-train.repository": "github.com/other/r"})
    config = configuration(tmp_path)
    found = latest(made, config)
    assert found.job is not None
    assert found.job.name == "newer-1"
    with pytest.raises(InvalidError, match="no configuration here"):
        collect_report(sources(made), [])
    with pytest.raises(InvalidError, match=r"no job of sub/aml-train\.yml in the workspace"):
        latest(made, config, origin=replace(ORIGIN, configuration="sub/aml-train.yml"))


def test_folders_without_git_do_not_see_each_others_jobs(tmp_path: Path) -> None:
    made = world()
    (tmp_path / "other").mkdir()
    config, other = configuration(tmp_path), configuration(tmp_path / "other")
    here, there = (origin_of(one, None, folder_project(one.directory), branch="main") for one in (config, other))
    second(made, "newer-1", tags=here.tags())
    record_verdict(made.service, made.service.jobs["newer-1"], here, DECISIONS["passed"], now=NOW)
    report = latest(made, config, here)
    passed = latest_passed(made.service, Recorded(origin=here), "main")
    assert report.job is not None
    assert passed.view is not None
    assert report.job.name == passed.view.name == "newer-1"
    with pytest.raises(InvalidError, match=r"no job of aml-train\.yml in the workspace"):
        latest(made, other, there)
    assert "AML_TRAIN_BRANCH" in latest_passed(made.service, Recorded(origin=there), "main").why


# Pipelines and sweeps


def child(node: str, status: JobStatus = JobStatus.COMPLETED, **more: Any) -> ChildView:
    return ChildView(name=f"run-{node}", node=node, status=status, **more)


def graph(service: GraphService) -> values.Report:
    made = sources(PassportWorld())
    catalogue = MemoryCatalogue(service)
    return collect_report(
        replace(made, service=service, catalogue=catalogue, registry=lambda _host: None), [parse_reference("g-1")]
    )


def test_a_pipeline_shows_its_nodes_and_their_needs() -> None:
    service = GraphService(
        jobs={"g-1": JobView(name="g-1", status=JobStatus.FAILED, needs={"prepare": (), "train": ("prepare",)})},
        parts={"g-1": (child("prepare", reused_from="old"), child("train", JobStatus.FAILED, error="boom"))},
        logged_to={"run-prepare": {"rows": [10.0]}, "old": {"rows": [10.0]}},
    )
    found = graph(service)
    assert [(node.name, node.status, node.needs, node.reused, node.error) for node in found.nodes] == [
        ("prepare", "Completed", (), True, ""),
        ("train", "Failed", ("prepare",), False, "boom"),
    ]
    assert b"the tested image" not in render_markdown(found)  # where a node ran is not known here


def test_a_sweep_shows_its_trials_and_the_best_one() -> None:
    service = GraphService(
        kind="sweep",
        jobs={"g-1": JobView(name="g-1", status=JobStatus.COMPLETED)},
        objective=Objective(metric="acc", maximize=True),
        parts={
            "g-1": (
                child("a", parameters={"lr": "0.1"}),
                child("b", parameters={"lr": "0.2"}),
                child("c", JobStatus.FAILED),
            )
        },
        logged_to={"run-a": {"acc": [0.5, 0.7]}, "run-b": {"acc": [0.9, 0.8]}},
    )
    found = graph(service)
    assert found.objective == "acc"
    assert [(one.name, one.value, one.best, one.parameters) for one in found.trials] == [
        ("run-a", 0.7, False, {"lr": "0.1"}),
        ("run-b", 0.9, True, {"lr": "0.2"}),
        ("run-c", None, False, {}),
    ]


# Pieces


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"GIF87a", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"),
        (b"RIFF\x00\x00\x00\x00WAVE", None),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", None),
        (b"", None),
    ],
)
def test_an_image_is_recognized_by_its_content(content: bytes, kind: str | None) -> None:
    assert picture_type(content) == kind
