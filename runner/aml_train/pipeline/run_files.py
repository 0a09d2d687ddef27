"""Project files that belong to the run and not to the job's code.

These are its configuration, workflows, secrets, and its own output.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from aml_train.config.model import Config
from aml_train.core.boundary import repository_top
from aml_train.core.file_selection import FileId

WORKFLOWS: Final = ".github"
DEVCONTAINER: Final = ".devcontainer/devcontainer.json"
_STREAMS: Final = (1, 2)


def not_code(config: Config, code: Path) -> tuple[str, ...]:
    """Return gitignore patterns of files in *code* that are not in the snapshot.

    A change of these files changes nothing of what the job computes, so that it must not make another job. The job's YAML is
    part of the job's hash by its content. A file whose name the job mentions is the job's, too.
    """
    texts = mentioned(config)
    files = [path for path in _configuration(config) if path.name not in texts]
    folders = [config.directory / WORKFLOWS, (repository_top(config.directory) or config.directory) / WORKFLOWS]
    files.append(config.directory / DEVCONTAINER)
    names = [*(_pattern(path, code) for path in files), *(_pattern(path, code, "/") for path in folders)]
    return tuple(dict.fromkeys(name for name in names if name))


def _configuration(config: Config) -> Iterator[Path]:
    """Yield the configuration, the job's YAML, and files that only they refer to."""
    if config.file is not None:
        yield config.file
    if config.job.file.is_file():
        yield config.job.file
    if config.baseline is not None and config.baseline.file is not None:
        yield config.baseline.file
    image = config.image
    if image is not None and image.dockerfile is not None:
        yield from (
            image.dockerfile.file,
            image.dockerfile.file.with_name(f"{image.dockerfile.file.name}.dockerignore"),
        )


def secret_files(config: Config) -> list[Path]:
    """Return the files that the configuration names as secrets; nothing sends them."""
    return [] if config.passport.key_file is None else [config.passport.key_file]


def mentioned(config: Config) -> str:
    """Return the texts of the job in which it may name a file of its code."""
    document = config.job.document
    literals = [value for value in (document.get("inputs") or {}).values() if not isinstance(value, dict)]
    setup = [item.command for item in config.setup]
    of_nodes = [document.get("jobs"), document.get("trial")]
    found = [document.get("command"), document.get("environment_variables"), literals, setup, of_nodes]
    return json.dumps(found, default=str, ensure_ascii=False)


def _pattern(path: Path, code: Path, end: str = "") -> str:
    """Return the gitignore pattern of *path* in *code*; empty if it is not in it."""
    real, root = path.parent.resolve() / path.name, code.resolve()
    if not real.is_relative_to(root) or real == root:
        return ""
    return "/" + re.sub(r"([\\*?\[\]!# ])", r"\\\1", real.relative_to(root).as_posix()) + end


def own_output(*files: Path | None) -> frozenset[FileId]:
    """Return the files that this process writes to.

    These are *files*, and standard output and error if a shell redirects them to a file.

    A log that grows while it is read would be another file at each look: no selection of files takes it.
    """
    return file_ids(*_STREAMS, *(file for file in files if file is not None))


def file_ids(*files: int | Path) -> frozenset[FileId]:
    """Return what identifies regular files, whatever names and links lead to them."""
    found = []
    for file in files:
        try:
            status = os.stat(file)  # noqa: PTH116 - a descriptor or a path
        except OSError:  # it is closed, or not there yet
            continue
        if stat.S_ISREG(status.st_mode):
            found.append((status.st_dev, status.st_ino))
    return frozenset(found)
