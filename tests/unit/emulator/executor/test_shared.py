"""The places for running jobs, which all queues of an emulator share."""

from __future__ import annotations

from aml_emulator.executor.shared import Clients, Slots


def test_a_place_is_taken_by_what_was_chosen() -> None:
    slots = Slots(1)
    assert slots.take_for(lambda: None) is None
    assert slots.take_for(lambda: "a job") == "a job"
    assert slots.take_for(lambda: "another") is None
    slots.release()
    assert slots.take_for(lambda: "another") == "another"


def test_a_job_that_runs_already_takes_a_place_that_is_not_there() -> None:
    slots = Slots(1)
    slots.take()
    slots.take()
    slots.release()
    assert slots.take_for(lambda: "a job") is None
    slots.release()
    assert slots.take_for(lambda: "a job") == "a job"


def test_every_queue_is_woken_when_a_place_is_given_back() -> None:
    slots, woken = Slots(1), list[str]()
    slots.watch("one", lambda: woken.append("one"))
    slots.watch("two", lambda: woken.append("two"))
    slots.take()
    slots.release()
    slots.forget("one")
    slots.forget("one")
    slots.release()
    assert woken == ["one", "two", "two"]


def test_connections_that_were_never_made_need_no_closing() -> None:
    Clients().close()
