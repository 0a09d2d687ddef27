"""Which files belong to a repository, and which to the kernel.

The folders that links may lead to follow from that.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_RUNNER: Final = Path("/github")
"""The runner's folders in a container action, the workspace among them (actions/runner, ``ContainerActionHandler.cs``)."""

KERNEL: Final = (Path("/proc"), Path("/sys"), Path("/dev"))
"""File systems of the kernel: proc(5), sysfs(5), and devices. ``/proc/PID/environ`` holds a process's secrets."""


def repository_top(folder: Path) -> Path | None:
    """Return the top of the git repository around *folder*, without links.

    None outside one.
    """
    real = folder.resolve()
    return next((above for above in (real, *real.parents) if (above / ".git").exists()), None)


def boundaries(root: Path, project: Path | None = None) -> tuple[Path, ...]:
    """Return the folders that links below *root* may lead to.

    They are the repository that *root* is in and the one of *project*. A folder outside any repository counts by itself.

    Args:
        root: the folder that is sent.
        project: the project folder; None where there is none.
    """
    folders = [repository_top(root) or root.resolve()]
    if project is not None:
        folders.append(repository_top(project) or project.resolve())
    return tuple(dict.fromkeys(folders))


def is_inside(path: Path, folders: tuple[Path, ...]) -> bool:
    """Return whether *path*, which has no links in it, is in one of *folders*."""
    return any(path.is_relative_to(folder) for folder in folders)


def of_the_kernel(path: Path) -> bool:
    """Return whether *path*, which has no links in it, is on a kernel's file system."""
    return is_inside(path, KERNEL)


def _of_the_runner(path: Path, folders: tuple[Path, ...]) -> bool:
    """Return whether *path* is the GitHub runner's own.

    The event, file commands, its home.
    """
    return path.is_relative_to(_RUNNER) and not is_inside(path, folders)


def why_not_sent(directory: Path, text: str, project: Path) -> str:
    """Return why a path that the configuration names is not sent; empty if it may be.

    A path may lead out of the repository by what is written, so that a reader sees it, and not by a link.

    Args:
        directory: the folder that *text* starts from.
        text: the path as it is written.
        project: the project folder.
    """
    if "\0" in text:
        return "no path has a NUL character"
    written = Path(os.path.normpath(directory.resolve() / text))
    # The folders' own links are resolved: `a/../b` is not `b` where `a` is a link.
    found = {written.resolve(), (directory / text).resolve()}
    if any(of_the_kernel(path) for path in found):
        return "it is a file of the kernel, which may hold secrets of this machine"
    folders = boundaries(project)
    if any(_of_the_runner(path, folders) for path in found):
        return "it is a file of the GitHub runner, which may hold secrets of the workflow"
    if is_inside(written, folders) and not all(is_inside(path, folders) for path in found):
        return f"a link leads out of {folders[0]}"
    return ""
