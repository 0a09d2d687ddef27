"""The command ``aml-train``: all commands in a group, imported when needed."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

import click

from aml_train.core.text import whole
from aml_train.core.version import __version__

#: Each command's module and the first sentence of its help, in the order of the help.
_COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "init": ("init", "Write a first aml-train.yml for a repository."),
    "doctor": ("doctor", "Check everything that a run needs; change nothing."),
    "validate": ("validate", "Check the configuration and the job; report every fault."),
    "plan": ("run", "Show what a run would do, without changing anything."),
    "run": ("run", "Build and test the image, train, gate, register the model."),
    "attach": ("run", "Follow a submitted job, gate it, register its model."),
    "submit": ("submit", "Run any command as a job, with the current folder as its code."),
    "jobs": ("jobs", "List, show, follow, cancel, resubmit and download jobs."),
    "compare": ("compare", "Compare two jobs, models or files of metrics."),
    "report": ("report", "Write the report of a job as one HTML file, as Markdown or JSON."),
    "model": ("model", "List, show and download registered models, and trace their lineage."),
    "verify": ("passport", "Verify the passport of a model version, by default of the newest one."),
    "promote": ("model", "Promote a model version if it passes the stage's gate."),
    "rollback": ("model", "Return a stage to its previous model version."),
    "reproduce": ("reproduce", "Train a model version again from its lineage alone, and compare."),
    "image": ("image", "Build, check, render and enter the training image, or clean up; without a job."),
    "devcontainer": ("devcontainer", "Write or update .devcontainer/devcontainer.json with the tested image."),
    "data": ("data", "List, upload, download, copy and remove data of a workspace."),
    "emulator": ("emulator", "Manage the local AzureML, an emulator in a container."),
    "convert": ("validate", "Convert a run configuration of the SDK v1 to a command job."),
    "schema": ("validate", "Print the JSON Schema of aml-train.yml, for editors."),
    "completion": ("completion", "Print the script that completes aml-train's commands in a shell."),
}


#: The widest and the narrowest help, in columns; the narrowest is click's own.
_WIDEST: Final = 100
_NARROWEST: Final = 50


def help_width() -> int:
    """Return the columns of help texts.

    click looks the terminal's width up by ``shutil``, whose import of compression takes a tenth of the time of ``--help``.
    """
    columns = whole(os.environ.get("COLUMNS", "")) or 0
    if not columns:
        try:
            columns = os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ is not None else -1).columns
        except (OSError, ValueError):
            columns = 0
    return max(min(columns or 80, _WIDEST) - 2, _NARROWEST)


class _LazyGroup(click.Group):
    """A group that imports a command's module when the command is named.

    The list in its help takes the sentences of the table, because importing all modules takes longer than the rest.
    """

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        return super().make_context(info_name, args, parent, **{"terminal_width": help_width(), **extra})

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command = getattr(import_module(f"aml_train.cli.{_COMMANDS[cmd_name][0]}"), cmd_name)
        assert isinstance(command, click.Command)  # noqa: S101 - a fault of the table above
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, sentence) for name, (_, sentence) in _COMMANDS.items()])


_EPILOG: Final = """\b
Exit codes
  0 passed, submitted      3 image-failed     6 gate-failed
  1 error (ours)           4 tests-failed     7 cancelled, timed-out
  2 invalid                5 job-failed       8 service-error, not-responding, preempted
  10 outdated                                 9 not-verified
"""


@click.group(
    cls=_LazyGroup,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": _WIDEST},
)
@click.version_option(__version__, prog_name="aml-train", message="%(prog)s %(version)s")
def cli() -> None:
    """From a commit to a gated, registered model on Azure Machine Learning.

    \b
    aml-train init                  write a first aml-train.yml for this repository
    aml-train doctor                check everything that a run needs; change nothing
    aml-train run                   build, test, submit, follow, gate, register
    aml-train run --target azure    the same in an AzureML workspace
    aml-train jobs logs -f JOB      follow a job's log

    The target `local` needs no cloud: it is the local AzureML, an emulator in a container.
    """
