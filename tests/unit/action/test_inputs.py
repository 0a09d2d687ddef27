from __future__ import annotations

import json
from pathlib import Path

import pytest

from aml_train.core.errors import InvalidError
from aml_train_action.github.step import read_step
from aml_train_action.inputs.azure import AzureInputs
from aml_train_action.inputs.inputs import Inputs, read_inputs

CREDS = json.dumps({"clientId": "c", "clientSecret": "the-secret", "tenantId": "t", "subscriptionId": "s"})


def read(workspace: Path, /, **given: str) -> Inputs:
    return read_inputs(
        {f"INPUT_{name.replace('__', '-').upper()}": value for name, value in given.items()}, workspace
    )


def complaints(workspace: Path, environment: dict[str, str]) -> list[str]:
    with pytest.raises(InvalidError) as caught:
        read_inputs(environment, workspace)
    return [str(fault) for fault in caught.value.faults]


def test_defaults(tmp_path: Path) -> None:
    assert read(tmp_path) == Inputs(
        command="run", config=None, target=None, job=None, sets=(), wait=True, fresh=False, force_build=False,
        directory=tmp_path, log_level="info",
    )  # fmt: skip


def test_every_input_is_read(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    inputs = read(
        tmp_path, command="plan", config="c.yml", target="local", job="j.yml", set="\n a.b=1 \n\nc=x y\r\n", wait="FALSE",
        timeout="2h", fresh="True", force__build="true", working__directory="a b", log__level="warning",
        client__id="c", tenant__id="t", subscription__id="s", client__secret="x", environment="AzureChinaCloud",
        resource__group="g", workspace="w", registry="r.azurecr.io", compute="n", on__cancel="detach", supersede="true",
    )  # fmt: skip
    assert inputs == Inputs(
        command="plan", config=Path("c.yml"), target="local", job=Path("j.yml"),
        sets=("a.b=1", "c=x y", "watch.timeout=2h", "watch.on-cancel=detach"),
        wait=False, fresh=True, force_build=True, directory=tmp_path / "a b", log_level="warning",
        azure=AzureInputs(
            client_id="c", tenant_id="t", subscription_id="s", client_secret="x", environment="AzureChinaCloud",
            resource_group="g", workspace="w", registry="r.azurecr.io", compute="n",
        ),
        supersede=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("variable", "value", "complaint"),
    [
        ("INPUT_WAIT", "yes", "with.wait: 'yes' is not known: known are true, false"),
        ("INPUT_FRESH", "1", "with.fresh: '1' is not known: known are true, false"),
        ("INPUT_FORCE-BUILD", "on", "with.force-build: 'on' is not known: known are true, false"),
        ("INPUT_COMMAND", "plam", "with.command: 'plam' is not known: perhaps you meant `plan`"),
        ("INPUT_COMMAND", "explode", "with.command: 'explode' is not known: known are run, attach, validate, plan, doctor, promote, rollback, report"),
        ("INPUT_ON-CANCEL", "detatch", "with.on-cancel: 'detatch' is not known: perhaps you meant `detach`"),
        ("INPUT_SUPERSEDE", "yes", "with.supersede: 'yes' is not known: known are true, false"),
        ("INPUT_JOB-NAME", "j-1", "with.job-name: `command: run` attaches to no job: write `command: attach`; a name for a new job is `set: job.name=NAME`"),
        ("INPUT_REGISTER", "perhaps", "with.register: 'perhaps' is not known: known are true, false, auto"),
        ("INPUT_LOG-LEVEL", "loud", "with.log-level: 'loud' is not known: known are debug, info, warning"),
        ("INPUT_FOCE-BUILD", "true", "with.foce-build: there is no such input: perhaps you meant `force-build`"),
        ("INPUT_WORKING_DIRECTORY", "x", "with.working_directory: there is no such input: perhaps you meant `working-directory`"),
        ("INPUT_WORKING-DIRECTORY", "nowhere", "with.working-directory: the folder 'nowhere' is not in the workspace: check the path; is actions/checkout an earlier step?"),
        ("INPUT_WORKING-DIRECTORY", "..", "with.working-directory: '..' leads out of the workspace: give a folder inside it"),
        ("INPUT_GATE-JUNIT", "../gate.xml", "with.gate-junit: '../gate.xml' leads out of the workspace: give a file inside the workspace"),
        ("INPUT_GATE-JUNIT", "/gate.xml", "with.gate-junit: '/gate.xml' leads out of the workspace: give a file inside the workspace"),
        ("INPUT_GATE-JUNIT", ".", "with.gate-junit: '.' is a folder: give a file inside the workspace"),
    ],
)  # fmt: skip
def test_what_is_not_known_is_told_by_name(variable: str, value: str, complaint: str, tmp_path: Path) -> None:
    assert complaints(tmp_path, {variable: value}) == [complaint]


def test_the_report_of_the_gate_is_a_file_of_the_workspace(tmp_path: Path) -> None:
    inputs = read(tmp_path, gate__junit="reports/gate.xml")
    assert inputs.gate_junit == tmp_path / "reports/gate.xml"
    assert inputs.command_line(tmp_path)[-2:] == ("--gate-junit", "reports/gate.xml")
    assert read(tmp_path).gate_junit is None


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    assert len(complaints(tmp_path, {"INPUT_WAIT": "x", "INPUT_FRESH": "y", "INPUT_COMMAND": "z"})) == 3


def test_a_link_out_of_the_workspace_is_refused(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    workspace.mkdir()
    (workspace / "link").symlink_to(tmp_path)
    assert "leads out" in complaints(workspace, {"INPUT_WORKING-DIRECTORY": "link"})[0]


@pytest.mark.parametrize(("given", "register"), [("", None), ("Auto", None), ("TRUE", True), ("false", False)])
def test_the_input_says_whether_to_register_or_leaves_it_to_the_event(
    given: str, register: bool | None, tmp_path: Path
) -> None:
    assert read_inputs({"INPUT_REGISTER": given}, tmp_path).register is register


def test_the_step(tmp_path: Path) -> None:
    step = read_step(
        {
            "GITHUB_WORKSPACE": str(tmp_path),
            "GITHUB_OUTPUT": "/o",
            "GITHUB_STEP_SUMMARY": "/s",
            "GITHUB_REPOSITORY": "a/b",
        }
    )
    assert (step.workspace, step.output, step.summary, step.title) == (tmp_path, Path("/o"), Path("/s"), "b")
    assert read_step({}).output is None
