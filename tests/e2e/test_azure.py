"""The target azure under the hosted runner's contract: sign-in by inputs, above all with OIDC, and what is said when it fails."""

from __future__ import annotations

import html
from pathlib import Path

import pytest

from tests.e2e.hosted_runner import HostedRunner, Step
from tests.support.oidc_stand_in import AUDIENCE, ISSUER, Provider

JOB = """\
command: python -c "print('hello from azure')"
environment: {{image: 'python:3.11-slim-bookworm'}}
experiment_name: {name}
"""
#: What the inputs win over.
ELSEWHERE = """\
job: job.yml
targets:
  azure: {resource-group: elsewhere, workspace: another, compute: none-such}
"""


@pytest.fixture
def project(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A project without an image of its own, so that only sign-in and job take time."""
    folder = tmp_path / "project"
    folder.mkdir()
    name = request.node.name.replace("[", "-").rstrip("]")[:40]
    (folder / "job.yml").write_text(JOB.format(name=name))
    (folder / "aml-train.yml").write_text(ELSEWHERE)
    return folder


def shown(step: Step) -> str:
    """Return the log without what only tells GitHub what to mask, and everything else that the step leaves."""
    lines = [line for line in step.log.splitlines() if not line.startswith("::add-mask::")]
    return "\n".join([*lines, html.unescape(step.summary), *step.outputs.values()])


def told(step: Step) -> list[str]:
    """Return what GitHub was told to mask, in order."""
    return [line.removeprefix("::add-mask::") for line in step.log.splitlines() if line.startswith("::add-mask::")]


def test_oidc_without_any_secret_and_inputs_over_the_configuration(
    azure_runner: HostedRunner, github: Provider, project: Path
) -> None:
    azure_runner.checkout(project)
    step = azure_runner.run()
    assert step.code == 0, step.log
    assert "Signing in to Azure with the OIDC token of the workflow" in step.log
    assert "hello from azure" in step.log
    assert step.outputs["run-url"].startswith("https://ml.azure.com/runs/")
    assert azure_runner.given["subscription-id"] in step.outputs["run-url"]
    assert set(github.asked) == {AUDIENCE}
    assert len(github.issued) == len(set(github.issued)) > 0
    # Every token that was fetched: GitHub's, and the access tokens that Azure gave for them.
    assert {github.request_token, *github.issued} <= set(told(step))
    fetched = [value for value in told(step) if value.startswith("eyJ")]
    assert len(fetched) > len(github.issued)
    for secret in (github.request_token, *fetched, azure_runner.given["client-id"]):
        assert secret not in shown(step)


def refused(step: Step, *texts: str) -> None:
    """Check that the step failed with the service's exit code, and that log, annotation and summary say *texts*."""
    assert step.code == 8, step.log
    assert step.outputs["status"] == "service-error"
    assert not step.outputs["job-name"]
    (verdict,) = [error for error in step.errors() if error.properties.get("title") == "aml-train: service-error"]
    for text in texts:
        for place in (step.log, verdict.text, html.unescape(step.summary)):
            assert text in place, place


PERMISSION = ("permissions:", "id-token: write")


def test_a_job_without_the_permission_is_told_the_yaml_to_add(azure_runner: HostedRunner, project: Path) -> None:
    for name in ("ACTIONS_ID_TOKEN_REQUEST_URL", "ACTIONS_ID_TOKEN_REQUEST_TOKEN"):
        del azure_runner.environment[name]
    azure_runner.checkout(project)
    refused(azure_runner.run(), "GitHub does not let this job have one", *PERMISSION)


@pytest.mark.full
def test_a_subject_that_azure_does_not_trust_is_shown(
    azure_runner: HostedRunner, github: Provider, project: Path
) -> None:
    github.subject = "repo:octo/digits:pull_request"
    azure_runner.checkout(project)
    refused(
        azure_runner.run(),
        "with the OIDC token of the workflow: AADSTS700213",
        "Azure must trust this workflow",
        f"issuer:   {ISSUER}",
        "subject:  repo:octo/digits:pull_request",
        f"audience: {AUDIENCE}",
    )


@pytest.mark.full
def test_a_gate_in_another_workflow(azure_runner: HostedRunner, digits: Path) -> None:
    azure_runner.checkout(digits)
    submitted = azure_runner.run({"wait": "false"})
    assert (submitted.code, submitted.outputs["status"]) == (0, "submitted"), submitted.log
    assert not submitted.outputs["gate"]
    attached = azure_runner.run({"command": "attach", "job-name": submitted.outputs["job-name"]})
    assert (attached.code, attached.outputs["status"]) == (0, "passed"), attached.log
    assert attached.outputs["job-name"] == submitted.outputs["job-name"]
    assert (attached.outputs["gate"], attached.outputs["model-name"]) == ("passed", "digits")
