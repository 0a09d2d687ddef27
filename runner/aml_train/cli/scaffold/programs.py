"""The Python files that a shell command runs. Pure."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from aml_train.cli.scaffold.imports import Code

_PYTHON: Final = re.compile(r"(?:.*/)?python(?:\d(?:\.\d+)?)?")
_LAUNCHERS: Final = frozenset(
    {"torchrun", "deepspeed", "accelerate", "horovodrun", "mpirun", "mpiexec", "torch.distributed.run"}
)
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_HERE: Final = re.compile(r"^(?:\$PWD|\$\{PWD\}|\$\(pwd\))(?:/|$)")


@dataclass(frozen=True, kw_only=True)
class Program:
    """A Python file that a command runs.

    Attributes:
        path: the file, relative to the code; the folder's files are tests if *tests* is set.
        roots: the folders of its ``sys.path`` that are in the code.
        certain: whether these are all of them.
        tests: paths that pytest or unittest collects, instead of *path*.
    """

    path: str = ""
    roots: tuple[str, ...] = ()
    certain: bool = True
    tests: tuple[str, ...] | None = None


def programs(command: str, code: Code, variables: Mapping[str, str] | None = None, root: str = "") -> list[Program]:
    """Return the Python programs of a shell command, as far as its text shows them.

    Args:
        command: a command line; ``cd``, ``export`` and assignments are followed.
        code: the files of the folder that it starts in.
        variables: its environment variables.
        root: the absolute path of that folder in the container, as in ``PYTHONPATH``.
    """
    here, path, certain = "", *_python_path((variables or {}).get("PYTHONPATH", ""), "", root)
    found: list[Program] = []
    for words in _simple_commands(command):
        rest = list(words)
        own_path, own_certain = path, certain
        while rest and (match := _ASSIGNMENT.fullmatch(rest[0])):
            if match[1] == "PYTHONPATH":
                own_path, own_certain = _python_path(match[2], here, root)
            rest = rest[1:]
        if rest[:1] == ["cd"] and len(rest) == 2:
            here = posixpath.normpath(posixpath.join(here, rest[1]))
        elif rest[:1] == ["export"]:
            for word in rest[1:]:
                if word.startswith("PYTHONPATH="):
                    path, certain = _python_path(word.partition("=")[2], here, root)
        elif rest:
            one = _program(rest, code, "" if here == "." else here, own_path)
            if one is not None:
                found.append(
                    one if own_certain else Program(path=one.path, roots=one.roots, certain=False, tests=one.tests)
                )
    return found


def _simple_commands(command: str) -> Iterator[list[str]]:
    """Yield the words of each simple command; nothing of what no shell could split."""
    joined = re.sub(r"\\\n", " ", command).replace("\n", " ; ")
    lexer = shlex.shlex(re.sub(r"\$[{\[]{2}.*?[}\]]{2}", "X", joined), posix=True, punctuation_chars=";&|()")
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    try:
        for word in lexer:
            if set(word) <= set(";&|()"):
                yield words
                words = []
            else:
                words.append(word)
    except ValueError:  # an open quotation: the shell reports it
        return
    yield words


def _python_path(text: str, here: str, root: str) -> tuple[tuple[str, ...], bool]:
    """Return the folders of a PYTHONPATH in the code, and whether these are all."""
    folders: list[str] = []
    certain = True
    for entry in (one for one in text.split(":") if one):
        if entry in ("$PYTHONPATH", "${PYTHONPATH}"):
            continue
        inner = _HERE.sub("", entry)
        if root and (inner == root or inner.startswith(f"{root}/")):
            inner = inner[len(root) :].lstrip("/")
        elif inner.startswith(("/", "~", "..")) or "$" in inner:
            certain = False
            continue
        folder = posixpath.normpath(posixpath.join(here, inner))
        folders.append("" if folder == "." else folder)
    return tuple(folders), certain


def _program(words: Sequence[str], code: Code, here: str, path: tuple[str, ...]) -> Program | None:
    name = posixpath.basename(words[0])
    if name == "pytest":
        return _tests(words[1:], here, path)
    if name in _LAUNCHERS:
        inner = next((at for at, word in enumerate(words[1:], 1) if _PYTHON.fullmatch(word)), None)
        return _program(words[inner:], code, here, path) if inner else _script(words[1:], code, here, path)
    if _PYTHON.fullmatch(words[0]) is None:
        return None
    rest = list(words[1:])
    while rest and rest[0].startswith("-") and rest[0] not in ("-m", "-c"):
        rest = rest[2:] if rest[0] in ("-X", "-W") else rest[1:]
    if not rest or rest[0] == "-c":
        return None
    if rest[0] != "-m":
        return _script(rest[:1], code, here, path)
    if rest[1:2] in (["pytest"], ["unittest"]):
        arguments = rest[2:] if rest[1] == "pytest" else [word for word in rest[2:] if word not in ("discover", "-s")]
        return _tests(arguments, here, (here, *path))
    if len(rest) > 1 and rest[1] in (
        "torch.distributed.run",
        "torch.distributed.launch",
        "accelerate.commands.launch",
    ):
        return _script(rest[2:], code, here, path)
    found = code.find(rest[1], (here, *path)) if len(rest) > 1 else None
    if found is None:
        return None
    file = f"{found[0].removesuffix('__init__.py')}__main__.py" if found[0].endswith("__init__.py") else found[0]
    return Program(path=file, roots=(here, *path))


def _script(words: Sequence[str], code: Code, here: str, path: tuple[str, ...]) -> Program | None:
    for word in words:
        file = posixpath.normpath(posixpath.join(here, _HERE.sub("", word)))
        if word.endswith(".py") and file in code.paths:
            return Program(path=file, roots=(posixpath.dirname(file), *path))
    return None


def _tests(words: Sequence[str], here: str, path: tuple[str, ...]) -> Program:
    named = [
        posixpath.normpath(posixpath.join(here, word.partition("::")[0]))
        for word in words
        if not word.startswith("-")
    ]
    return Program(roots=path, tests=tuple("" if one == "." else one for one in named) or (here,))
