"""Commands of ``submit`` and ``tests``: cut and quoted, and never run."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from aml_train.cli.scaffold.imports import imports_of, parse_source
from aml_train.config import CommandLine, load_command
from aml_train.config.job.command_line import quoted
from aml_train.config.shell import lost_failures
from fuzz.seeds import files
from fuzz.target import Target, require
from fuzz.targets._projects import check_load, project


def seeds() -> Sequence[Any]:
    """Return command lines, and the Python files that they may run."""
    commands = (
        "python train.py --rate 0.5",
        "cd src && export PYTHONPATH=.:lib && python -m digits.train",
        "pytest -q tests; echo $?",
        'bash -c "pytest -x && true"',
        "python -m pytest tests | tee log && A=b python3 -c 'import digits'",
    )
    sources = files("examples/**/src/**/*.py")
    return [{"command": one, "source": sources[number % len(sources)]} for number, one in enumerate(commands)]


def check(value: Any) -> None:
    """Read a command line in every way in which it is read."""
    command = value.get("command") if isinstance(value, dict) else None
    source = value.get("source") if isinstance(value, dict) else None
    if not isinstance(command, str) or not isinstance(source, str):
        return
    require(all(text in command for _, text in lost_failures(command)), "a lost failure is no part of the command")
    if (tree := parse_source(source)) is not None:
        list(imports_of(tree, "a/train.py"))
    words = command.split(" ")
    if not any("\0" in word for word in words):
        require(shlex.split(quoted(words)) == words, "quoting changes a word")
        folder = project("arguments")
        (folder / "aml-train.yml").write_text("image: {base: python}\n")
        given = CommandLine(
            arguments=tuple(words), tags={"a": words[-1]}, variables={"A": words[0]}, shm_size=words[-1]
        )
        check_load(lambda: load_command(None, given, directory=folder))


TARGET = Target(
    kind="json",
    reads=(
        "aml_train.config.job.command_line",
        "aml_train.config.shell",
        "aml_train.cli.scaffold.imports",
    ),
    seeds=seeds,
    check=check,
    words=(
        "python",
        "-m",
        "pytest",
        "-c",
        "&&",
        "||",
        ";",
        "|",
        "cd ",
        "export A=b",
        "import x",
        "from . import y",
        "if x:\n",
        "\\\n",
    ),
)
