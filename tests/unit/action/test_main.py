from __future__ import annotations

import io
import json
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from aml_train.core.errors import GateFailedError, ImageError
from aml_train.core.events import (
    JobNamed,
    JobSubmitted,
    Listener,
    LogLine,
    MetricsSettled,
    Notice,
    RunFinished,
    StageStarted,
)
from aml_train.core.masking import Masker
from aml_train.core.trust import Trust
from aml_train.pipeline.result import Group, RunOptions, RunResult
from aml_train.pipeline.target import Host
from aml_train.report.values import decode
from aml_train_action.github.proposals import Checkout
from aml_train_action.main import main
from tests.unit.action.runner_model import Runner
from tests.unit.action.test_commands import _read_outputs

JOB = "command: python train.py\nenvironment: azureml:sklearn:1\n"
SECRET = "the-real-secret-value"
CREDS = json.dumps(
    {
        "clientId": "the-client-id",
        "clientSecret": "another-secret-value",
        "tenantId": "the-tenant-id",
        "subscriptionId": "the-subscription-id",
    }
)
COMMIT = "c" * 40
FETCHED = "eyJ0.a-token-fetched-at-run-time.sig"


@dataclass
class Ran:
    code: int
    log: str
    outputs: dict[str, str]
    summary: str
    runner: Runner = field(default_factory=Runner)


@pytest.fixture
def act(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Ran]]:
    monkeypatch.setattr("aml_train_action.main.read_checkout", lambda _directory: Checkout(commit=COMMIT))
    (tmp_path / "job.yml").write_text(JOB)
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    def run(*, stdout: io.BytesIO | None = None, more: Mapping[str, str] | None = None, **given: str) -> Ran:
        environment = {
            "GITHUB_WORKSPACE": str(tmp_path), "GITHUB_OUTPUT": str(tmp_path / "out"), "GITHUB_STEP_SUMMARY": str(tmp_path / "sum"),
            "MY_TOKEN": SECRET, **(more or {}),
        } | {f"INPUT_{name.replace('__', '-').upper()}": value for name, value in given.items()}  # fmt: skip
        stdout = stdout or io.BytesIO()
        code = main(environment, stdout)
        log = stdout.getvalue().decode()
        return Ran(
            code=code,
            log=log,
            outputs=_read_outputs((tmp_path / "out").read_text()) if (tmp_path / "out").exists() else {},
            summary=(tmp_path / "sum").read_text() if (tmp_path / "sum").exists() else "",
            runner=Runner().read(log),
        )

    yield run
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def done(ran: Ran, name: str) -> list[str]:
    return [command.data for command in ran.runner.done if command.name == name]


def pipeline(
    monkeypatch: pytest.MonkeyPatch, run: Callable[[Sequence[Listener], RunOptions], None], *tokens: str
) -> list[Mapping[str, str]]:
    """Put *run*, which fetches *tokens*, in the pipeline's place; return the environments that it was prepared with."""
    environments: list[Mapping[str, str]] = []

    def prepare(
        _config: Any,
        host: Host,
        *,
        image: bool,
        commit: object,
        trust: Trust,
    ) -> Trust:
        assert host.assertion is None
        for token in tokens:
            host.on_token(token)
        environments.append(host.environ)
        return trust

    def execute(prepared: Trust, options: RunOptions, *, listeners: Sequence[Listener], masker: Masker) -> RunResult:
        assert masker.longest
        assert prepared.protected is options.register
        run(listeners, options)
        return RunResult()

    monkeypatch.setattr("aml_train_action.main.prepare_run", prepare)
    monkeypatch.setattr("aml_train_action.main.run_prepared", execute)
    return environments


def test_validate(act: Callable[..., Ran]) -> None:
    ran = act(command="validate")
    assert ran.code == 0
    assert ran.outputs["status"] == "valid"
    assert "✓ valid: target local, the job's own environment, no tests, 0 gate rules, no model" in ran.runner.shown
    assert "valid" in ran.summary
    assert "aml-train validate" in ran.summary.replace("&#45;", "-")


