"""Badges of jobs, branches and models."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aml_train.cli.options import ProjectOptions
from aml_train.core.badge import Badge
from aml_train.core.errors import InvalidError, ServiceError
from aml_train.core.git import Origin
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView, ModelView
from aml_train.pipeline.badge import find_badge
from aml_train.pipeline.branch_verdicts import verdict_tag
from aml_train.pipeline.compare import Project, parse_reference
from tests.support.fake_promotion import run_command
from tests.support.fake_workspace import FakeService

ORIGIN = Origin(
    commit="c" * 40, branch="main", repository="github.com/o/r", configuration="aml-train.yml", dirty=False
)


def verdict(gate: str, at: str, repository: str = "github.com/o/r") -> dict[str, str]:
    value = {"gate": gate, "at": at, "commit": "c", "repository": repository, "configuration": "aml-train.yml"}
    return {verdict_tag("main"): json.dumps(value), "aml-train.gate": gate}


def job(name: str, status: JobStatus = JobStatus.COMPLETED, **tags: str) -> JobView:
    return JobView(name=name, status=status, tags={key.replace("_", "."): value for key, value in tags.items()})


def project() -> Project:
    return Project(config=None, origin=ORIGIN)  # type: ignore[arg-type]


def service(*jobs: JobView) -> FakeService:
    found = FakeService(history_of={view.name: {"acc": [0.5, 0.97]} for view in jobs})
    found.jobs = {view.name: view for view in jobs}
    return found


@pytest.mark.parametrize(
    ("view", "message", "color"),
    [
        (JobView(name="j", status=JobStatus.COMPLETED, tags={"aml-train.gate": "passed"}), "passed", "green"),
        (JobView(name="j", status=JobStatus.COMPLETED, tags={"aml-train.gate": "failed"}), "gate failed", "red"),
        (JobView(name="j", status=JobStatus.COMPLETED, tags={"aml-train.gate": "skipped"}), "not judged", "yellow"),
        (JobView(name="j", status=JobStatus.COMPLETED, tags={"aml-train.gate": "none"}), "completed", "green"),
        (JobView(name="j", status=JobStatus.COMPLETED), "completed", "grey"),
        (JobView(name="j", status=JobStatus.FAILED, tags={"aml-train.gate": "passed"}), "failed", "red"),
        (JobView(name="j", status=JobStatus.NOT_RESPONDING), "failed", "red"),
        (JobView(name="j", status=JobStatus.CANCELED), "cancelled", "grey"),
        (JobView(name="j", status=JobStatus.RUNNING), "running", "yellow"),
    ],
)
def test_a_job_says_its_verdict(view: JobView, message: str, color: str) -> None:
    found = find_badge(service(view), parse_reference("j"), project)
    assert (found.label, found.message, found.color) == ("training", message, color)


def test_a_branch_says_the_verdict_of_its_last_judged_run() -> None:
    jobs = (
        JobView(name="a", status=JobStatus.COMPLETED, tags=verdict("passed", "2026-01-02")),
        JobView(name="b", status=JobStatus.COMPLETED, tags=verdict("failed", "2026-01-03")),
        JobView(name="c", status=JobStatus.COMPLETED, tags=verdict("passed", "2026-01-01")),
        JobView(name="d", status=JobStatus.COMPLETED, tags=verdict("passed", "2026-01-09", "github.com/other/r")),
    )
    found = find_badge(service(*jobs), parse_reference("branch:main"), project)
    assert (found.label, found.message) == ("main", "gate failed")
    metric = find_badge(service(*jobs), parse_reference("branch:main"), project, metric="acc", label="accuracy")
    assert (metric.label, metric.message) == ("accuracy", "0.97")
    with pytest.raises(ServiceError, match="on the branch other was judged"):
        find_badge(service(*jobs), parse_reference("branch:other"), project)


def test_a_model_says_its_version_or_a_metric() -> None:
    found = service()
    tags = {"aml-train.stage": "production", "aml-train.metric.acc": "0.97"}
    found.registered.append(ModelView(name="digits", version="7", path="p", tags=tags))
    reference = parse_reference("model:digits@production")
    badge = find_badge(found, reference, project)
    assert (badge.label, badge.message) == ("digits production", "version 7")
    assert find_badge(found, reference, project, metric="acc").message == "0.97"
    with pytest.raises(InvalidError, match="has no metric f1"):
        find_badge(found, reference, project, metric="f1")


@pytest.mark.parametrize("text", ["baseline", "report.json", "file:x"])
def test_files_and_baselines_have_no_badge(text: str) -> None:
    with pytest.raises(InvalidError, match="has no badge"):
        find_badge(service(), parse_reference(text), project)


def test_a_job_that_does_not_exist() -> None:
    with pytest.raises(ServiceError, match="There is no job nothing"):
        find_badge(service(), parse_reference("nothing"), project)


@given(st.text(), st.text())
def test_any_text_makes_a_badge_that_is_text(label: str, message: str) -> None:
    badge = Badge(label=label, message=message, color="green")
    tree = ElementTree.fromstring(badge.svg())  # noqa: S314 - our own picture
    assert {one.tag.rpartition("}")[2] for one in tree.iter()} == {"svg", "title", "clipPath", "rect", "g", "text"}
    assert int(tree.attrib["width"]) < 2_000
    assert badge.endpoint()["schemaVersion"] == 1


@pytest.mark.parametrize(
    ("arguments", "start"),
    [(["-o", "badges/main.svg"], "<svg "), (["-o", "badges/main.json"], "{"), ([], None), (["--json"], None)],
)
def test_the_command_writes_a_file_or_to_standard_output(
    arguments: list[str],
    start: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    view = JobView(name="j", status=JobStatus.COMPLETED, tags={"aml-train.gate": "passed"})
    monkeypatch.setattr(ProjectOptions, "open_workspace", lambda _: service(view))
    assert run_command(monkeypatch, "badge", "j", *arguments) == 0
    shown = capsys.readouterr().out
    if start is None:
        assert shown.startswith("{" if arguments else "<svg ")
        return
    assert (tmp_path / arguments[1]).read_text().startswith(start)
    assert shown == f"{arguments[1]}: training: passed\n"
    assert run_command(monkeypatch, "badge", "j", "-o", str(tmp_path)) == 2
