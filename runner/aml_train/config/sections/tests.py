"""The grammar of ``tests:`` in aml-train.yml. docs/configuration.md has the same keys."""

from __future__ import annotations

import re
from typing import Final

from aml_train.config.yaml.nodes import shown
from aml_train.config.yaml.shapes import Choice, Duration, Flag, Number, Text
from aml_train.config.yaml.structures import Either, Items, Key, Record, Table

_UNITS: Final = {"": 0, "b": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_SIZE_PATTERN: Final = "[1-9][0-9]{0,11}[kmgtKMGT]?[bB]?"


def check_pattern(text: str) -> None:
    """Raise ValueError where *text* is no gitignore pattern, such as ``!`` alone or ``[z-a]``."""
    import pathspec

    try:
        pathspec.GitIgnoreSpec.from_lines([text])
    except (ValueError, re.error) as error:
        raise ValueError(f"`{shown(text)}` is none: {error}") from error


PATTERN: Final = Text(noun="a glob pattern", rule=check_pattern)
"""A pattern of gitignore(5)."""


def size_in_bytes(text: str) -> int:
    """Return a size as Docker writes it: ``512m`` are mebibytes, a number alone bytes."""
    number = text.lower().rstrip("b")
    unit = number[-1:] if number[-1:].isalpha() else ""
    return int(number.removesuffix(unit)) << _UNITS[unit]


def inside(text: str) -> None:
    """Raise ValueError where a path leads out of the folder that it starts from."""
    if text.startswith("/") or ".." in text.split("/"):
        raise ValueError(f"`{shown(text)}` leads outside")


def size_shape(noun: str) -> Text:
    """Return the shape of a size such as `512m`; its value is in bytes."""
    return Text(noun=noun, pattern=_SIZE_PATTERN, convert=size_in_bytes, remedy="use the units k, m, g")


def tests_grammar(variables: Table) -> Record:
    """Return the grammar; *variables* is that of environment variables."""
    return Record(
        noun="a mapping with `command`",
        keys={
            "command": Key(Text(noun="a shell command"), "Command that runs inside the image.", required=True),
            "files": Key(
                Either(
                    noun="a glob pattern, or a list of them",
                    scalar=PATTERN,
                    items=Items(item=PATTERN, noun="a list of glob patterns"),
                ),
                "Files that the tests see, as gitignore patterns; every file that is not ignored by default.",
            ),
            "env": Key(variables, "Environment variables of the tests."),
            "workdir": Key(
                Text(noun="a folder inside the project", rule=inside),
                "Folder that the command runs in, relative to the project; the project itself by default.",
            ),
            "timeout": Key(Duration(), "Bound of the tests, in seconds or such as `30m`; `30m` by default."),
            "network": Key(Flag(), "Whether the tests may use the network; false by default."),
            "cpus": Key(
                Number(noun="a number of processors, such as 1.5", whole=False, minimum=0.01),
                "Processors that the tests may use; all by default.",
            ),
            "memory": Key(
                size_shape("a size such as `8g`"), "Memory that the tests may use, such as `8g`; all by default."
            ),
            "shm": Key(size_shape("a size such as `1g`"), "Size of `/dev/shm`, such as `8g`; `1g` by default."),
            "memlock": Key(
                Text(
                    noun="a size such as `1g`, or `unlimited`",
                    pattern=f"unlimited|{_SIZE_PATTERN}",
                    convert=lambda text: -1 if text == "unlimited" else size_in_bytes(text),
                ),
                "Memory that may be locked, or `unlimited`, as InfiniBand wants it; the engine's bound by default.",
            ),
            "gpus": Key(
                Choice(words=("auto", "none", "all")),
                "GPUs that the tests see: `auto` (all, where the engine has any; the default), `none`, or `all`.",
            ),
            "junit": Key(
                Text(noun="a path inside the container", rule=inside),
                "JUnit report that the command must write. Left out: pytest is told to write one.",
            ),
            "allow-empty": Key(Flag(), "Whether tests pass of which none was executed; false by default."),
        },
    )