def test_secrets_are_told_before_anything_else(act: Callable[..., Ran]) -> None:
    ran = act(command="validate")
    assert ran.log.startswith(f"::add-mask::{SECRET}\n")
    assert ran.log.count(SECRET) == 1


def test_secrets_of_the_configuration_are_hidden(act: Callable[..., Ran], tmp_path: Path) -> None:
    hidden, shown = "a-key-of-the-job", "${{inputs.learning_rate}}"
    variables = f"environment_variables: {{WANDB_API_KEY: {hidden}, RATE_KEY: '{shown}', MODE: a-mode}}\n"
    (tmp_path / "job.yml").write_text(JOB + variables)
    ran = act(command="validate", set=f"job.display_name={hidden} {shown} a-mode")
    assert ran.code == 0, ran.log
    assert done(ran, "add-mask") == [SECRET, hidden]
    assert hidden not in ran.summary
    assert "a-mode" in ran.summary.replace("&#45;", "-")


def test_tokens_that_are_fetched_are_told_before_they_could_be_shown(
    act: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(listeners: Sequence[Listener], _options: RunOptions) -> None:
        for listener in listeners:
            listener(LogLine(source="job", origin="std_log.txt", text=f"before {FETCHED} after"))
            listener(JobSubmitted(job=f"job-{FETCHED}", attached=False, studio_url=None))

    pipeline(monkeypatch, run, FETCHED)
    ran = act()
    told = f"::add-mask::{FETCHED}\n"
    assert ran.log.count(FETCHED) == 1
    assert ran.log.index(told) < ran.log.index("before *** after")
    assert FETCHED in done(ran, "add-mask"), "it was told while commands took no effect"
    assert FETCHED not in json.dumps(ran.outputs) + ran.summary


def test_faults_of_the_configuration_are_annotated_and_end_with_2(act: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "aml-train.yml").write_text("job: job.yml\ngates: 1\n")
    ran = act()
    assert (ran.code, ran.outputs["status"]) == (2, "invalid")
    assert ran.runner.done[1].properties == "file=aml-train.yml,line=2,title=Configuration"
    assert done(ran, "error")[-1] == "1 fault; nothing was done."
    assert "invalid" in ran.summary


def test_faults_of_inputs_end_with_2_and_set_outputs(act: Callable[..., Ran]) -> None:
    ran = act(wait="maybe", foo="x")
    assert (ran.code, ran.outputs["status"], ran.outputs["image"]) == (2, "invalid", "")
    assert any("with.wait: 'maybe' is not known" in data for data in done(ran, "error"))


def test_a_job_of_a_target_in_azure_does_not_run_on_this_machine(act: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "aml-train.yml").write_text(
        "job: job.yml\ntargets: {azure: {subscription-id: 00000000-0000-0000-0000-000000000000, resource-group: group, workspace: workspace, compute: local}}\n"
    )
    ran = act(target="azure")
    assert (ran.code, ran.outputs["status"]) == (2, "invalid")
    assert "The job's compute is 'local': azure-ai-ml would run it on this machine, not in 'azure'." in ran.log


def test_a_run_sets_outputs_also_when_it_fails(act: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[RunOptions] = []

    def run(listeners: Sequence[Listener], options: RunOptions) -> None:
        seen.append(options)
        for event in (
            StageStarted(stage="watch", title="Follow"),
            JobSubmitted(job="j-1", attached=False, studio_url=f"https://x/{SECRET}"),
            LogLine(source="job", text=f"::set-output name=a::{SECRET}"),
            MetricsSettled(job="j-1", metrics={"acc": 0.5}),
            RunFinished(status="gate-failed", exit_code=6, message=f"missed {SECRET}", facts={"experiment": "e"}),
        ):
            for listener in listeners:
                listener(event)

    environments = pipeline(monkeypatch, run)
    ran = act(fresh="true", wait="false", force__build="TRUE", register="true")
    assert ran.code == 6
    assert seen == [RunOptions(fresh=True, force_build=True, wait=False)]
    assert environments[0]["MY_TOKEN"] == SECRET
    assert (ran.outputs["status"], ran.outputs["job-name"], ran.outputs["experiment-name"]) == (
        "gate-failed",
        "j-1",
        "e",
    )
    assert ran.outputs["run-url"] == "https://x/***"
    assert [command.name for command in ran.runner.done] == ["add-mask", "group", "endgroup", "error", "warning"]
    assert done(ran, "warning")[0].startswith("Altered outputs, in which a secret is `***`: run-url (MY_TOKEN).")
    assert SECRET not in ran.summary
    assert ran.log.count(SECRET) == 1
    assert ran.runner.token is None


@pytest.mark.parametrize(
    ("error", "code", "status", "told"),
    [
        (ImageError("no engine", hint="Start it."), 3, "image-failed", "no engine%0AStart it."),
        (GateFailedError("missed"), 6, "gate-failed", "missed"),
        (KeyboardInterrupt(), 7, "cancelled", "Interrupted before a job was submitted."),
    ],
)
def test_each_end_has_its_code(
    error: BaseException, code: int, status: str, told: str, act: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_args: object) -> None:
        raise error

    pipeline(monkeypatch, fail)
    ran = act()
    assert (ran.code, ran.outputs["status"], done(ran, "error")) == (code, status, [told])


def test_a_fault_of_ours_shows_its_traceback_behind_the_filter(
    act: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_args: object) -> None:
        raise RuntimeError(f"oh no\n::error::{SECRET}")

    pipeline(monkeypatch, fail)
    ran = act()
    assert (ran.code, ran.outputs["status"]) == (1, "error")
    assert "✗ RuntimeError: oh no" in ran.runner.shown
    assert "✗ ::error::***" in ran.runner.shown
    assert done(ran, "error") == ["This is a fault of aml-train, not of your configuration.%0APlease report it with the traceback in the log."]  # fmt: skip
    assert ran.log.count(SECRET) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_as_an_interrupt(
    number: signal.Signals, act: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline(monkeypatch, lambda _listeners, _options: signal.raise_signal(number))
    ran = act()
    assert (ran.code, ran.outputs["status"]) == (7, "cancelled")


def test_a_signal_after_the_end_changes_nothing(act: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch) -> None:
    def run(listeners: Sequence[Listener], _options: RunOptions) -> None:
        for listener in listeners:
            listener(RunFinished(status="passed", exit_code=0, message="fine"))
        signal.raise_signal(signal.SIGINT)

    pipeline(monkeypatch, run)
    ran = act()
    assert (ran.code, ran.outputs["status"]) == (0, "passed")


def test_outputs_that_cannot_be_written_fail_the_step(act: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "sum").mkdir()
    stdout = io.BytesIO()
    environment = {
        "GITHUB_WORKSPACE": str(tmp_path),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "sum"),
        "INPUT_COMMAND": "validate",
    }
    assert main(environment, stdout) == 2
    assert "cannot be written" in stdout.getvalue().decode()


def test_sign_in_inputs_reach_the_pipeline_as_variables_and_nothing_else(
    act: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(listeners: Sequence[Listener], _options: RunOptions) -> None:
        url = "https://ml.azure.com/runs/j?wsid=/subscriptions/the-subscription-id&tid=the-tenant-id"
        for listener in listeners:
            listener(JobSubmitted(job="j", attached=False, studio_url=url))
            listener(RunFinished(status="passed", exit_code=0, message="another-secret-value", facts={}))

    environments = pipeline(monkeypatch, run)
    ran = act(target="azure", creds=CREDS, workspace="w-1", compute="c-1")
    assert ran.code == 0, ran.log
    (seen,) = environments
    assert {name: value for name, value in seen.items() if name.startswith(("AZURE", "AML_TRAIN", "INPUT"))} == {
        "AZURE_CREDENTIALS": CREDS, "AZURE_SUBSCRIPTION_ID": "the-subscription-id", "AML_TRAIN_SIGN_IN": "creds",
    }  # fmt: skip
    assert "targets.azure.workspace" in ran.summary
    assert "another-secret-value" not in ran.summary + json.dumps(ran.outputs)
    assert "the-subscription-id" in ran.outputs["run-url"], "a link to the studio needs identifiers"
    assert "the-tenant-id" in ran.outputs["run-url"]
    shown = [line for line in ran.log.splitlines() if not line.startswith("::add-mask::")]
    assert not [line for line in shown if "the-tenant-id" in line]


def test_the_pipeline_gets_what_the_inputs_say(
    act: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[RunOptions] = []
    pipeline(monkeypatch, lambda _listeners, options: seen.append(options))
    github = {
        "GITHUB_REPOSITORY": "octo/digits", "GITHUB_REF": "refs/pull/7/merge", "GITHUB_RUN_ID": "42", "GITHUB_WORKFLOW": "train",
        "GITHUB_JOB": "gpu",
    }  # fmt: skip
    group = Group(name="octo/digits#7 / train / gpu", sequence=42)
    act(supersede="true", wait="false", more=github)
    act(command="attach", job__name="digits-1", wait="false", more=github)
    payload = tmp_path / "event.json"
    payload.write_text('{"repository": {"default_branch": "main"}}')
    main_branch = {"GITHUB_REF": "refs/heads/main", "GITHUB_EVENT_PATH": str(payload), "GITHUB_SHA": COMMIT}
    act(more=github | main_branch | {"GITHUB_EVENT_NAME": "push"})
    act(more=github | main_branch | {"GITHUB_EVENT_NAME": "issue_comment"})
    act(register="true")
    assert seen == [
        RunOptions(wait=False, group=group, supersede=True, register=False),
        RunOptions(attach=True, job="digits-1", group=group, register=False),
        RunOptions(group=Group(name="octo/digits@main / train / gpu", sequence=42)),
        RunOptions(group=Group(name="octo/digits@main / issue_comment / train / gpu", sequence=42), register=False),
        RunOptions(),
    ]


def test_the_step_leaves_its_job_and_its_end_to_the_post_action(
    act: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    state = tmp_path / "state"

    def run(listeners: Sequence[Listener], _options: RunOptions) -> None:
        for listener in listeners:
            listener(JobNamed(job="digits-1"))
            listener(RunFinished(status="passed", exit_code=0, message="done"))

    pipeline(monkeypatch, run)
    act(more={"GITHUB_STATE": str(state)})
    assert _read_outputs(state.read_text()) == {"job": "digits-1", "status": "passed"}
    state.unlink()
    act(command="attach", more={"GITHUB_STATE": str(state)})
    assert "job" not in _read_outputs(state.read_text()), "who attaches does not answer for the job"


def test_the_gate_is_reported_as_junit(
    act: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(listeners: Sequence[Listener], _options: RunOptions) -> None:
        for listener in listeners:
            listener(RunFinished(status="job-failed", exit_code=5, message="it failed"))

    pipeline(monkeypatch, run)
    act(gate__junit="reports/gate.xml")
    assert "it failed" in (tmp_path / "reports/gate.xml").read_text()


def test_a_run_writes_its_report_also_after_a_failure(
    act: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def run(listeners: Sequence[Listener], _options: RunOptions) -> None:
        for listener in listeners:
            listener(JobSubmitted(job="digits-1", attached=False, studio_url=None))
            listener(Notice(text=f"a token: {SECRET}"))
        raise GateFailedError(f"missed, with {SECRET}")

    pipeline(monkeypatch, run)
    ran = act(more={"GITHUB_ACTION": "train"})
    assert ran.code == 6
    assert ran.outputs["report-file"] == "aml-train-report/train/pr-report.json"
    text = (tmp_path / ran.outputs["report-file"]).read_text()
    assert SECRET not in text
    made = decode(text.encode(), origin="pr-report.json")
    assert (made.status, made.exit_code, made.configuration) == ("gate-failed", 6, "job.yml")
    assert made.job is not None
    assert made.job.name == "digits-1"
    assert made.notices == ("a token: ***",)
