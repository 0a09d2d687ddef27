"""Where a run comes from."""

from __future__ import annotations

import pytest

from aml_train.core.git import Origin, origin_of_tags


def test_a_job_carries_what_is_known_of_its_origin() -> None:
    origin = Origin(repository="", configuration="project/aml-train.yml", branch=None, commit="f" * 40)
    assert origin.tags() == {"aml-train.commit": "f" * 40, "aml-train.configuration": "project/aml-train.yml"}


@pytest.mark.parametrize("commit", ["f" * 40, "f" * 40 + "-dirty"])
def test_the_tags_of_a_job_tell_its_origin(commit: str) -> None:
    dirty = commit.endswith("-dirty")
    origin = Origin(repository="h/o/r", configuration="c.yml", branch="main", commit=commit, dirty=dirty)
    assert origin_of_tags({**origin.tags(), "other": "x"}) == origin
    assert origin_of_tags({"other": "x"}) is None


def test_an_unknown_repository_is_nobodys() -> None:
    known = Origin(repository="root commit c0ffee", configuration="c.yml", branch="main", commit="f" * 40)
    assert known.is_of("root commit c0ffee", "c.yml")
    assert not known.is_of("root commit f00d", "c.yml")
    unknown = Origin(repository="", configuration="c.yml", branch="main", commit="f" * 40)
    assert not unknown.is_of("", "c.yml")
