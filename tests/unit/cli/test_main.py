"""The group of all commands: its help does not import the commands."""

from __future__ import annotations

from collections.abc import Iterator

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


def test_help_groups_at_most_18_commands_and_imports_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> object:
        raise AssertionError(f"{name} is imported for the help of the whole")

    monkeypatch.setattr(main, "import_module", refuse)
    shown = main.cli.get_help(click.Context(main.cli, terminal_width=200, max_content_width=200))
    assert [task for task in main._TASKS if f"\n{task}:\n" not in shown] == []
    assert len(main._COMMANDS) <= 18


def test_the_short_option_of_a_file_means_one_thing() -> None:
    def walk(command: click.Command) -> Iterator[click.Parameter]:
        yield from command.params
        if isinstance(command, click.Group):
            for name in command.list_commands(click.Context(command)):
                below = command.get_command(click.Context(command), name)
                assert below is not None
                yield from walk(below)

    assert {one.opts[-1] for one in walk(main.cli) if "-o" in one.opts} == {"--output"}
