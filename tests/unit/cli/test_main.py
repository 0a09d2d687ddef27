"""The group of all commands: its help does not import the commands."""

from __future__ import annotations

import os
from typing import NoReturn

import click
import pytest

from aml_train.cli import main


def test_the_list_has_the_first_sentence_of_each_commands_own_help() -> None:
    context = click.Context(main.cli)
    for name, (_, sentence) in main._COMMANDS.items():
        command = main.cli.get_command(context, name)
        assert command is not None
        assert not command.hidden
        assert sentence == command.get_short_help_str(limit=1000)


def test_help_imports_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> object:
        raise AssertionError(f"{name} is imported for the help of the whole")

    monkeypatch.setattr(main, "import_module", refuse)
    shown = main.cli.get_help(click.Context(main.cli, terminal_width=200, max_content_width=200))
    assert [line.split()[0] for line in shown.partition("Commands:\n")[2].split("\n\n")[0].splitlines()] == list(
        main._COMMANDS
    )


@pytest.mark.parametrize(
    ("columns", "width"), [("60", 58), ("120", 98), ("20", 50), ("", 78), ("wide", 78), ("-5", 78)]
)
def test_help_is_as_wide_as_the_terminal_within_bounds(
    columns: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_terminal(_descriptor: int) -> NoReturn:
        raise OSError("not a terminal")

    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(os, "get_terminal_size", no_terminal)
    assert main.help_width() == width
    assert main.cli.make_context("aml-train", ["run"]).make_formatter().width == width
