"""The checks of this machine, and which checks a project has."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest

from aml_train import doctor as module
from aml_train.config.load import load_config, load_targets
from aml_train.core.diagnosis import Check, CheckResult, Outcome, ok
from aml_train.core.errors import ImageError
from aml_train.core.references import ImageRef
from aml_train.doctor import (
    DoctorProject,
    check_base,
    check_disk_space,
    diagnose,
    machine_checks,
)
from aml_train.pipeline.target import Host

IDS = "subscription-id: 00000000-0000-0000-0000-000000000000, resource-group: g, workspace: ws, compute: cpu"
JOB = "job: {command: echo, environment: 'azureml:e:1'}\n"


@pytest.fixture(autouse=True)
def checks(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The checks do nothing; what those of Azure are made of is kept."""
    kept: dict[str, Any] = {}

    def machine(config: Any, _host: Any, _logins: Any) -> tuple[Check, ...]:
        kept["config"] = config
        return (Check(name="engine", run=lambda: ok("e")),)

    def azure(wanted: Any) -> tuple[Check, ...]:
        kept["wanted"] = wanted
        return (Check(name="sign-in", run=lambda: ok("the-secret-of-mine")),)

    monkeypatch.setattr(module, "machine_checks", machine)
    monkeypatch.setattr(module, "read_project", lambda *_args: SimpleNamespace(repository="named"))
    monkeypatch.setattr("aml_train.doctor.AzureChecks.checks", azure)
    return kept


def results(folder: Path, text: str, environ: Mapping[str, str] | None = None, target: str | None = None) -> Any:
    if text:
        (folder / "aml-train.yml").write_text(text)
    project = DoctorProject(
        load=lambda: load_config(None, directory=folder, target=target),
        targets=lambda: load_targets(None, directory=folder),
        target=target,
    )
    reported: list[CheckResult] = []
    diagnosis = diagnose(project, Host(environ=environ or {}), reported.append)
    assert list(diagnosis.results) == reported
    return diagnosis


def test_a_workspace_has_the_checks_of_azure(tmp_path: Path, checks: dict[str, Any]) -> None:
    text = f"{JOB}target: azure\ntargets: {{azure: {{{IDS}}}}}\nimage: {{base: python, repository: mine}}\n"
    found = results(tmp_path, text)
    assert [one.name for one in found.results] == ["configuration", "engine", "sign-in"]
    wanted = checks["wanted"]
    assert (wanted.workspace.name, wanted.compute, wanted.nodes, wanted.repository) == ("ws", "cpu", 1, "mine")


def test_the_local_target_has_none_of_them(tmp_path: Path) -> None:
    assert [one.name for one in results(tmp_path, JOB).results] == ["configuration", "engine"]


def test_faults_elsewhere_leave_the_checks_of_the_target(tmp_path: Path) -> None:
    found = results(tmp_path, f"{JOB}imge: 5\ntarget: azure\ntargets: {{azure: {{{IDS}}}}}\n")
    assert [one.name for one in found.results] == ["configuration", "engine", "sign-in"]
    assert found.exit_code == 2
    assert "imge" in found.results[0].outcome.found


def test_without_a_file_the_environment_may_name_the_workspace(tmp_path: Path, checks: dict[str, Any]) -> None:
    variables = {"AZURE_SUBSCRIPTION_ID": "s", "AML_RESOURCE_GROUP": "g", "AML_WORKSPACE": "other"}
    found = results(tmp_path, "", variables, target="azure")
    assert found.exit_code == 2
    assert "aml-train init" in found.results[0].outcome.remedy
    assert checks["wanted"].workspace.name == "other"


@pytest.mark.parametrize("target", ["azure", "nowhere"])
def test_a_target_that_is_not_known(tmp_path: Path, target: str) -> None:
    found = results(tmp_path, JOB, target=target)
    assert found.exit_code == 2
    assert {one.name for one in found.failures} <= {"configuration", "workspace"}


def test_an_unknown_cloud_is_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(module, "machine_checks", lambda *_args: ())
    text = f"{JOB}target: azure\ntargets: {{azure: {{{IDS}}}}}\n"
    found = results(tmp_path, text, {"AZURE_ENVIRONMENT": "mars"})
    assert found.exit_code == 2
    (failure,) = found.failures
    assert (failure.name, "there is no cloud 'mars'" in failure.outcome.found) == ("sign-in", True)


