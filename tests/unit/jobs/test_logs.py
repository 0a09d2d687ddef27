from __future__ import annotations

from aml_train.jobs.logs import LogFollower
from tests.fake_service import FakeService


def test_each_byte_is_read_once() -> None:
    service = FakeService(log=b"one\ntw")
    seen: list[tuple[str, str]] = []
    follower = LogFollower(service, lambda path, piece: seen.append((path, piece.text)))
    follower.follow({"std": "u"})
    service.log += b"o\nthree"
    follower.follow({"std": "u"})
    follower.follow({"std": "u"}, final=True)
    assert seen == [("std", "one"), ("std", "two"), ("std", "three")]
    assert follower.tail == "one\ntwo\nthree"
