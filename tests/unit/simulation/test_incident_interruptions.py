"""The interruptions of a replay: at the place at which the recorded run was interrupted."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import requests

from simulation.incident.interruptions import Interruptions
from simulation.incident.transport import Answers, UnknownRequestError
from simulation.incident.virtual_time import VirtualTime


def exchange(path: str, began: float, ended: float, **changed: Any) -> dict[str, Any]:
    known = {"method": "GET", "address": f"https://a.b/{path}", "main": True, "during": "", "status": 200}
    shape = {"headers": {}, "error": [], "body": {"bytes": 0, "lines": 0}}
    return {**known, **shape, "began": began, "ended": ended, **changed}


class Run:
    """A run that is replayed: what it sends, and how often it was interrupted."""

    def __init__(
        self, moments: Sequence[float], *exchanges: dict[str, Any], events: Sequence[float] = (), early: bool = False
    ) -> None:
        self.clock = VirtualTime(0.0)
        self.interruptions = Interruptions(moments, exchanges, events, self.clock, early=early)
        self.answers = Answers(list(exchanges), self.clock, self.interruptions)

    @contextlib.contextmanager
    def replayed(self) -> Iterator[None]:
        with self.answers.in_place(), self.interruptions.in_place():
            yield

    def get(self, path: str) -> int:
        with requests.Session() as session:
            session.trust_env = False
            return session.get(f"https://a.b/{path}").status_code

    def event(self) -> None:
        self.interruptions.before_event()
        self.interruptions.after_event()


def test_a_run_is_interrupted_before_the_first_request_that_it_sent_later() -> None:
    run = Run([30.0], exchange("1", 10.0, 11.0), exchange("2", 31.0, 32.0))
    with run.replayed():
        assert run.get("1") == 200
        with pytest.raises(KeyboardInterrupt):
            run.get("2")
        assert run.clock.now() == 30.0
        assert run.get("2") == 200
    assert (run.answers.answered, run.answers.unknown) == (2, [])


@pytest.mark.parametrize("path", ["1", "3"])
def test_or_before_one_that_it_did_not_send_or_not_as_often(path: str) -> None:
    run = Run([30.0], exchange("1", 10.0, 11.0), exchange("2", 31.0, 32.0))
    with run.replayed():
        assert run.get("1") == 200
        with pytest.raises(KeyboardInterrupt):
            run.get(path)
        assert run.get("2") == 200
    assert run.answers.unknown == []


def test_or_in_the_request_that_was_interrupted_itself() -> None:
    broken = exchange("1", 29.0, 30.5, status=None, error=["KeyboardInterrupt"])
    run = Run([30.0], broken, exchange("1", 31.0, 32.0))
    with run.replayed():
        with pytest.raises(KeyboardInterrupt):
            run.get("1")
        assert run.get("1") == 200


def test_or_in_a_sleep_but_not_before_it_has_sent_what_it_sent() -> None:
    run = Run([30.0], exchange("1", 10.0, 11.0))
    with run.replayed():
        run.clock.sleep(40.0)
        assert run.get("1") == 200
        with pytest.raises(KeyboardInterrupt):
            run.clock.sleep(1.0)
        run.clock.sleep(1.0)


def test_or_before_the_first_event_that_it_reported_later() -> None:
    run = Run([30.0, 60.0], events=[10.0, 20.0, 40.0])
    with run.replayed():
        run.event()
        run.event()
        with pytest.raises(KeyboardInterrupt):
            run.event()
        run.event()
        with pytest.raises(KeyboardInterrupt):
            run.event()
        run.event()
    assert run.interruptions.came == 2


def test_early_is_directly_after_what_came_before() -> None:
    run = Run([30.0], exchange("1", 10.0, 11.0), exchange("2", 31.0, 32.0), events=[20.0, 40.0], early=True)
    with run.replayed():
        assert run.get("1") == 200
        with pytest.raises(KeyboardInterrupt):
            run.event()
        assert run.get("2") == 200
    other = Run([30.0], exchange("1", 10.0, 11.0), events=[], early=True)
    with other.replayed(), pytest.raises(KeyboardInterrupt):
        other.get("1")


def test_another_threads_answer_that_came_later_waits_for_the_interruption() -> None:
    run = Run([30.0], exchange("1", 10.0, 11.0), exchange("2", 12.0, 40.0, main=False))
    got: list[tuple[int, int]] = []
    worker = threading.Thread(target=lambda: got.append((run.get("2"), run.interruptions.came)), daemon=True)
    with run.replayed():
        worker.start()
        assert run.get("1") == 200
        with pytest.raises(KeyboardInterrupt):
            run.get("3")
        worker.join(60)
    assert got == [(200, 1)]


def test_a_main_thread_that_waits_for_another_one_is_interrupted_there() -> None:
    run, over = Run([30.0], exchange("2", 31.0, 40.0, main=False)), threading.Event()

    def work() -> None:
        run.get("2")
        over.set()

    worker = threading.Thread(target=work, daemon=True)
    with run.replayed():
        worker.start()
        with pytest.raises(KeyboardInterrupt):
            over.wait(60)
        assert over.wait(60)
    assert run.answers.unknown == []


def test_of_several_threads_that_wait_one_interrupts_the_main_thread() -> None:
    later = [exchange(str(number), 31.0, 40.0, main=False) for number in range(4)]
    run = Run([30.0, 90.0], *later)
    workers = [threading.Thread(target=run.get, args=(str(number),), daemon=True) for number in range(4)]
    with run.replayed():
        for worker in workers:
            worker.start()
        with pytest.raises(KeyboardInterrupt):
            threading.Event().wait(60)
        for worker in workers:
            worker.join(60)
        assert run.interruptions.came == 1
    assert (run.answers.answered, run.answers.unknown) == (4, [])


def test_a_request_that_the_recorded_process_did_not_live_to_send_is_none_that_is_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run, failures, held = Run([30.0]), list[BaseException](), threading.Event()
    hold = run.interruptions.hold

    def holding() -> bool:
        held.set()
        return hold()

    def work() -> None:
        try:
            run.get("9")
        except BaseException as error:  # noqa: BLE001 - it is compared
            failures.append(error)

    monkeypatch.setattr(run.interruptions, "hold", holding)
    worker = threading.Thread(target=work, daemon=True)
    with run.replayed():
        with pytest.raises(KeyboardInterrupt):
            run.event()
        worker.start()
        assert held.wait(60)
    worker.join(60)
    assert [type(one) for one in failures] == [UnknownRequestError]
    assert run.answers.unknown == []


def test_a_thread_that_is_left_gets_no_answer_after_the_end() -> None:
    run, failures = Run([], exchange("1", 10.0, 11.0)), list[BaseException]()

    def work() -> None:
        run.interruptions._over.wait(60)
        try:
            run.get("1")
        except BaseException as error:  # noqa: BLE001 - it is compared
            failures.append(error)

    worker = threading.Thread(target=work, daemon=True)
    with run.answers.in_place():
        with run.interruptions.in_place():
            worker.start()
        assert not worker.is_alive()
    assert [type(one) for one in failures] == [UnknownRequestError]
    assert (run.answers.answered, run.answers.unknown) == (0, [])


def test_a_main_thread_goes_beyond_the_recording_after_an_interruption() -> None:
    run = Run([30.0])
    with run.replayed():
        with pytest.raises(KeyboardInterrupt):
            run.event()
        with pytest.raises(UnknownRequestError):
            run.get("9")
    assert run.answers.unknown == ["GET https://a.b/9"]
