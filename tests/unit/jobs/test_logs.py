from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aml_train.jobs.logs import LONGEST_LINE, LineSplitter, LogFollower
from tests.fake_service import FakeService


@pytest.mark.parametrize(
    ("pieces", "lines"),
    [
        ([b"a\nb\n"], ["a", "b"]),
        ([b"a", b"b\nc"], ["ab", "c"]),
        ([b"caf\xc3", b"\xa9\n"], ["café"]),
        ([b"\xff\xfe\n"], ["��"]),
        ([b"10%\r50%\r100%\r\n"], ["100%"]),
        ([b"\n\n"], ["", ""]),
        ([b""], []),
    ],
)
def test_lines_come_out_whole(pieces: list[bytes], lines: list[str]) -> None:
    splitter = LineSplitter()
    found = [line for piece in pieces for line in splitter.feed(piece)] + splitter.feed(b"", final=True)
    assert found == lines


def test_a_line_without_end_does_not_fill_the_memory() -> None:
    splitter = LineSplitter()
    lines = [line for _ in range(100) for line in splitter.feed(b"x" * 10_000)]
    lines += splitter.feed(b"", final=True)
    assert sum(map(len, lines)) == 1_000_000
    assert max(map(len, lines)) == LONGEST_LINE


@given(st.lists(st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), min_size=1)), st.integers(1, 9))
def test_every_split_of_the_bytes_gives_the_same_lines(lines: list[str], width: int) -> None:
    data = "".join(f"{line}\n" for line in lines).encode()
    splitter = LineSplitter()
    found = [line for i in range(0, len(data), width) for line in splitter.feed(data[i : i + width])]
    assert found == lines


def test_each_byte_is_read_once() -> None:
    service = FakeService(log=b"one\ntw")
    seen: list[tuple[str, str]] = []
    follower = LogFollower(service, lambda path, line: seen.append((path, line)))
    follower.follow({"std": "u"})
    service.log += b"o\nthree"
    follower.follow({"std": "u"})
    follower.follow({"std": "u"}, final=True)
    assert seen == [("std", "one"), ("std", "two"), ("std", "three")]
    assert follower.tail == "one\ntwo\nthree"
