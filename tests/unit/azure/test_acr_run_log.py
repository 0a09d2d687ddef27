"""The log of a run: an append blob that grows, and may not be there yet."""

from __future__ import annotations

from typing import Any, cast

import pytest
import requests

from aml_train.azure import acr_tasks
from aml_train.azure.acr_tasks import RunLog
from aml_train.core.events import Event, Notice


class Blob:
    """A blob behind a signed address."""

    def __init__(self) -> None:
        self.content: bytes | None = None
        self.complete = False
        self.status: int | None = None
        self.ranges: list[str] = []

    def exchange(self, _session: object, method: str, url: str, *, headers: dict[str, str], timeout: object) -> Any:
        assert (method, url) == ("GET", "https://store/log?sig=1")
        self.ranges.append(headers["Range"])
        first, last = (int(one) for one in headers["Range"].removeprefix("bytes=").split("-"))
        response = requests.Response()
        response._content = b""
        if self.complete:
            response.headers["x-ms-meta-Complete"] = "successful"
        if self.status is not None:
            response.status_code = self.status
        elif self.content is None:
            response.status_code = 404
        elif first >= len(self.content):
            response.status_code = 416
        else:
            response.status_code, response._content = 206, self.content[first : last + 1]
        return response


@pytest.fixture
def blob(monkeypatch: pytest.MonkeyPatch) -> Blob:
    made = Blob()
    monkeypatch.setattr(acr_tasks, "exchange", made.exchange)
    return made


def opened(events: list[Event]) -> RunLog:
    return RunLog(cast("Any", None), lambda: "https://store/log?sig=1", events.append)


def texts(log: RunLog, *, final: bool = False) -> list[str]:
    return [piece.text for piece in log.read(final=final)]


def test_a_log_is_read_as_it_grows(blob: Blob) -> None:
    events: list[Event] = []
    log = opened(events)
    assert texts(log) == []
    blob.content = b"one\r\ntw"
    assert texts(log) == ["one"]
    blob.content += b"o\r\nthree"
    assert texts(log) == ["two"]
    blob.complete = True
    assert texts(log, final=True) == ["three"]
    assert events == []


def test_a_long_log_is_read_in_ranges(blob: Blob) -> None:
    blob.content = b"x" * 100 + b"\n" + (b"l" * 4_999 + b"\n") * 700
    assert len(texts(opened([]))) == 701
    assert len(blob.ranges) == 4


def test_a_log_that_never_completes_is_given_up(blob: Blob) -> None:
    blob.content = b"one\n"
    assert texts(opened([]), final=True) == ["one"]
    assert len(blob.ranges) == 5


def test_a_log_that_cannot_be_read_is_one_remark(blob: Blob) -> None:
    events: list[Event] = []
    log = opened(events)
    blob.status = 403
    assert (texts(log), texts(log)) == ([], [])
    assert [event.text for event in events if isinstance(event, Notice)] == [
        "The build's log cannot be read now: storage answered 403. The build continues."
    ]
    blob.status, blob.content = None, b"one\n"
    assert texts(log) == ["one"]
