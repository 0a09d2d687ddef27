"""One form of requirements files and ignore files: what changes nothing changes no address."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aml_train.image.requirements_file import (
    logical_lines,
    normalised_ignore_file,
    normalised_requirements,
)

HASHED = b"""\
# pip-compile
numpy==2.3.0 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
    # via pandas
pandas==2.3.3  # the table
"""


@pytest.mark.parametrize(
    "other",
    [
        b"b==2\na==1\n",
        b"# all that is needed\na==1  # first\n\n   b==2\n",
        b"a==1\r\nb==2\r\n",
        b"a==1\nb==2",
        b"\xef\xbb\xbfa==1\nb==2\n",
        "# für später\na==1\nb==2\n".encode(),
        b"a\\\n==1\nb==2\n",
    ],
)
def test_what_changes_nothing_makes_no_difference(other: bytes) -> None:
    assert normalised_requirements(other) == normalised_requirements(b"a==1\nb==2\n") == b"a==1\nb==2\n"


def test_hashes_stay_with_their_requirement() -> None:
    assert normalised_requirements(HASHED) == (b"numpy==2.3.0 --hash=sha256:aa --hash=sha256:bb\npandas==2.3.3\n")


def test_options_keep_their_order_before_the_requirements() -> None:
    content = b"b\n--index-url https://one.test\n-r more.txt\na\n--index-url https://two.test # the one that counts\n-c c.txt\n"
    assert normalised_requirements(content) == (
        b"--index-url https://one.test\n-r more.txt\n--index-url https://two.test\n-c c.txt\na\nb\n"
    )
    swapped = b"--index-url https://two.test\n-r more.txt\n--index-url https://one.test\n-c c.txt\na\nb\n"
    assert normalised_requirements(swapped) == swapped


@pytest.mark.parametrize(
    "content",
    [
        "# -*- coding: latin-1 -*-\n# für\na\n".encode("latin-1"),
        "a\n".encode("utf-16"),
        "b @ https://e.test/größe.whl\na\n".encode(),
        b"b\\ # a comment that leaves a backslash at the end\na\n",
    ],
)
def test_what_cannot_be_normalised_safely_stays_as_it_is(content: bytes) -> None:
    assert normalised_requirements(content) == content


_LINES = st.lists(
    st.sampled_from(
        ["a==1", "b", "--pre", "-r x.txt", "# c", "a # c", "a \\", "\\", "  # c", "", "\t", "#", "a#b", "c\\\\"]
    ),
    max_size=8,
)


@given(_LINES, st.sampled_from(["\n", "\r\n", "\r"]))
def test_pip_reads_the_same_set_and_the_form_is_stable(lines: list[str], end: str) -> None:
    content = end.join(lines)
    done = normalised_requirements(content.encode())
    assert normalised_requirements(done) == done
    before, after = list(logical_lines(content)), list(logical_lines(done.decode()))
    assert sorted(before) == sorted(after)
    assert [one for one in before if one.startswith("-")] == [one for one in after if one.startswith("-")]


def test_comments_of_an_ignore_file_make_no_difference() -> None:
    assert normalised_ignore_file(b"# why\r\n*\r\n\r\n  !src  \r\n#!x\r\n") == normalised_ignore_file(b"*\n!src")
    assert normalised_ignore_file(b"*\n!src") == b"*\n!src\n"
    assert normalised_ignore_file(b"!src\n*\n") != normalised_ignore_file(b"*\n!src\n")
