"""The command ``aml-train``: all commands in a group, imported when needed."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from importlib import import_module
from typing import Final

import click

from aml_train.core.version import __version__

#: By task, in the order of the help: each command's module and the first sentence of its help.
_TASKS: Final[Mapping[str, Mapping[str, tuple[str, str]]]] = {
    "Set up": {
        "init": ("init", "Write a first aml-train.yml for a repository."),
        "doctor": ("doctor", "Check everything that a run needs; change nothing."),
        "validate": ("validate", "Check the configuration and the job; report every fault."),
        "convert": ("validate", "Convert a run configuration of the SDK v1 to a command job."),
    },
    "Train": {
        "plan": ("run", "Show what a run would do, without changing anything."),
        "run": ("run", "Build and test the image, train, gate, register the model."),
        "attach": ("run", "Follow a submitted job, gate it, register its model."),
        "submit": ("submit", "Run any command as a job, with the current folder as its code."),
    },
    "Look": {
        "jobs": ("jobs", "List, show, follow, cancel, resubmit and download jobs; check resuming, measure noise."),
        "compare": ("compare", "Compare two jobs, models or files of metrics."),
        "report": ("report", "Write the report of a job as one HTML file, as Markdown or JSON."),
        "data": ("data", "List, upload, download, copy and delete data of a workspace."),
    },
    "Promote": {
        "model": ("model", "List, show, download and train again registered models, and trace their lineage."),
        "verify": ("passport", "Verify the passport of a model version, by default of the newest one."),
        "promote": ("model", "Promote a model version if it passes the stage's gate."),
        "rollback": ("model", "Return a stage to its previous model version."),
    },
    "Image": {
        "image": ("image", "Build, check, render and enter the training image, or clean up; without a job."),
    },
    "Local AzureML": {
        "emulator": ("emulator", "Manage the local AzureML, an emulator in a container."),
    },
}
_COMMANDS: Final = {name: one for commands in _TASKS.values() for name, one in commands.items()}
#: Commands of groups by the words that other tools have for them.
_MEANT: Final[Mapping[str, str]] = {
    "logs": "jobs logs", "log": "jobs logs", "status": "jobs show", "show": "jobs show", "ps": "jobs list", "cancel": "jobs cancel",
    "train": "run", "build": "image build",
}  # fmt: skip
_WIDEST: Final = 100


class _LazyGroup(click.Group):
    """A group that imports a command's module when the command is named.

    The list in its help takes the sentences of the table, because importing all modules takes longer than the rest.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command = getattr(import_module(f"aml_train.cli.{_COMMANDS[cmd_name][0]}"), cmd_name)
        assert isinstance(command, click.Command)  # noqa: S101 - a fault of the table above
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in _COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            near = [_MEANT[name]] if name in _MEANT else difflib.get_close_matches(name, _COMMANDS, n=3)
            hint = f" Did you mean {' or '.join(f'`aml-train {one}`' for one in near)}?" if near else ""
            raise click.UsageError(f"No such command '{name}'.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for task, commands in _TASKS.items():
            with formatter.section(task):
                formatter.write_dl([(name, sentence) for name, (_, sentence) in commands.items()])


_EPILOG: Final = """\b
Exit codes
  0 passed, submitted   4 tests-failed   8 service-error, not-responding,
  1 error (ours)        5 job-failed       preempted
  2 invalid             6 gate-failed    9 not-verified
  3 image-failed        7 cancelled,    10 outdated
                          timed-out
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
    aml-train init                write a first aml-train.yml for this repository
    aml-train doctor              check all that a run needs; change nothing
    aml-train run                 build, test, submit, follow, gate, register
    aml-train run --target azure  the same in an AzureML workspace
    aml-train jobs logs -f JOB    follow a job's log

    The target `local` needs no cloud: it is the local AzureML, an emulator in a container.
    """