def test_secrets_are_masked(tmp_path: Path) -> None:
    text = f"{JOB}target: azure\ntargets: {{azure: {{{IDS}}}}}\n"
    found = results(tmp_path, text, {"MY_SECRET": "the-secret-of-mine"})
    assert found.results[-1].outcome.found == "***"


def host(monkeypatch: pytest.MonkeyPatch, *, images: bool = False, engine: bool = True) -> Host:
    def get(_name: str) -> None:
        from docker.errors import ImageNotFound

        if not images:
            raise ImageNotFound("no")

    def connect(_environ: Any) -> Any:
        if not engine:
            raise ImageError("no engine", hint="start it")
        return SimpleNamespace(images=SimpleNamespace(get=get))

    monkeypatch.setattr("aml_train.pipeline.target.connect_engine", connect)
    return Host(environ={})


@pytest.mark.parametrize(
    ("free", "status"), [(None, "warning"), (10**9, "failed"), (5 * 10**9, "warning"), (50 * 10**9, "ok")]
)
def test_the_disk(monkeypatch: pytest.MonkeyPatch, free: int | None, status: str) -> None:
    place = host(monkeypatch)
    info = {"DockerRootDir": "/var/lib/docker"} if free is not None else {"OperatingSystem": "Docker Desktop"}
    monkeypatch.setattr(Host, "engine", lambda _self: SimpleNamespace(info=lambda: info))
    monkeypatch.setattr("os.statvfs", lambda _path: SimpleNamespace(f_bavail=free, f_frsize=1))
    outcome = check_disk_space(place)
    assert (outcome.status, "docker system df" in outcome.remedy) == (status, status != "ok")


@pytest.mark.parametrize(
    ("head", "images", "engine", "status", "text"),
    [
        ("sha256:" + "a" * 64, False, True, "ok", "python:3.11 is at sha256:aaaaaaaaaaaa"),
        (None, True, True, "ok", "in the engine alone"),
        (None, False, True, "failed", "neither in the engine nor in docker.io"),
        (None, False, False, "failed", "neither in the engine nor in docker.io"),
        (ImageError("refused", hint="docker login x"), False, True, "failed", "refused"),
        (ImageError("refused"), True, True, "warning", "python:3.11 is in the engine; its registry: refused"),
    ],
)
def test_the_base_image(
    monkeypatch: pytest.MonkeyPatch, head: object, images: bool, engine: bool, status: str, text: str
) -> None:
    class Registry:
        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            return

        def head_manifest(self, *_: object) -> object:
            if isinstance(head, ImageError):
                raise head
            return head

    monkeypatch.setattr("aml_train.doctor.docker_registries", lambda *_a: lambda _name, **_o: Registry())
    found = host(monkeypatch, images=images, engine=engine)
    outcome: Outcome = check_base(ImageRef.parse("python:3.11"), found.engine, {}, lambda _name: None)
    assert outcome.status == status
    assert text in outcome.found
    assert bool(outcome.remedy) == (status != "ok")
    if head is None:
        elsewhere: Outcome = check_base(ImageRef.parse("python:3.11"), None, {}, lambda _name: None)
        assert (elsewhere.status, elsewhere.found) == ("failed", "python:3.11 is not in docker.io")


@pytest.mark.parametrize(
    ("builder", "target", "names", "engine"),
    [
        ("local", "azure", ["engine", "disk", "build-client", "base-image"], ""),
        ("acr", "azure", ["engine", "base-image"], "the image is built elsewhere"),
        ("acr", "local", ["engine", "disk", "base-image", "local-azureml"], ""),
        (
            "{kind: remote, engine: 'ssh://u@h'}",
            "azure",
            ["engine", "builder", "build-client", "base-image"],
            "the image is built elsewhere",
        ),
        ("{kind: remote, buildx: b}", "azure", ["engine", "disk", "build-client", "base-image"], ""),
    ],
)
def test_an_engine_is_checked_if_it_is_needed(
    tmp_path: Path, builder: str, target: str, names: list[str], engine: str
) -> None:
    (tmp_path / "aml-train.yml").write_text(
        f"job: {{command: x}}\nimage: {{base: python, builder: {builder}}}\ntarget: {target}\ntargets: {{azure: {{{IDS}}}}}\n"
    )
    found = machine_checks(load_config(None, directory=tmp_path), Host(environ={}), lambda _name: None)
    assert [one.name for one in found] == ["versions", *names]
    if engine:
        outcome = found[1].run()
        assert (outcome.status, outcome.found) == ("skipped", engine)
