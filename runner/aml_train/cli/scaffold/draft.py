"""The values of ``init``: a job to choose, and the proposed configuration as text with reasons."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import yaml

from aml_train.cli.scaffold.project import Document, Project, TextFile, folder_of, is_submitter
from aml_train.config.yaml.nodes import Mark

Value = str | int | float | bool


@dataclass(frozen=True, kw_only=True)
class Item:
    """One key of the configuration.

    Attributes:
        key: its name.
        value: a scalar, a list of scalars, or further keys.
        why: why it was chosen.
        origin: the file and line that it was read from; None for a default.
        proposed: written as a comment, because only the user can decide on it.
    """

    key: str
    value: Value | Sequence[Value] | Sequence[Item]
    why: str = ""
    origin: Mark | None = None
    proposed: bool = False

    @property
    def reason(self) -> str:
        """Origin and reason in one line."""
        where = self.origin.where if self.origin else ""
        return ": ".join(part for part in (where, self.why) if part)


@dataclass(frozen=True, kw_only=True)
class Environment:
    """A job's environment; each part with its place in a file, or None.

    Attributes:
        name: an environment that is registered elsewhere.
        base: an image.
        conda: the path of a conda file in the project.
        inline_conda: conda packages that are listed in the job itself.
        dockerfile: the path of a Dockerfile and the folder it is built in.
    """

    name: tuple[Mark, str] | None = None
    base: tuple[Mark, str] | None = None
    conda: tuple[Mark, str] | None = None
    inline_conda: Mark | None = None
    dockerfile: tuple[Mark, str, str] | None = None


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A job that the configuration may be for.

    Attributes:
        path: the file that defines it.
        noun: its kind in words.
        what: its command, in short.
        code: the folder of its code.
        document: its YAML, unless it is a pipeline or sweep, which has no command of its own.
        items: the job's keys, if no YAML has them.
        reads: files and folders of the project that its script reads.
        notes: findings that the user should know.
    """

    path: str
    noun: Literal["command job", "pipeline job", "sweep job", "run configuration of SDK v1", "script"]
    mark: Mark
    what: str
    code: str
    environment: Environment = field(default_factory=Environment)
    document: Document | None = None
    items: Sequence[Item] = ()
    reads: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(kw_only=True)
class Draft:
    """A proposed configuration, as it grows.

    Attributes:
        project: what was found.
        job: the job that was chosen.
        tests: the folders of the tests that are to run in the image.
        items: the keys, in their order.
        notes: findings that were not used, and points to check.
    """

    project: Project
    job: Candidate
    tests: Sequence[str]
    items: list[Item] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def home(self) -> str:
        """The folder of the script that the command names, which the job's environment is nearest to; else that of its code."""
        document = self.job.document
        words = document.said("command").split() if document is not None else [self.job.path]
        code = self.job.code if document is not None else "."
        paths = (posixpath.normpath(posixpath.join(code, word)) for word in words)
        return next((folder_of(path) for path in paths if path in self.project.files), self.job.code)

    @property
    def code(self) -> list[TextFile]:
        """The Python files of the job's code, without those that submit jobs."""
        lead = "" if self.job.code in ("", ".") else f"{self.job.code}/"
        return [one for one in self.project.scripts if one.path.startswith(lead) and not is_submitter(one)]


HEADER = """\
# A first configuration, written by `aml-train init`. Each guess has its origin as a comment: review them, then run
# `aml-train validate`. docs/configuration.md has every key.
"""


def render(items: Sequence[Item]) -> str:
    """Return the text of the configuration; each value that was read or guessed has its reason as a comment."""
    lines = HEADER.splitlines()
    for item in items:
        lines += [f"# {line}" for line in _lines(item)] if item.proposed else _lines(item)
    return "\n".join(lines) + "\n"


def _lines(item: Item, indent: str = "") -> list[str]:
    comment = f"   # {' '.join(item.reason.split())}" if item.reason else ""
    key = f"{indent}{scalar(item.key)}:"
    if isinstance(item.value, str | int | float | bool):
        return [f"{key} {scalar(item.value)}{comment}"]
    found = [f"{key}{comment}"]
    for inner in item.value:
        found += _lines(inner, f"{indent}  ") if isinstance(inner, Item) else [f"{indent}  - {scalar(inner)}"]
    return found


def scalar(value: Value) -> str:
    """Return a scalar as YAML on one line, quoted if YAML would read another type."""
    text: str = yaml.safe_dump(value, default_flow_style=True, width=1_000_000, allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...")
