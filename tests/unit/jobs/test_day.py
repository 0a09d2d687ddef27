"""A day of following a job, in virtual time: what it costs in requests, memory and answers left open.

The product's watch and its reader of AzureML run unchanged on a transport in memory, which answers as run history and Blob storage do,
with faults. A budget that is exceeded fails a test: Azure refuses clients that ask too much, and runners have little memory.
"""

from __future__ import annotations

import dataclasses
import datetime
import gc
import io
import json
import logging
import random
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
import requests
import stamina
from requests.adapters import BaseAdapter, HTTPAdapter
from urllib3 import HTTPHeaderDict, HTTPResponse

from aml_train.azure.http import WorkspaceId
from aml_train.azure.sign_in import SignIn
from aml_train.azure.target import AZURE_PACE
from aml_train.azure.workspace import AzureRest
from aml_train.core import retry as retries
from aml_train.core.clock import Clock
from aml_train.core.errors import AmlTrainError, ServiceError
from aml_train.core.events import Event, LogLines, Notice
from aml_train.jobs.pace import Limits
from aml_train.jobs.workspace import Workspace
from tests.support.fake_workspace import FakeClock
from tests.support.watching import watch

JSON = {"Content-Type": "application/json"}
HOUR = 3600.0
DAY = 24 * HOUR
#: Azure limits clients by the hour; the product's own bound is 1,000 status requests in twelve hours.
STATUS_AN_HOUR = 200
STATUS_A_DAY = 2_000
MEMORY_BYTES = 400_000
#: A line of the job each so many seconds.
LINE_SECONDS = 20.0
#: With the real pause, most readings find nothing: a longer one makes the day take seconds instead of minutes.
LOG_PAUSE = 60.0


class Body(io.BytesIO):
    """A body that knows whether it was read to its end or closed: until then, a connection is taken."""

    def __init__(self, data: bytes, open_bodies: set[int]) -> None:
        super().__init__(data)
        self._open = open_bodies
        self._open.add(id(self))

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        if self.tell() == len(self.getbuffer()):
            self._open.discard(id(self))
        return data

    def close(self) -> None:
        self._open.discard(id(self))
        super().close()


