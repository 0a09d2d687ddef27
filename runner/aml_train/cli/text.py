"""Text on a terminal: without control sequences; facts as YAML or JSON."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Mapping
from typing import Any, Final

import click

from aml_train.core.text import is_plain

#: Escape sequences of foreign text could take the terminal over.
_ESCAPES: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)


def printable(text: str) -> str:
    """Return *text* without escape sequences and control characters but the tab.

    Commands to GitHub's runner lose their effect, too: it obeys ``##[`` anywhere in a line (actions/runner, ``ActionCommand.cs``),
    and the command line may run in a workflow's ``run:``.
    """
    shown = text if is_plain(text) else _ESCAPES.sub("", text)
    return shown.replace("##[", "##\N{ZERO WIDTH SPACE}[")


def printable_lines(text: str) -> str:
    """Return *text* made printable line by line."""
    return "\n".join(printable(line) for line in text.split("\n"))


def printable_line(text: str) -> str:
    """Return *text* made printable, on one line."""
    return printable(" ".join(text.split()))


def terminal_width() -> int | None:
    """Return the width of the terminal that standard output is; None if it is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def print_facts(facts: Mapping[str, Any], *, as_json: bool) -> None:
    """Print nested values as YAML, which reads well, or as JSON."""
    if as_json:
        from aml_train.cli.result import print_result

        print_result(facts)
        return
    import yaml

    text = yaml.safe_dump(facts, sort_keys=False, allow_unicode=True, width=120)
    click.echo(printable_lines(text.rstrip("\n")))
