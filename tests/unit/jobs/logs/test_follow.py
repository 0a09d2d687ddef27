from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any, cast

import pytest

from aml_train.core.errors import ServiceError
from aml_train.core.events import LogLines
from aml_train.core.masking import Masker
from aml_train.core.text import Piece
from aml_train.jobs.logs.follow import TAIL_LINES, LogFollower, Tail
from aml_train.jobs.logs.names import log_name
from tests.support.fake_workspace import FakeService, lost

STD = "user_logs/std_log.txt"


class Following:
    """A follower of logs in memory, and what it passes on."""

    def __init__(self, *secrets: str, **logs: bytes) -> None:
        self.service = FakeService(logs={f"user_logs/std_log{name}.txt": data for name, data in logs.items()})
        self.seen: list[LogLines] = []
        self.follower = LogFollower(cast("Any", self.service), self.seen.append, masker=Masker(secrets))

    def look(self, *, final: bool = False) -> str:
        """Look at the logs once; return all the text so far."""
        names = [log_name(path) for path in self.service.logs]
        self.follower.follow([(name, f"log:{name.path}") for name in names], final=final)
        return self.text()

    def text(self, path: str = STD) -> str:
        return "".join(one.text + "\n" * (not one.more) for one in self.seen if one.origin == path)


def test_each_byte_is_read_once() -> None:
    one = Following(**{"": b"one\ntw"})
    assert one.look() == "one\n"
    one.service.logs[STD] += b"o\nthree"
    assert one.look() == "one\ntwo\n"
    assert one.look(final=True) == "one\ntwo\nthree\n"
    assert one.look(final=True) == "one\ntwo\nthree\n"
    (tail,) = one.follower.tails()
    assert (tail.lines, tail.size, tail.rank) == (("one", "two", "three"), 13, "")


def test_after_an_outage_reading_goes_on_where_it_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    data = "\n".join(f"line {number}" for number in range(100)).encode()
    one = Following(**{"": data})
    read = one.service.read_log
    asked: list[int] = []

    def breaking(url: str, offset: int) -> Iterator[bytes]:
        asked.append(offset)
        for number, part in enumerate(read(url, offset)):
            if number == 3 and len(asked) < 5:
                raise lost("reset")
            yield part

    monkeypatch.setattr(one.service, "read_log", breaking)
    for _ in range(4):
        with pytest.raises(ServiceError, match="reset"):
            one.look()
    assert one.look(final=True) == data.decode() + "\n"
    assert asked == [0, 21, 42, 63, 84]


def test_every_rank_has_its_own_lines_and_tail() -> None:
    logs = {f"_process_{rank}": f"hello of {rank}\nrest {rank}".encode() for rank in range(12)}
    one = Following(**logs)
    one.look(final=True)
    assert {(text.rank, text.text, text.several) for text in one.seen} >= {("11", "hello of 11", True)}
    assert [tail.rank for tail in one.follower.tails()] == [str(rank) for rank in range(12)]
    assert one.follower.tails()[3].lines == ("hello of 3", "rest 3")


@pytest.mark.parametrize("second", [b"other\n", b"other, and much longer than the first one was\n"])
def test_a_log_that_begins_anew_is_told_from_its_start(second: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    one = Following(**{"": b"first attempt\nbroken of"})
    one.look()
    one.service.replaced.add(STD)
    one.service.logs[STD] = second
    text = one.look(final=True)
    assert text.startswith("first attempt\nbroken of\n--- this log starts again")
    assert text.endswith("---\n" + second.decode())


@pytest.mark.parametrize("cut", range(1, 24))
def test_a_secret_is_taken_out_wherever_the_bytes_are_cut(cut: int) -> None:
    data = b"token=very-secret-word! more"
    one = Following("very-secret-word", **{"": data[:cut]})
    one.look()
    one.service.logs[STD] = data
    assert one.look(final=True) == "token=***! more\n"
    assert one.follower.tails()[0].lines == ("token=***! more",)


def test_a_tail_is_bounded_in_lines_width_and_size() -> None:
    tail = Tail()
    tail.add(Piece("\n".join(str(number) for number in range(100))))
    assert tail.lines() == tuple(str(number) for number in range(100 - TAIL_LINES, 100))
    tail.add(Piece("begun", more=True))
    tail.add(Piece(" and ended\nlast"))
    assert tail.lines()[-2:] == ("begun and ended", "last")
    tail.add(Piece("\n".join("x" * 10_000 for _ in range(100))))
    assert len(tail.lines()) == 7
    assert {len(line) for line in tail.lines()} == {2000}


@pytest.mark.parametrize("width", [0, 1, 100, 70_000])
def test_memory_is_bounded_whatever_the_lines_are(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chunk = (b"x" * (width - 1) + b"\n" if width else b"x") * (256 * 1024 // max(width, 1))
    chunks = 1 if width == 1 else 24  # half a million empty lines are many
    one = Following("a-secret", **{"": b""})
    passed = 0

    def count(text: LogLines) -> None:
        nonlocal passed
        passed += len(text.text) + (not text.more)

    monkeypatch.setattr(one.service, "read_log", lambda _url, offset: iter(() if offset else (chunk,) * chunks))
    follower = LogFollower(cast("Any", one.service), count, masker=Masker(["a-secret"]))
    tracemalloc.start()
    try:
        follower.follow([(log_name(STD), "u")], final=True)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert passed == chunks * len(chunk) + (width == 0)
    assert most < 16 * len(chunk) if width != 1 else most < 200 * len(chunk)
