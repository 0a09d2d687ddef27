"""Text on a terminal: without control sequences; facts as YAML or JSON."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from typing import Any

import click
import yaml

from aml_train.cli.masking import masker
from aml_train.cli.result import print_result
from aml_train.core.text import printable as printable
from aml_train.core.text import printable_line as plain_line
from aml_train.core.text import printable_lines as printable_lines


def printable_line(text: str) -> str:
    """Return *text* masked and made printable, on one line, which may be cut."""
    shown = plain_line(text)
    return masker().mask(shown) if click.get_current_context(silent=True) is not None else shown


def terminal_width() -> int | None:
    """Return the width of the terminal that standard output is; None if it is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def print_facts(facts: Mapping[str, Any], *, as_json: bool) -> None:
    """Print nested values as YAML, which reads well, or as JSON."""
    if as_json:
        print_result(facts)
        return

    text = yaml.safe_dump(facts, sort_keys=False, allow_unicode=True, width=120)
    click.echo(printable_lines(text.rstrip("\n")))