@dataclass
class Wire(BaseAdapter):
    """Answers as AzureML and Blob storage, by the virtual clock.

    Attributes:
        faults: the share of answers that fail.
        out: from when until when nothing answers.
        length: how long the job runs.
        counts: of requests, by kind and hour.
        most_open: bodies that were open at once.
    """

    clock: FakeClock
    faults: float = 0.0
    out: tuple[float, float] = (-1.0, -1.0)
    length: float = DAY
    seed: int = 20
    counts: Counter[tuple[str, int]] = field(default_factory=Counter)
    open_bodies: set[int] = field(default_factory=set)
    most_open: int = 0

    def __post_init__(self) -> None:
        super().__init__()
        self._random = random.Random(self.seed)  # noqa: S311 - faults of every run
        self._builder = HTTPAdapter()

    def send(self, request: requests.PreparedRequest, *_args: Any, **_options: Any) -> requests.Response:
        url = str(request.url)
        kind = "log" if ".blob." in url else "status" if "/runs/j/" in url else "places"
        self.counts[kind, int(self.clock.time // HOUR)] += 1
        if self.out[0] <= self.clock.time < self.out[1]:
            raise requests.ConnectionError("no route")
        status, headers, data = self._log(request) if kind == "log" else self._answer(url)
        if self._random.random() < self.faults:
            match self._random.randrange(5):
                case 0:
                    raise requests.ConnectionError("reset")
                case 1:
                    raise requests.ReadTimeout("silence")
                case 2:
                    status, headers, data = 429, {"Retry-After": "1"}, b"{}"
                case 3:
                    status, headers, data = 503, {}, b"<html>busy</html>"
                case _:
                    # Cut off: fewer bytes come than were announced.
                    headers = {**headers, "Content-Length": str(len(data) + 1)}
        raw = HTTPResponse(
            body=Body(data, self.open_bodies),
            headers=HTTPHeaderDict(headers),
            status=status,
            preload_content=False,
            request_method=request.method,
        )
        self.most_open = max(self.most_open, len(self.open_bodies))
        return self._builder.build_response(request, raw)

    def close(self) -> None:
        self._builder.close()

    def _text(self) -> int:
        """Return how many lines the log has."""
        return int(min(self.clock.time, self.length) / LINE_SECONDS)

    def _log(self, request: requests.PreparedRequest) -> tuple[int, dict[str, str], bytes]:
        offset = int(str(request.headers["Range"]).removeprefix("bytes=").rstrip("-"))
        length = 100 * self._text()
        if offset >= length:
            return 416, {"Content-Range": f"bytes */{length}", "x-ms-error-code": "InvalidRange"}, b""
        lines = b"".join(b"%099d\n" % number for number in range(offset // 100, self._text()))
        return 206, {"x-ms-creation-time": "Mon, 23 Nov 2026 10:00:00 GMT", "Content-Length": str(len(lines))}, lines

    def _answer(self, url: str) -> tuple[int, dict[str, str], bytes]:
        if "/discovery" in url:
            return 200, JSON, b'{"history": "https://h.invalid", "api": "https://a.invalid"}'
        if not url.endswith("/runs/j/details"):
            places = {"discoveryUrl": "https://x.invalid/discovery", "mlFlowTrackingUri": ""}
            return 200, JSON, json.dumps({"properties": places}).encode()
        ended = self.clock.time >= self.length
        begin = datetime.datetime(2026, 11, 23, tzinfo=datetime.UTC)
        found = {
            "runId": "j",
            "status": "Completed" if ended else "Running",
            "logFiles": {"user_logs/std_log.txt": f"https://a.blob.core.windows.net/l?sig={self.clock.time:.0f}"},
            "tags": {},
            "createdTimeUtc": begin.isoformat(),
            "startTimeUtc": begin.isoformat(),
        }
        return 200, JSON, json.dumps(found).encode()

    def by_hour(self, kind: str) -> list[int]:
        """Return the requests of one kind, by hour."""
        return [self.counts[kind, hour] for hour in range(25)]


class _Token:
    """What azure-identity's credentials are to a `SignIn`."""

    def get_token(self, *_scopes: str, **_options: Any) -> Any:
        return SimpleNamespace(token="t", expires_on=2**40)


@dataclass
class Followed:
    """A day that was followed."""

    wire: Wire
    error: AmlTrainError | None
    lines: int
    notices: list[str]
    grown: int


def _follow(wire: Wire, *, limits: Limits | None = None) -> Followed:
    """Follow the job for a day, and measure the memory that is kept from the third hour to the last one."""
    clock = wire.clock
    marks: list[int] = []

    def look(now: float) -> None:
        if len(marks) < (now > 3 * HOUR) + (now > DAY - HOUR):
            gc.collect()
            marks.append(tracemalloc.get_traced_memory()[0])

    clock.on_sleep = look
    clock.sleeps = cast(list[float], _Forgetful())
    lines, notices = 0, []

    def listener(event: Event) -> None:
        nonlocal lines
        if isinstance(event, LogLines):
            lines += event.text.count("\n") + (not event.more)
        elif isinstance(event, Notice):
            notices.append(event.text)

    session = requests.Session()
    session.mount("https://", wire)
    workspace = WorkspaceId(subscription_id="s", resource_group="g", name="w")
    service = AzureRest(workspace, SignIn(_Token(), way="secret"), session=session)
    error: AmlTrainError | None
    # Python keeps no record of a logger without handlers; pytest keeps each until the end of the test.
    repetitions = logging.getLogger("stamina")
    repetitions.disabled = True
    tracemalloc.start()
    try:
        # A repeated request waits for no real time.
        with stamina.set_testing(True, attempts=retries.FEW, cap=True):
            _, error = watch(
                cast(Workspace, service),
                "j",
                clock=Clock(now=clock.now, sleep=clock.sleep),
                pace=dataclasses.replace(AZURE_PACE, log=LOG_PAUSE),
                limits=limits or Limits(),
                listener=listener,
            )
    except AmlTrainError as failure:
        error = failure
    finally:
        tracemalloc.stop()
        repetitions.disabled = False
        session.close()
    return Followed(wire, error, lines, notices, marks[1] - marks[0] if len(marks) > 1 else 0)


class _Forgetful:
    """A list that keeps nothing: a day has thousands of sleeps."""

    def append(self, item: float) -> None:
        """Forget it."""

    def __iter__(self) -> Iterator[float]:
        return iter(())


def _within_budget(day: Followed, *, attempts: float = 1.0) -> None:
    """Fail if the day cost more than it may; *attempts* is how often a request is sent on average."""
    status, logs = day.wire.by_hour("status"), day.wire.by_hour("log")
    assert max(status) <= STATUS_AN_HOUR * attempts, status
    assert sum(status) <= STATUS_A_DAY * attempts, status
    # One reading after each pause, and one at each look at the status.
    assert max(logs) <= (HOUR / LOG_PAUSE + STATUS_AN_HOUR) * attempts, logs
    assert day.grown <= MEMORY_BYTES, day.grown
    assert day.wire.most_open <= 1
    assert not day.wire.open_bodies


def test_the_first_hours_of_a_day_stay_within_its_budgets() -> None:
    day = _follow(Wire(FakeClock(), length=5 * HOUR))
    assert day.error is None
    assert day.lines == 5 * HOUR / LINE_SECONDS
    _within_budget(day)


@pytest.mark.full
def test_an_undisturbed_day_stays_within_its_budgets() -> None:
    day = _follow(Wire(FakeClock()))
    assert day.error is None
    assert day.lines == DAY / LINE_SECONDS
    assert day.notices == []
    _within_budget(day)


@pytest.mark.full
def test_a_day_with_a_tenth_of_all_answers_failing_stays_within_its_budgets() -> None:
    day = _follow(Wire(FakeClock(), faults=0.1))
    assert day.error is None
    assert day.lines == DAY / LINE_SECONDS
    # A reading that fails is repeated at once, the next one follows at its time: a ninth more, and what chance adds.
    _within_budget(day, attempts=1.25)


@pytest.mark.full
def test_a_day_with_an_outage_of_fifty_minutes_is_followed_to_its_end() -> None:
    day = _follow(Wire(FakeClock(), out=(6 * HOUR, 6 * HOUR + 3000)))
    assert day.error is None
    assert day.lines == DAY / LINE_SECONDS
    assert [text.split(" (")[0] for text in day.notices] == ["AzureML does not answer", "AzureML answers again."]
    _within_budget(day, attempts=1.25)


def test_a_day_of_outage_ends_the_watch_after_its_limit() -> None:
    day = _follow(Wire(FakeClock(), out=(2 * HOUR, 3 * DAY)))
    assert isinstance(day.error, ServiceError)
    assert "has not answered for" in day.error.message
    status = day.wire.by_hour("status")
    # Each look is sent four times; after an hour of them the watch is over.
    assert max(status) <= STATUS_AN_HOUR * retries.FEW, status
    assert sum(status[4:]) == 0, status
    assert not day.wire.open_bodies


@pytest.mark.full
def test_a_day_of_outage_that_is_tolerated_stays_within_its_budgets() -> None:
    limits = Limits(outage=2 * DAY)
    day = _follow(Wire(FakeClock(), out=(2 * HOUR, DAY - 600)), limits=limits)
    assert day.error is None
    status = day.wire.by_hour("status")
    assert max(status) <= STATUS_AN_HOUR * retries.FEW, status
    assert sum(status) <= STATUS_A_DAY * retries.FEW, status
    assert len(day.notices) == 2
    assert day.lines == DAY / LINE_SECONDS
    assert day.grown <= MEMORY_BYTES
