from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aml_train.core.text import LONGEST_LINE, LineBlocks, LinePieces, Piece, iso_seconds, lines_in, states, whole


@pytest.mark.parametrize(
    ("pieces", "lines"),
    [
        ([b"a\nb\n"], ["a", "b"]),
        ([b"a", b"b\nc"], ["ab", "c"]),
        ([b"caf\xc3", b"\xa9\n"], ["café"]),
        ([b"\xff\xfe\n"], ["��"]),
        ([b"10%\r50%\r100%\r\n"], ["100%"]),
        ([b"kept\r::error::x\n"], ["kept", "::error::x"]),
        ([b"a\r", b"\nb"], ["a", "b"]),
        ([b"\n\n"], ["", ""]),
        ([b""], []),
    ],
)
def test_lines_come_out_whole(pieces: list[bytes], lines: list[str]) -> None:
    splitter = LinePieces()
    fed = [line for piece in pieces for line in splitter.feed(piece)] + splitter.feed(b"", final=True)
    found = [line for piece in fed for line in lines_in(piece)]
    assert found == [Piece(line) for line in lines]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("", [""]),
        ("\r\r", [""]),
        ("one", ["one"]),
        ("(Reading ... \r(Reading ... 50%\r(Reading ... 8577 files", ["(Reading ... 8577 files"]),
        ("epoch 1:  5/9 |#  |\repoch 1:  6/9 |## |\rdone", ["epoch 1:  6/9 |## |", "done"]),
        ("12345\rhello", ["12345", "hello"]),
        ("evil\r\rgood", ["evil", "good"]),
        ("10%\r20%", ["20%"]),
    ],
)
def test_only_a_progress_bar_rewrites_itself(text: str, kept: list[str]) -> None:
    assert states(text) == kept


@pytest.mark.parametrize("size", [10_000, 1_000_000])
def test_a_line_without_end_does_not_fill_the_memory(size: int) -> None:
    splitter = LinePieces()
    lines = [line for _ in range(1_000_000 // size) for line in splitter.feed(b"x" * size)]
    lines += splitter.feed(b"\nnext\n")
    assert lines[-1] == Piece("next")
    assert "".join(line.text for line in lines[:-1]) == "x" * 1_000_000
    assert max(len(line.text) for line in lines) == LONGEST_LINE
    assert [line.more for line in lines] == [True] * (len(lines) - 2) + [False, False]


_WORDS = st.sampled_from(["a", "\n", "\r", "é", "10%", "x" * LONGEST_LINE, "y" * (LONGEST_LINE - 1), "\n\n"])


@given(st.lists(st.lists(_WORDS, max_size=6).map("".join), max_size=5))
def test_blocks_are_the_same_lines_many_at_a_time(parts: list[str]) -> None:
    pieces, blocks = LinePieces(), LineBlocks()
    fed = [piece for part in parts for piece in pieces.feed(part.encode())] + pieces.feed(b"", final=True)
    one = [line for piece in fed for line in lines_in(piece)]
    found = [piece for part in parts for piece in blocks.feed(part.encode())] + blocks.feed(b"", final=True)
    apart: list[Piece] = []
    for block in found:
        *whole, last = block.text.split("\n")
        apart += [*map(Piece, whole), Piece(last, block.more)]
    assert apart == one


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("007", 7),
        ("9" * 18, 10**18 - 1),
        ("9" * 19, None),
        ("9" * 5000, None),  # int() raises for more than 4300 digits
        ("", None),
        ("-1", None),
        ("+1", None),
        ("1_000", None),
        (" 1", None),
        ("1\n", None),
        ("\u00b2", None),  # a digit by str.isdigit, no integer by int()
        ("\u0663", None),  # three in Arabic
    ],
)
def test_ascii_digits_are_a_number_and_nothing_else(text: str, expected: int | None) -> None:
    assert whole(text) == expected


def test_longer_numbers_where_they_are_allowed() -> None:
    assert whole("9" * 255, most=255) == 10**255 - 1
    assert whole("9" * 256, most=255) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("PT2M", 120.0),
        ("P1DT1H1.5S", 90001.0),
        ("PT999999999S", 999_999_999),
        ("", None),
        ("2m", None),
        ("P", None),
        ("PT", None),
        ("PT1000000000S", None),
        (f"PT{'0' * 36}2M and more", None),
        ("P\u0663D", None),
    ],
)
def test_durations(text: str, seconds: float | None) -> None:
    assert iso_seconds(text) == seconds
