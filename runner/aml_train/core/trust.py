"""The trust of a run: is its commit the protected branch's, or only proposed.

It is decided once, by GitHub's event or by the branch of the checkout, and never by a file of the commit: see docs/registry.md.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

PROPOSALS_SUFFIX: Final = "-proposals"
"""Follows the name of a repository that proposed commits write to."""


@dataclass(frozen=True, kw_only=True)
class Trust:
    """Whose word a run's image, caches and test records are.

    Attributes:
        group: the proposals that believe each other's test records, such as ``pull-7``; None for the protected branch.
    """

    group: str | None = None

    def __str__(self) -> str:
        return "the protected branch" if self.group is None else f"a proposal, {self.group}"

    @property
    def protected(self) -> bool:
        """Whether the run is one of the protected branch."""
        return self.group is None

    @property
    def pull(self) -> str | None:
        """The group, if it is that of a pull request."""
        return self.group if self.group is not None and re.fullmatch(r"pull-\d+", self.group) else None

    def repository(self, name: str) -> str:
        """Return the repository that the run writes to, for an image of *name*."""
        return name if self.protected else f"{name}{PROPOSALS_SUFFIX}"

    def build_arguments(self, repository: str) -> dict[str, str]:
        """Return the arguments of BuildKit that keep caches of the two levels apart.

        The first is part of the id of each cache mount; a step's hostname is part of its key in the cache of layers, which
        covers neither proxies nor secrets (https://docs.docker.com/reference/dockerfile/#buildkit-built-in-build-args).
        """
        level = "protected" if self.protected else "proposal"
        return {
            "BUILDKIT_CACHE_MOUNT_NS": f"aml-train/{level}/{repository}",
            "BUILDKIT_SANDBOX_HOSTNAME": f"aml-train-{level}",
        }


PROTECTED: Final = Trust()


def proposal(*, pull: str | None = None, branch: str | None = None, commit: str | None = None) -> Trust:
    """Return the trust of a proposed commit: of its pull request, else its branch.

    Without a branch that is proved, each commit is a separate group.

    Args:
        pull: number of the pull request.
        branch: the branch, if the commit is on it.
        commit: the commit's hash; None outside a git repository.
    """
    if pull is not None:
        return Trust(group=f"pull-{pull}")
    if branch is not None:
        return Trust(group=f"branch-{branch}")
    return Trust(group="local" if commit is None else f"commit-{commit}")
