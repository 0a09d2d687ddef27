"""Where a job comes from: repository, configuration, branch and commit, as its tags have them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from aml_train.core.tags import TAG_BRANCH, TAG_COMMIT, TAG_CONFIGURATION, TAG_REPOSITORY

#: Stands behind the hash of a commit that files differ from.
DIRTY: Final = "-dirty"


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where a run comes from.

    Attributes:
        repository: host and path, such as ``github.com/owner/name``; empty where the repository has no remote.
        configuration: the configuration file's path in the repository.
        branch: None where the checkout is detached and nobody says what it is called.
        commit: the commit's hash, with ``-dirty`` behind it where files differ from it.
        dirty: whether they do.
    """

    repository: str
    configuration: str
    branch: str | None
    commit: str
    dirty: bool = False

    def tags(self) -> dict[str, str]:
        """Return the tags of a job that is submitted from here; what is not known is left out."""
        tags = {
            TAG_COMMIT: self.commit,
            TAG_BRANCH: self.branch or "",
            TAG_REPOSITORY: self.repository,
            TAG_CONFIGURATION: self.configuration,
        }
        return {name: value for name, value in tags.items() if value}


def origin_of_tags(tags: Mapping[str, str]) -> Origin | None:
    """Return where a job was submitted from, as its *tags* have it; None where it was no git repository."""
    commit = tags.get(TAG_COMMIT)
    if commit is None:
        return None
    return Origin(
        repository=tags.get(TAG_REPOSITORY, ""),
        configuration=tags.get(TAG_CONFIGURATION, ""),
        branch=tags.get(TAG_BRANCH),
        commit=commit,
        dirty=commit.endswith(DIRTY),
    )
