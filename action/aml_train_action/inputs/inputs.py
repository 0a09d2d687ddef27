"""The inputs of the action, checked, and the configuration that they lead to.

Source: actions/runner gives a container action each input as ``INPUT_`` and its name in upper case, spaces as ``_``, hyphens
kept; inputs that are not given are there with their defaults.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, cast, get_args

from aml_train.config.load import load_config
from aml_train.core.errors import Fault, InvalidError
from aml_train_action.github.log import LogLevel
from aml_train_action.inputs.azure import AzureInputs, read_azure
from aml_train_action.inputs.promotion import PromotionInputs, read_promotion

if TYPE_CHECKING:
    from aml_train.config.model import Config

Command = Literal["run", "attach", "validate", "plan", "doctor", "promote", "rollback", "report"]
OnCancel = Literal["cancel", "detach"]

#: Name → default of every input of action.yml.
INPUTS: Final[Mapping[str, str]] = {
    "command": "run",
    "config": "",
    "target": "",
    "job": "",
    "set": "",
    "client-id": "",
    "tenant-id": "",
    "subscription-id": "",
    "client-secret": "",
    "creds": "",
    "environment": "",
    "resource-group": "",
    "workspace": "",
    "registry": "",
    "compute": "",
    "wait": "true",
    "timeout": "",
    "on-cancel": "",
    "supersede": "false",
    "job-name": "",
    "register": "auto",
    "model": "",
    "to": "",
    "expect": "",
    "reason": "",
    "dry-run": "false",
    "github-token": "",
    "workflow": "",
    "fresh": "false",
    "force-build": "false",
    "gate-junit": "",
    "working-directory": ".",
    "log-level": "info",
}
#: Inputs that mean nothing to other commands than ``report``.
REPORT_INPUTS: Final = ("github-token", "workflow")
_WORKFLOW: Final = re.compile(r"[A-Za-z0-9_.-]+\.ya?ml")
#: GitHub's own inputs of container actions.
_RUNNER_INPUTS: Final = frozenset({"args", "entrypoint"})
_BOOLEANS: Final = {"true": True, "false": False, "auto": None}


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """The inputs of a step.

    Attributes:
        command: the command.
        config: the configuration, relative to *directory*; None for the default one.
        target: one of the configuration's targets; None for its default.
        job: another job than the configuration's, relative to *directory*.
        sets: changes of the configuration, ``key=value``, in order; *timeout* is among them.
        azure: the sign-in to Azure, and the workspace.
        wait: whether the job is followed to its end.
        supersede: whether older runs of the same pull request or branch are cancelled.
        job_name: the job that ``attach`` attaches to; None for the latest one of the configuration.
        register: whether the model is registered; None leaves it to :func:`aml_train_action.github.proposals.why_proposed`.
        promotion: the model and the stage; None for other commands.
        github_token: the workflow's own token.
        workflow: the file of the workflow whose reports are shown, in .github/workflows.
        fresh: whether to train again.
        force_build: whether to build again.
        gate_junit: the file that gets a JUnit report of the gate; absolute, inside the workspace; None for none.
        directory: the project folder; absolute, inside the workspace.
        log_level: how much is shown.
    """

    command: Command
    config: Path | None
    target: str | None
    job: Path | None
    sets: tuple[str, ...]
    azure: AzureInputs = field(default_factory=AzureInputs)
    wait: bool
    supersede: bool = False
    job_name: str | None = None
    register: bool | None = None
    promotion: PromotionInputs | None = None
    github_token: str = field(default="", repr=False)
    workflow: str = ""
    fresh: bool
    force_build: bool
    gate_junit: Path | None = None
    directory: Path
    log_level: LogLevel

    def command_line(self, workspace: Path, changes: Sequence[str] = ()) -> tuple[str, ...]:
        """Return the equivalent command line, to run in the repository's root.

        It has no secret. *changes* are those that inputs have made to the configuration.
        """
        words = ["aml-train", self.command]
        if self.directory != workspace:
            words += ["-C", self.directory.relative_to(workspace).as_posix()]
        for option, value in (("--config", self.config), ("--job", self.job), ("--target", self.target)):
            words += [option, str(value)] if value else []
        if self.promotion is not None:
            return (*words, *self.promotion.words())
        for change in (*self.sets, *changes):
            words += ["--set", change]
        if self.command == "run":
            flags = (("--fresh", self.fresh), ("--force-build", self.force_build), ("--no-wait", not self.wait))
            words += [flag for flag, given in flags if given]
        if self.command in ("run", "attach") and self.register is False:
            words.append("--no-register")
        if self.command in ("run", "attach") and self.gate_junit is not None:
            words += ["--gate-junit", self.gate_junit.relative_to(workspace).as_posix()]
        if self.command == "attach" and self.job_name:
            words.append(self.job_name)
        return tuple(words)


def read_inputs(environ: Mapping[str, str], workspace: Path) -> Inputs:
    """Return the inputs, checked.

    Raises:
        InvalidError: with every fault, each under the input's name.
    """
    faults: list[Fault] = []
    given = _given(environ, faults)

    def text(name: str) -> str:
        return given.get(name, "").strip() or INPUTS[name]

    def flag(name: str) -> bool:
        return _word(name, text(name).lower(), ("true", "false"), faults) == "true"

    def path(name: str) -> Path | None:
        return Path(text(name)) if text(name) else None

    directory = _directory(text("working-directory"), workspace, faults)
    log_level = text("log-level")
    if environ.get("RUNNER_DEBUG") == "1" and log_level == INPUTS["log-level"]:
        log_level = "debug"
    sets = [line.strip() for line in given.get("set", "").splitlines() if line.strip()]
    if timeout := text("timeout"):
        sets.append(f"watch.timeout={timeout}")
    if text("on-cancel"):
        sets.append(f"watch.on-cancel={_word('on-cancel', text('on-cancel'), get_args(OnCancel), faults)}")
    command = cast("Command", _word("command", text("command"), get_args(Command), faults))
    if text("job-name") and command != "attach":
        remedy = "write `command: attach`; a name for a new job is `set: job.name=NAME`"
        faults.append(Fault(where="with.job-name", what=f"`command: {command}` attaches to no job", remedy=remedy))
    if command == "report" and not _WORKFLOW.fullmatch(text("workflow")):
        what = f"{text('workflow')!r} is no file of a workflow whose reports are shown"
        remedy = "write the name of its file in .github/workflows, such as `workflow: train.yml`"
        faults.append(Fault(where="with.workflow", what=what, remedy=remedy))
    for name in REPORT_INPUTS if command != "report" else ():
        if text(name):
            what = f"`command: {command}` does not use it"
            faults.append(Fault(where=f"with.{name}", what=what, remedy="write `command: report`, or delete it"))
    promotion = read_promotion(
        text,
        command=command,
        dry_run=flag("dry-run"),
        sets=bool(given.get("set", "").strip()),
        faults=faults,
    )
    inputs = Inputs(
        command=command,
        config=path("config"),
        target=text("target") or None,
        job=path("job"),
        sets=tuple(sets),
        azure=read_azure(given, environ, faults),
        wait=flag("wait"),
        supersede=flag("supersede"),
        job_name=text("job-name") or None,
        register=_BOOLEANS.get(_word("register", text("register").lower(), tuple(_BOOLEANS), faults)),
        promotion=promotion,
        github_token=text("github-token"),
        workflow=text("workflow"),
        fresh=flag("fresh"),
        force_build=flag("force-build"),
        gate_junit=_output_file("gate-junit", text("gate-junit"), workspace, faults),
        directory=directory,
        log_level=cast("LogLevel", _word("log-level", log_level, get_args(LogLevel), faults)),
    )
    if faults:
        raise InvalidError(faults)
    return inputs


def _given(environ: Mapping[str, str], faults: list[Fault]) -> dict[str, str]:
    """Return name → text of each input; a misspelt one is a fault."""
    given: dict[str, str] = {}
    for variable, value in environ.items():
        if not variable.startswith("INPUT_"):
            continue
        name = variable.removeprefix("INPUT_").lower()
        if name in INPUTS:
            given[name] = value
        elif name not in _RUNNER_INPUTS and value:
            near = difflib.get_close_matches(name.replace("_", "-"), INPUTS, n=1)
            remedy = f"perhaps you meant `{near[0]}`" if near else f"known are {', '.join(INPUTS)}"
            faults.append(Fault(where=f"with.{name}", what="there is no such input", remedy=remedy))
    return given


def _word(name: str, text: str, words: tuple[str, ...], faults: list[Fault]) -> str:
    if text not in words:
        near = difflib.get_close_matches(text, words, n=1)
        remedy = f"perhaps you meant `{near[0]}`" if near else f"known are {', '.join(words)}"
        faults.append(Fault(where=f"with.{name}", what=f"{text!r} is not known", remedy=remedy))
    return text


def _output_file(name: str, text: str, workspace: Path, faults: list[Fault]) -> Path | None:
    """Return the absolute path of a file that is written; None for none."""
    if not text:
        return None
    where = f"with.{name}"
    path = (workspace / text).resolve()
    if not path.is_relative_to(workspace.resolve()) or path.is_dir():
        what = f"{text!r} is a folder" if path.is_dir() else f"{text!r} leads out of the workspace"
        faults.append(Fault(where=where, what=what, remedy="give a file inside the workspace"))
        return None
    return workspace / path.relative_to(workspace.resolve())


def _directory(text: str, workspace: Path, faults: list[Fault]) -> Path:
    where = "with.working-directory"
    path = workspace / text
    if not path.is_dir():
        remedy = "check the path; is actions/checkout an earlier step?"
        faults.append(Fault(where=where, what=f"the folder {text!r} is not in the workspace", remedy=remedy))
    elif not path.resolve().is_relative_to(workspace.resolve()):
        faults.append(
            Fault(where=where, what=f"{text!r} leads out of the workspace", remedy="give a folder inside it")
        )
    else:
        return workspace / path.resolve().relative_to(workspace.resolve())
    return workspace


def load_configuration(inputs: Inputs) -> tuple[Config, tuple[str, ...]]:
    """Load the configuration, with the changes that inputs make.

    Returns:
        the configuration, and the changes that inputs make to its target, as ``key=value``.

    Raises:
        InvalidError: with every fault; those in the value of an input under the input's name.
    """
    config = _load(inputs)
    target = config.target.name
    # `target: local` may be for pull requests only, next to inputs for other events.
    azure = inputs.azure.without_workspace() if inputs.target == "local" else inputs.azure
    changes = azure.changes(target)
    return (_load(inputs, *changes) if changes else config), changes


def _load(inputs: Inputs, *changes: str) -> Config:
    named = {
        f"--set {key}": f"with.{key.rpartition('.')[2]}" for key, _, _ in (one.partition("=") for one in changes)
    }
    try:
        return load_config(
            inputs.config,
            directory=inputs.directory,
            job=inputs.job,
            target=inputs.target,
            sets=(*inputs.sets, *changes),
        )
    except InvalidError as error:
        faults = [replace(fault, where=named.get(fault.where, fault.where)) for fault in error.faults]
        raise InvalidError(faults or error.message, hint=error.hint) from None
