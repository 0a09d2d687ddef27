"""The command ``aml-train``: all commands in a group, imported when needed."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Final

import click

from aml_train.core.version import __version__

#: Each command's module, in the order of the help.
_COMMANDS: Final[Mapping[str, str]] = {
    "init": "init",
    "doctor": "doctor",
    "validate": "run",
    "plan": "run",
    "run": "run",
    "attach": "run",
    "submit": "submit",
    "jobs": "jobs",
    "compare": "compare",
    "model": "model",
    "verify": "passport",
    "promote": "model",
    "rollback": "model",
    "image": "image",
    "data": "data",
    "emulator": "emulator",
    "convert": "run",
    "schema": "run",
    "completion": "completion",
}


class _LazyGroup(click.Group):
    """A group that imports a command's module when the command is named."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command = getattr(import_module(f"aml_train.cli.{_COMMANDS[cmd_name]}"), cmd_name)
        assert isinstance(command, click.Command)  # noqa: S101 - a fault of the table above
        return command


_EPILOG: Final = """\b
Exit codes
  0 passed, submitted      3 image-failed     6 gate-failed
  1 error (ours)           4 tests-failed     7 cancelled, timed-out
  2 invalid                5 job-failed       8 service-error, not-responding, preempted
                                              9 not-verified
"""


@click.group(
    cls=_LazyGroup,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
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
