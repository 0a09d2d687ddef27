"""The pages of the command line and of the action, from click and action.yml."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click
import yaml

from aml_train.cli.main import cli
from scripts.docs.markdown import code, page, paragraph, table

_PROGRAM: Final = "aml-train"
#: click's mark before a block that is not wrapped.
_KEPT: Final = "\b"


def command_line() -> str:
    """Return the page of all commands, in the order of the help."""
    context = click.Context(cli, info_name=_PROGRAM)
    sections = [part for command in _commands(cli, context) for part in command]
    intro = "All commands with their options, as `--help` shows them. Shell completion comes from click:"
    completion = code(f'eval "$(_AML_TRAIN_COMPLETE=bash_source {_PROGRAM})"   # or zsh_source', "bash")
    return page("Command line", paragraph(intro), completion, *sections)


def _commands(command: click.Command, context: click.Context) -> Iterator[tuple[str, ...]]:
    yield _section(command, context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from _commands(below, click.Context(below, info_name=name, parent=context))


def _section(command: click.Command, context: click.Context) -> tuple[str, ...]:
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    records = [record for option in options if (record := option.get_help_record(context))]
    usage = " ".join((context.command_path, *command.collect_usage_pieces(context)))
    parts = [f"## {context.command_path}", *_prose(command.help or ""), code(usage)]
    if records:
        parts.append(table(("option", "effect"), ((f"`{names}`", text) for names, text in records)))
    if command.epilog:
        parts.extend(_prose(command.epilog))
    return tuple(parts)


def _prose(text: str) -> Iterator[str]:
    """Yield a help text's paragraphs wrapped, and its kept blocks as code."""
    for part in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        if part.startswith(_KEPT):
            yield code(part.removeprefix(_KEPT))
        elif part.strip():
            yield paragraph(part)


def action(root: Path) -> str:
    """Return the page of the action's inputs and outputs, from action.yml."""
    document = yaml.safe_load((root / "action.yml").read_text(encoding="utf-8"))
    inputs: dict[str, Any] = document["inputs"]
    return page(
        "Action: inputs and outputs",
        paragraph(
            "The text of action.yml, which editors and GitHub show. [The GitHub action](../action.md) explains them "
            "with examples."
        ),
        "## Inputs",
        table(
            ("input", "default", "meaning"), ((f"`{n}`", _default(o), o["description"]) for n, o in inputs.items())
        ),
        "## Outputs",
        table(("output", "value"), ((f"`{n}`", _sentence(o["description"])) for n, o in document["outputs"].items())),
    )


def _default(one: dict[str, Any]) -> str:
    value = str(one.get("default", ""))
    return f"`{value}`" if value else ""


def _sentence(text: str) -> str:
    return text.strip()
