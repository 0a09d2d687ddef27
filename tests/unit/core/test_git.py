"""Where a run comes from."""

from __future__ import annotations

import pytest

from aml_train.core.git import Origin, origin_of_tags
from aml_train.pipeline.project_name import repository_of


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://github.com/owner/name", "github.com/owner/name"),
        ("https://github.com/owner/name.git/", "github.com/owner/name"),
        ("https://x-access-token:secret@GitHub.com:443/owner/name.git", "github.com/owner/name"),
        ("https://host/owner/name?token=secret", "host/owner/name"),
        ("ssh://git@github.com:22/owner/name.git", "github.com/owner/name"),
        ("git@github.com:owner/name.git", "github.com/owner/name"),
        ("github.com:/owner/name", "github.com/owner/name"),
        ("/srv/git/name.git", ""),
        ("C:\\work\\name", ""),
        ("file:///srv/git/name.git", ""),
        ("../name", ""),
        ("", ""),
    ],
)
def test_a_repository_has_one_name_however_it_is_reached(url: str, name: str) -> None:
    assert repository_of(url) == name


def test_a_job_carries_what_is_known_of_its_origin() -> None:
    origin = Origin(repository="", configuration="project/aml-train.yml", branch=None, commit="f" * 40)
    assert origin.tags() == {"aml-train.commit": "f" * 40, "aml-train.configuration": "project/aml-train.yml"}


@pytest.mark.parametrize("commit", ["f" * 40, "f" * 40 + "-dirty"])
def test_the_tags_of_a_job_tell_its_origin(commit: str) -> None:
    dirty = commit.endswith("-dirty")
    origin = Origin(repository="h/o/r", configuration="c.yml", branch="main", commit=commit, dirty=dirty)
    assert origin_of_tags({**origin.tags(), "other": "x"}) == origin
    assert origin_of_tags({"other": "x"}) is None
