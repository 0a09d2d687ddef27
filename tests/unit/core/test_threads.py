from __future__ import annotations

import signal
import threading

import pytest

from aml_train.core.errors import ImageError, TestsFailedError
from aml_train.core.threads import (
    CancelToken,
    WorkCancelledError,
    cleanup,
    cleanup_on_interrupt,
    drain,
    map_parallel,
    run_parallel,
    temporary,
)


@pytest.fixture(autouse=True)
def _time_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have whatever ends waited for until it has, however busy the machine is."""
    monkeypatch.setattr("aml_train.core.threads.JOIN_SECONDS", 300.0)
    monkeypatch.setattr("aml_train.core.threads.CLEANUP_SECONDS", 300.0)


def _waiting(token: CancelToken, begun: threading.Event | None = None) -> str:
    """Work that only its stop ends."""
    freed = threading.Event()
    with token.on_cancel(freed.set):
        if begun is not None:
            begun.set()
        freed.wait()
    raise AssertionError("it is not told that it was stopped")


def test_both_results_come_back() -> None:
    assert run_parallel(lambda _: 1, lambda _: "two", name="aside", ended="") == (1, "two")


def test_a_failure_aside_ends_the_main_work_and_says_so() -> None:
    def push(_: CancelToken) -> None:
        raise ImageError("the push failed: denied", hint="Sign in.")

    with pytest.raises(ImageError, match=r"^the push failed: denied\nThe tests were ended\.\nSign in\.$"):
        run_parallel(_waiting, push, name="push", ended="The tests were ended.")


def test_a_failure_of_the_main_work_ends_the_other() -> None:
    begun, ended = threading.Event(), threading.Event()

    def tests(_: CancelToken) -> None:
        begun.wait()
        raise TestsFailedError("1 of 2 tests failed")

    def push(token: CancelToken) -> None:
        try:
            _waiting(token, begun)
        finally:
            ended.set()

    with pytest.raises(TestsFailedError, match=r"^1 of 2 tests failed$"):
        run_parallel(tests, push, name="push", ended="")
    assert ended.is_set()


def test_the_first_failure_is_raised_and_tells_of_the_second() -> None:
    failed = threading.Event()

    def tests(_: CancelToken) -> None:
        raise TestsFailedError("1 of 2 tests failed")

    def push(token: CancelToken) -> None:
        with pytest.raises(WorkCancelledError):
            _waiting(token)
        failed.set()
        raise ImageError("denied", hint="Sign in.")

    with pytest.raises(TestsFailedError, match=r"^1 of 2 tests failed\nAlso: denied\nSign in\.$"):
        run_parallel(tests, push, name="push", ended="")
    assert failed.is_set()


def test_work_that_cannot_be_ended_keeps_no_process_from_exiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aml_train.core.threads.CLEANUP_SECONDS", 0.01)
    release = threading.Event()

    def tests(_: CancelToken) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), drain():
        run_parallel(tests, lambda _: release.wait(), name="endless", ended="")
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "endless"]
    assert thread.daemon
    release.set()
    thread.join()


def test_after_an_interruption_everything_is_waited_for_together() -> None:
    done: list[str] = []
    gate = threading.Event()

    def first() -> None:
        gate.wait()
        done.append("first")

    def interrupted() -> None:
        cleanup_on_interrupt(lambda: done.append("second"))
        try:
            with cleanup(first):
                cleanup_on_interrupt(gate.set)
                raise KeyboardInterrupt
        finally:
            cleanup_on_interrupt(lambda: done.append("last"), last=True)

    with pytest.raises(KeyboardInterrupt), drain():
        interrupted()
    assert sorted(done[:2]) == ["first", "second"]
    assert done[2] == "last"


def test_without_an_interruption_the_end_is_waited_for_and_tells_its_errors() -> None:
    done: list[str] = []
    with drain(), cleanup(lambda: done.append("well")):
        pass
    with pytest.raises(ImageError, match="no"), drain(), cleanup(lambda: done.append("badly")):
        raise ImageError("no")
    assert done == ["well", "badly"]

    def refuse() -> None:
        raise OSError("busy")

    with pytest.raises(OSError, match="busy"), cleanup(refuse):
        pass


def test_a_failure_to_tidy_up_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def refuse() -> None:
        raise OSError("busy")

    with pytest.raises(KeyboardInterrupt), drain(), cleanup(refuse):
        raise KeyboardInterrupt
    assert "Something is left over from the interruption" in caplog.text
    assert "busy" in caplog.text


def test_an_error_after_the_stop_is_its_consequence() -> None:
    token = CancelToken()

    def lose_connection() -> None:
        token.cancel()
        raise OSError("connection reset")

    with pytest.raises(WorkCancelledError), token.on_cancel(lambda: None):
        lose_connection()


def test_a_way_that_fails_does_not_keep_the_others() -> None:
    token, freed = CancelToken(), threading.Event()

    def fail() -> None:
        raise ConnectionRefusedError("the engine is gone")

    with pytest.raises(WorkCancelledError), token.on_cancel(fail), token.on_cancel(freed.set):
        token.cancel()
    assert freed.is_set()


def test_what_is_temporary_ends_with_its_block() -> None:
    done: list[str] = []
    with temporary(lambda: "it", done.append) as made:
        assert (made, done) == ("it", [])
    assert done == ["it"]
    with pytest.raises(ImageError, match=r"^broken$"), temporary(lambda: "other", done.append):
        raise ImageError("broken")
    assert done == ["it", "other"]


def test_an_interruption_while_something_is_made_ends_what_comes_of_it() -> None:
    done: list[str] = []
    interrupted = threading.Event()

    def make() -> str:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        interrupted.wait()
        return "it"

    def use() -> None:
        try:
            with temporary(make, done.append):
                raise AssertionError("the block begins")
        finally:
            assert done == []
            interrupted.set()

    with pytest.raises(KeyboardInterrupt), drain():
        use()
    assert done == ["it"]


@pytest.mark.parametrize("failure", [None, ImageError("broken")])
def test_an_interruption_while_something_is_ended_ends_it_all_the_same(failure: Exception | None) -> None:
    ends: list[str] = []

    def end(thing: str) -> None:
        ends.append(thing)
        if len(ends) == 1:  # before its request has left
            signal.raise_signal(signal.SIGINT)
        ends.append("done")

    def use() -> None:
        with temporary(lambda: "it", end):
            if failure is not None:
                raise failure

    with pytest.raises(KeyboardInterrupt), drain():
        use()
    assert ends == ["it", "it", "done"]


def test_after_an_interruption_what_the_other_work_made_is_ended_as_well() -> None:
    done: list[str] = []
    begun, interrupted = threading.Event(), threading.Event()

    def make() -> str:
        begun.set()
        interrupted.wait()
        return "it"

    def tests(_: CancelToken) -> None:
        begun.wait()
        cleanup_on_interrupt(interrupted.set)
        raise KeyboardInterrupt

    def checks(token: CancelToken) -> None:
        with temporary(make, done.append), token.on_cancel(lambda: None):
            raise AssertionError("the block begins")

    with pytest.raises(KeyboardInterrupt), drain():
        run_parallel(tests, checks, name="checks", ended="")
    assert done == ["it"]


def test_functions_that_run_in_parallel_keep_their_order() -> None:
    together = threading.Barrier(3)

    def work(number: int) -> int:
        together.wait(300)
        return -number

    assert map_parallel(work, [1, 2, 3], "work") == [-1, -2, -3]
    assert map_parallel(str, range(20), "work") == [str(number) for number in range(20)]
    assert map_parallel(str, [], "work") == []


def test_the_first_failure_in_their_order_is_raised() -> None:
    def work(number: int) -> int:
        if number:
            raise ImageError(f"number {number}")
        return number

    with pytest.raises(ImageError, match=r"^number 1$"):
        map_parallel(work, [0, 1, 2], "work")
