"""A proposed .amlignore: changes of docs, tests and notebooks start no new job."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from aml_train.cli.scaffold.project import Project
from aml_train.config.model import Config
from aml_train.core.files import FileSet
from aml_train.pipeline.run_files import mentioned

NAME: Final = ".amlignore"
_HEADER: Final = """\
# Written by `aml-train init`: files that the job does not need. Their changes start no new job.
"""
_INSTEAD: Final = "# AzureML reads this file instead of .gitignore. The lines of .gitignore:\n"
_FOLDERS: Final = {
    "doc": "documentation",
    "docs": "documentation",
    "documentation": "documentation",
    "test": "tests, which run before the job",
    "tests": "tests, which run before the job",
    "notebooks": "notebooks",
}


def propose_ignore(
    directory: Path, config: Config, project: Project, reads: Sequence[str] = ()
) -> tuple[dict[str, str], list[str]]:
    """Return the .amlignore of the code folder by its path, and notes on it and on data that are not sent.

    There is none if one exists or none is useful. Files and folders that the job or a script names stay in the snapshot.

    Args:
        directory: the project folder.
        config: the configuration that is proposed.
        project: what was found.
        reads: files and folders of the project that the script reads.
    """
    code, root = config.job.code, Path(os.path.abspath(directory))  # noqa: PTH100 - links stay
    if code is None or not code.is_dir() or not code.is_relative_to(root):
        return {}, []
    where = (code / NAME).relative_to(root)
    lost = _unsent(root, code, reads)
    shown = [(where.parent / path).as_posix() for path in lost]
    if os.path.lexists(code / NAME):
        why = f"the script reads it, and {NAME} leaves it out"
        return {}, [f"{path}: {why}: add the line `!/{path}`" for path in shown]
    why = "git ignores it, so a workflow's checkout lacks it"
    notes = [f"{path}: {why}: store it by `aml-train data upload`, and name it under `data`" for path in shown]
    known = mentioned(config) + "\n".join(script.text for script in project.scripts)
    taken_back = ((f"!/{path}{'/' if (code / path).is_dir() else ''}", "the script reads it") for path in lost)
    patterns = [*_patterns(code, known, project), *taken_back]
    ignored = _gitignore(code)
    if not patterns or ignored is None:
        return {}, notes
    text = _HEADER + (f"{_INSTEAD}{ignored}\n" if ignored else "")
    text += "".join(f"# {why}\n{pattern}\n" for pattern, why in patterns)
    notes += [f"{where.as_posix()}: {pattern} ({why})" for pattern, why in patterns]
    return {where.as_posix(): text}, notes


def _unsent(root: Path, code: Path, reads: Sequence[str]) -> list[str]:
    """Return the paths below the code folder that the script reads and the snapshot lacks."""
    found = [os.path.relpath(root / path, code) for path in reads]
    there = [path for path in found if not path.startswith("..") and (code / path).exists()]
    if not there:
        return []
    sent = {entry.path for entry in FileSet.collect_code(code, project=root).entries}
    return [path for path in there if path not in sent and not any(one.startswith(f"{path}/") for one in sent)]


def _patterns(code: Path, known: str, project: Project) -> Iterator[tuple[str, str]]:
    items = sorted(code.iterdir())
    for item in items:
        why = _FOLDERS.get(item.name.lower())
        if why is not None and item.is_dir() and not _mentions(known, item.name):
            yield f"/{item.name}/", why
    names = [item.name.lower() for item in items if item.is_file()]
    if any(name.endswith(".log") for name in names) and ".log" not in known:
        yield "/*.log", "logs, which differ after each run"
    pages = any(name.endswith(".md") for name in names)
    if pages and ".md" not in known and "pip install" not in known:  # a package may read its README
        yield "/*.md", "documentation"
    if project.notebooks and ".ipynb" not in known:
        yield "*.ipynb", "notebooks, which change whenever they are run"


def _mentions(known: str, name: str) -> bool:
    """Return whether a text may name the folder: as a path, in quotes, as a package."""
    quoted = (f'"{name}"', f"'{name}'", f"{name}/", f"import {name}", f"from {name}", f" {name} ", f"{name}.")
    return any(text in known for text in quoted)


def _gitignore(code: Path) -> str | None:
    """Return the lines of the code folder's .gitignore; None if unreadable."""
    try:
        return (code / ".gitignore").read_text(encoding="utf-8-sig").strip("\n") + "\n"
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError):
        return None
