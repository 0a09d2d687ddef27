"""The inputs of `command: report`.

Each configuration has one comment in a pull request. Its name comes from the inputs alone, so that a configuration that cannot be read has the same
comment.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aml_train.core.errors import Fault

PULL_INPUTS: Final = ("report-file", "github-token", "workflow", "result")
_MEANING: Final[Mapping[str, tuple[str, ...]]] = {
    "report-file": ("run", "attach", "report"),
    "github-token": ("report",),
    "workflow": ("report",),
    "result": ("report",),
}
_WORKFLOW: Final = re.compile(r"[A-Za-z0-9_.-]+\.ya?ml")


@dataclass(frozen=True, kw_only=True)
class PullInputs:
    """The inputs about a pull request.

    Attributes:
        report_file: the report's file, relative to the workspace; empty for the default, or for artifacts.
        github_token: the workflow's token.
        workflow: the file of the workflow whose reports are shown, in .github/workflows.
        result: how the training job ended.
    """

    report_file: str = ""
    github_token: str = ""
    workflow: str = ""
    result: str = ""

    def __repr__(self) -> str:
        return f"PullInputs(report_file={self.report_file!r}, workflow={self.workflow!r})"


def read_pulls(text: Callable[[str], str], *, command: str, event: str, faults: list[Fault]) -> PullInputs:
    """Return the inputs, checked.

    Args:
        text: gives an input by its name.
        command: the command.
        event: GitHub's name of the event.
        faults: receives the faults.
    """
    for name, commands in _MEANING.items():
        if text(name) and command not in commands:
            words = " or ".join(f"`command: {one}`" for one in commands)
            what = f"`command: {command}` does not use it"
            faults.append(Fault(where=f"with.{name}", what=what, remedy=f"write {words}, or delete it"))
    workflow = text("workflow")
    if command == "report" and event == "workflow_run" and not _WORKFLOW.fullmatch(workflow):
        remedy = "write the name of its file in .github/workflows, such as `workflow: train.yml`"
        what = f"{workflow!r} is no file of a workflow whose reports are shown"
        faults.append(Fault(where="with.workflow", what=what, remedy=remedy))
    return PullInputs(
        report_file=text("report-file"),
        github_token=text("github-token"),
        workflow=workflow,
        result=text("result"),
    )


def configuration_name(environ: Mapping[str, str], workspace: Path) -> tuple[str, str]:
    """Return the names of the step's configuration and target, whatever else is wrong.

    Args:
        environ: the step's; inputs are ``INPUT_…`` in it.
        workspace: the root of the checkout.
    """

    def given(name: str) -> str:
        return environ.get(f"INPUT_{name.upper()}", "").strip()

    folder = given("working-directory") or "."
    name = given("config")
    if not name:
        try:
            bare = not (workspace / folder / "aml-train.yml").exists() and (workspace / folder / "job.yml").exists()
        except (OSError, ValueError):
            bare = False
        name = "job.yml" if bare else "aml-train.yml"
    path = posixpath.normpath(posixpath.join(folder, name))
    return (f"{path}, {given('job')}" if given("job") else path), given("target")
