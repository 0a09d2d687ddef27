"""Whether a command line runs pytest, from its words as a shell sees them. Pure."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Sequence
from typing import Final

from aml_train.core.values import dataclass

_PYTEST: Final = re.compile(r"(?:.*/)?(?:pytest|py\.test)(?:-?3(?:\.\d+)?)?")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_SEPARATORS: Final = frozenset(";&|()\n")
_SHELL_WORDS: Final = frozenset({"{", "!", "if", "then", "else", "elif", "do", "while", "until"})
#: Commands that run the command which their arguments name, after options.
_WRAPPERS: Final = frozenset(
    {
        "exec",
        "time",
        "nice",
        "env",
        "timeout",
        "stdbuf",
        "setsid",
        "sudo",
        "xvfb-run",
        "mpirun",
        "mpiexec",
        "torchrun",
    }
)
#: Words after which the next one that is no option is a program: ``python -m pytest``, ``uv run pytest``.
_INTRODUCERS: Final = frozenset({"-m", "run"})


@dataclass(frozen=True, kw_only=True)
class Line:
    """A command line: its simple commands, and what follows each of them."""

    commands: tuple[tuple[str, ...], ...]
    separators: tuple[str, ...]


def split_line(command: str) -> Line:
    """Cut into simple commands (POSIX 2.9.1); unclosed quotes make one of all words."""
    lexer = shlex.shlex(command.replace("\\\n", " "), posix=True, punctuation_chars=";&|()<>\n")
    lexer.whitespace, lexer.whitespace_split = " \t\r", True
    try:
        words = list(lexer)
    except ValueError:
        return Line(commands=(tuple(command.split()),), separators=())
    commands: list[list[str]] = [[]]
    separators: list[str] = []
    for word in words:
        if not set(word) <= _SEPARATORS:
            commands[-1].append(word)
        elif commands[-1]:
            commands.append([])
            separators.append(word.strip("\n") or ";")
    return Line(commands=tuple(tuple(words) for words in commands if words), separators=tuple(separators))


def runs_pytest(command: str) -> bool:
    """Return whether *command* names pytest as a program, not through a script."""
    return any(_is_pytest(words) or _shell_runs_pytest(words) for words in split_line(command).commands)


def ends_as_pytest(command: str) -> bool:
    """Return whether pytest is last, joined by ``&&`` alone: its status counts."""
    line = split_line(command)
    last = line.commands[-1] if line.commands else ()
    return _is_pytest(last) and not _SHELL_WORDS & set(last) and set(line.separators) <= {"&&"}


def _program(words: Sequence[str]) -> Sequence[str]:
    """Return *words* from the program on, without assignments and shell keywords."""
    start = next(
        (number for number, word in enumerate(words) if not (_ASSIGNMENT.fullmatch(word) or word in _SHELL_WORDS)),
        len(words),
    )
    return words[start:]


def _is_pytest(words: Sequence[str]) -> bool:
    program = _program(words)
    for number, word in enumerate(program):
        if _PYTEST.fullmatch(word):
            before = program[:number]
            return not before or before[0] in _WRAPPERS or bool(_INTRODUCERS & set(before))
    return False


def _shell_runs_pytest(words: Sequence[str]) -> bool:
    """Return whether *words* are a shell that runs pytest: ``bash -ec "pytest -q"``."""
    pairs = itertools.pairwise(_program(words))
    return any(option.startswith("-") and option.endswith("c") and runs_pytest(text) for option, text in pairs)
