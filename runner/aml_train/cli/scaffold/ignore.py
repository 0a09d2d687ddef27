"""A proposed .amlignore: changes of docs, tests and notebooks start no new job."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aml_train.cli.scaffold.project import MAX_DEPTH, Project
from aml_train.config import Config
from aml_train.core.files import FileSet
from aml_train.pipeline import mentioned

NAME: Final = ".amlignore"
_HEADER: Final = """\
# Written by `aml-train init`: files that the job does not need. Their changes start no new job.
"""
_INSTEAD: Final = "# AzureML reads this file instead of .gitignore. The lines of .gitignore:\n"
_DOCS: Final = ("doc", "docs", "documentation")
_TESTS: Final = ("test", "tests")
_NOTEBOOKS: Final = ("notebooks",)
_MOST_LOOKED_AT: Final = 20_000


@dataclass(frozen=True, kw_only=True)
class Pattern:
    """A line of the file, and why it is there."""

    text: str
    why: str


@dataclass(frozen=True, kw_only=True)
class IgnoreFile:
    """The file: its path, its text, and the lines added to those of .gitignore."""

    path: str
    text: str
    patterns: tuple[Pattern, ...]


def propose_ignore(
    directory: Path, config: Config, project: Project, reads: Sequence[str] = ()
) -> tuple[IgnoreFile | None, list[str]]:
    """Return the .amlignore of the code folder, and notes on data that cannot be sent.

    There is no file if one exists or none is useful. Files and folders that the job or a script names stay in the snapshot.

    Args:
        directory: the project folder.
        config: the configuration that is proposed.
        project: what was found.
        reads: files and folders of the project that the script reads.
    """
    code, root = config.job.code, Path(os.path.abspath(directory))  # noqa: PTH100 - links stay
    if code is None or not code.is_dir() or not code.is_relative_to(root):
        return None, []
    lead = code.relative_to(root).as_posix()
    lost = [
        path
        for path in _unsent(root, code, [os.path.relpath(root / path, code) for path in reads])
        if ".." not in path
    ]
    where = [path if lead == "." else f"{lead}/{path}" for path in lost]
    if os.path.lexists(code / NAME):
        return None, [
            f"{path}: the script reads it, and {NAME} leaves it out: add the line `!/{path}`" for path in where
        ]
    notes = [
        f"{path}: git ignores it, so a workflow's checkout lacks it: store it by `aml-train data upload`, and name it under `data`"
        for path in where
    ]
    notes += [
        f"{path}: larger than a code snapshot may be: store it by `aml-train data upload`, and name it under `data`"
        for path in reads
        if _bytes(root / path) > config.code.max_size
    ]
    known = mentioned(config) + "\n".join(script.text for script in project.scripts)
    patterns = (
        *_patterns(code, known),
        *(
            Pattern(text=f"!/{path}{'/' if (code / path).is_dir() else ''}", why="the script reads it")
            for path in lost
        ),
    )
    if not patterns:
        return None, notes
    ignored = _gitignore(code)
    if ignored is None:
        return None, notes
    head = f"{_HEADER}{_INSTEAD}{ignored}\n" if ignored else _HEADER
    text = head + "".join(f"# {one.why}\n{one.text}\n" for one in patterns)
    return IgnoreFile(path=(code / NAME).relative_to(root).as_posix(), text=text, patterns=patterns), notes


def _unsent(root: Path, code: Path, reads: Sequence[str]) -> list[str]:
    """Return the .amlignore of the code folder, and notes on unsent data."""
    there = [path for path in reads if not path.startswith("..") and (code / path).exists()]
    if not there:
        return []
    sent = {entry.path for entry in FileSet.collect_code(code, project=root).entries}
    return [path for path in there if path not in sent and not any(one.startswith(f"{path}/") for one in sent)]


def _bytes(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


def _patterns(code: Path, known: str) -> Iterator[Pattern]:
    with os.scandir(code) as found:
        items = sorted(found, key=lambda item: item.name)
    folders = [item.name for item in items if item.is_dir()]
    for names, why in (
        (_DOCS, "documentation"),
        (_TESTS, "tests, which run before the job"),
        (_NOTEBOOKS, "notebooks"),
    ):
        for name in folders:
            if name.lower() in names and not _mentions(known, name):
                yield Pattern(text=f"/{name}/", why=why)
    if any(item.name.endswith(".log") for item in items) and ".log" not in known:
        yield Pattern(text="/*.log", why="logs, which differ after each run")
    pages = any(item.name.lower().endswith(".md") and item.is_file() for item in items)
    if pages and ".md" not in known and "pip install" not in known:  # a package may read its README
        yield Pattern(text="/*.md", why="documentation")
    if ".ipynb" not in known and _has_notebooks(code):
        yield Pattern(text="*.ipynb", why="notebooks, which change whenever they are run")


def _mentions(known: str, name: str) -> bool:
    """Return whether a text may name the folder: as a path, in quotes, as a package."""
    quoted = (f'"{name}"', f"'{name}'", f"{name}/", f"import {name}", f"from {name}", f" {name} ", f"{name}.")
    return any(text in known for text in quoted)


def _has_notebooks(code: Path) -> bool:
    looked = 0
    for folder, folders, files in os.walk(code):
        folders[:] = [name for name in folders if not name.startswith(".")]
        looked += len(files)
        if any(name.endswith(".ipynb") for name in files):
            return True
        if looked > _MOST_LOOKED_AT or len(Path(folder).parts) - len(code.parts) >= MAX_DEPTH:
            folders.clear()
    return False


def _gitignore(code: Path) -> str | None:
    """Return the lines of the code folder's .gitignore; None if unreadable."""
    try:
        return (code / ".gitignore").read_text(encoding="utf-8-sig").strip("\n") + "\n"
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError):
        return None


def lines_of(file: IgnoreFile) -> Sequence[str]:
    """Return what is reported of the file: each pattern with its reason."""
    head = f"{file.path}: written, as AzureML sends everything that no ignore file names"
    return [head, *(f"{file.path}: {one.text} ({one.why})" for one in file.patterns)]
