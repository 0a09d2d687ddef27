"""git, as the product queries it: checkouts are values, and no process starts."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from aml_train.core import git


@dataclass(frozen=True, kw_only=True)
class CheckedOut:
    """A clean checkout.

    Attributes:
        remote: the address of ``origin``.
    """

    sha: str
    branch: str
    remote: str


class Repositories:
    """The checkouts of this world, by their folders."""

    def __init__(self) -> None:
        self._known: dict[Path, CheckedOut] = {}

    def add(self, folder: Path, checkout: CheckedOut) -> None:
        """Make a folder a checkout."""
        self._known[folder.resolve()] = checkout

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Answer the product's queries, during the block."""
        with mock.patch.object(git, "query", self.query):
            yield

    def query(self, directory: Path, *args: str) -> subprocess.CompletedProcess[str] | None:
        """Answer as git does; a query that this world does not know fails."""
        folder = directory.resolve()
        place = next((above for above in (folder, *folder.parents) if above in self._known), None)
        if place is None:
            return _done(args, 128, "")
        known = self._known[place]
        match args[:2]:
            case ("status", _):
                return _done(args, 0, f"# branch.oid {known.sha}\n# branch.head {known.branch}\n")
            case ("remote", "get-url"):
                return _done(args, 0, f"{known.remote}\n")
            case ("rev-parse", "--show-prefix"):
                inside = folder.relative_to(place).as_posix()
                return _done(args, 0, "\n" if inside == "." else f"{inside}/\n")
            case ("rev-parse", "--verify"):
                return _done(args, 0, f"{known.sha}\n")
            case ("rev-parse", "--is-shallow-repository"):
                return _done(args, 0, "false\n")
            case ("merge-base", _):
                return _done(args, 0 if args[-2] == known.sha else 1, "")
        return _done(args, 129, "")


def _done(args: tuple[str, ...], code: int, out: str) -> subprocess.CompletedProcess[str]:
    return subprocess.CompletedProcess(["git", *args], code, stdout=out, stderr="")
