from __future__ import annotations

import json
from pathlib import Path

import pytest

from aml_train import __version__
from aml_train.cli.process import run_command_line
from aml_train.core.errors import GateFailedError, ImageError
from aml_train.pipeline.project_name import folder_project

JOB = """\
command: python train.py
environment: azureml:sklearn:1
"""


def run(monkeypatch: pytest.MonkeyPatch, *args: str) -> int:
    monkeypatch.setattr("sys.argv", ["aml-train", *args])
    return run_command_line()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "job.yml").write_text(JOB)
    return tmp_path


def test_a_good_configuration_is_valid(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "validate", "-C", str(project)) == 0
    assert capsys.readouterr().out == (
        "valid: target local, the job's own environment, no tests, 0 gate rules, no model\n"
    )


def test_every_fault_is_told_with_its_line_and_ends_with_2(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "aml-train.yml").write_text("job: job.yml\ngates:\n  a: ['> 1']\nmodel: {name: m, path: 3}\n")
    assert run(monkeypatch, "validate", "-C", str(project)) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("aml-train.yml:2: ")
    assert "gate" in lines[0]
    assert lines[-1] == "aml-train: 2 faults; nothing was done."
    assert any(line.startswith("aml-train.yml:4: ") for line in lines)


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (["validate", "-C", "/nowhere"], "does not exist"),
        (["validate", "--bogus"], "No such option"),
        (["frobnicate"], "No such command 'frobnicate'.\n"),
        (["rnu"], "No such command 'rnu'. Did you mean `aml-train run`?"),
        (["logs"], "No such command 'logs'. Did you mean `aml-train jobs logs`?"),
        (["status"], "No such command 'status'. Did you mean `aml-train jobs show`?"),
    ],
)
def test_bad_arguments_end_with_2(
    args: list[str], complaint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, *args) == 2
    assert complaint in capsys.readouterr().err


def test_an_expected_error_is_told_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_args: object, **_kwargs: object) -> None:
        raise GateFailedError("acc missed", hint="train longer")

    monkeypatch.setattr("aml_train.cli.project.load_config", fail)
    assert run(monkeypatch, "validate") == 6
    assert capsys.readouterr().err == "aml-train: acc missed\ntrain longer\n"


def test_a_fault_of_ours_keeps_its_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_args: object, **_kwargs: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("aml_train.cli.project.load_config", fail)
    assert run(monkeypatch, "validate") == 1
    told = capsys.readouterr().err
    assert "Please report it" in told
    assert "ZeroDivisionError" in told


HIDDEN = "11111111"
"""A number: in the numbers of JSON it stays."""


@pytest.fixture
def telling(tmp_path: Path) -> Path:
    """Make a project whose job holds a secret, in its command and name too."""
    job = f"{JOB}environment_variables: {{SERVICE_API_KEY: '{HIDDEN}', SIZE: 1{HIDDEN}}}\ndisplay_name: n {HIDDEN}\n"
    (tmp_path / "job.yml").write_text(job.replace("train.py", f"train.py --key {HIDDEN}"))
    return tmp_path


def test_the_plan_shows_no_secret_of_the_job(
    telling: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("aml_train.pipeline.prepare.read_project", lambda *_, **__: folder_project(telling))
    monkeypatch.setattr("aml_train.pipeline.prepare.read_commit", lambda *_, **__: None)
    assert run(monkeypatch, "plan", "-C", str(telling)) == 0
    assert HIDDEN not in (shown := capsys.readouterr().out)
    assert "python train.py --key ***" in shown
    assert run(monkeypatch, "plan", "-C", str(telling), "--json") == 0
    document = json.loads(capsys.readouterr().out)["job"]["document"]
    assert (document["display_name"], document["environment_variables"]["SERVICE_API_KEY"]) == ("n ***", "***")


def test_an_error_shows_no_password_of_an_address(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_args: object, **_kwargs: object) -> None:
        raise ImageError(f"The Docker engine at {address} does not answer.")

    address = f"tcp://me:{HIDDEN}@10.0.0.1:2376"
    monkeypatch.setenv("DOCKER_HOST", address)
    monkeypatch.setattr("aml_train.cli.project.load_config", fail)
    assert run(monkeypatch, "validate") == 3
    assert capsys.readouterr().err == "aml-train: The Docker engine at tcp://me:***@10.0.0.1:2376 does not answer.\n"


def test_what_is_printed_for_other_programs_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = f"environmentVariables: {{SERVICE_API_KEY: '{HIDDEN}'}}\n"
    (tmp_path / "train.py").touch()
    (tmp_path / "a.runconfig").write_text(f"script: train.py\n{settings}environment: {{docker: {{baseImage: x}}}}\n")
    assert run(monkeypatch, "convert", "-C", str(tmp_path), "--config", str(tmp_path / "a.runconfig")) == 0
    assert HIDDEN in capsys.readouterr().out


def test_an_interrupt_ends_with_7(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_args: object, **_kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("aml_train.cli.project.load_config", interrupt)
    assert run(monkeypatch, "validate") == 7


def test_the_schema_is_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "validate", "--schema") == 0
    assert "image" in json.loads(capsys.readouterr().out)["properties"]


def test_the_version_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "--version") == 0
    assert capsys.readouterr().out == f"aml-train {__version__}\n"


def test_the_page_is_opened_only_where_the_local_azureml_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("aml_train.cli.emulator.emulator_info", lambda _settings: None)
    assert run(monkeypatch, "emulator", "open") == 8
    assert "aml-train emulator start" in capsys.readouterr().err
    monkeypatch.setattr("aml_train.cli.emulator.emulator_info", lambda _settings: object())
    assert run(monkeypatch, "emulator", "open", "a job/1") == 0
    assert capsys.readouterr().out == "http://127.0.0.1:7380/ui/runs/a%20job%2F1\n"


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (["submit"], "Which command? Such as"),
        (["submit", "--image", "x", "--environment", "y", "--", "true"], "exclude each other"),
        (["submit", "--image", "x", "--tag", "a", "true"], "--tag a: give it a value: a=…"),
        (["submit", "--image", "x", "--env", "NOT_THERE_AT_ALL", "true"], "--env NOT_THERE_AT_ALL: give it a value"),
    ],
)
def test_a_command_that_is_not_said_right_is_refused(
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    args: list[str],
    complaint: str,
) -> None:
    assert run(monkeypatch, args[0], "-C", str(project), *args[1:]) == 2
    assert complaint in capsys.readouterr().err


def test_a_dry_run_shows_what_would_be_submitted(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("aml_train.pipeline.prepare.read_commit", lambda _directory, **_more: None)
    monkeypatch.setattr(
        "aml_train.pipeline.prepare.read_project", lambda directory, _environment, **_more: folder_project(directory)
    )
    (project / "aml-train.yml").write_text("job: job.yml\nsetup: [pip list]\n")
    options = ("--dry-run", "-c", "gpu", "--env", "A=1", "--name", "mine")
    assert run(monkeypatch, "submit", "-C", str(project), *options, "--", "python", "a b.py", "--data", "x") == 0
    shown = capsys.readouterr().out
    assert "python 'a b.py' --data x" in shown
    assert "compute: azureml:gpu" in shown
    assert "aml_train_setup '1 of 1' 'pip list'" in shown
    assert "A: '1'" in shown
