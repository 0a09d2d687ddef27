"""Interruptions at the moments that spoil them."""

from __future__ import annotations

import signal
import threading
import weakref

import pytest

from aml_train.core.errors import ImageError
from aml_train.core.interrupts import interrupted, interruptible, unexpected_as_interrupt, watch_interrupts


class Thing:
    """Can be referred to weakly."""


def test_an_interruption_in_a_callback_is_raised_again() -> None:
    thing, seen = Thing(), list[bool]()
    reference = weakref.ref(thing, lambda _gone: signal.raise_signal(signal.SIGINT))
    with interruptible(signal.SIGINT), watch_interrupts(seen.append):
        del thing  # The callback's interruption has no caller.
        with pytest.raises(KeyboardInterrupt):
            threading.Event().wait(300)
    assert (reference(), seen) == (None, [False, True])


def test_each_interruption_is_reported_during_the_block_only() -> None:
    seen: list[bool] = []
    with interruptible(signal.SIGINT):
        with watch_interrupts(seen.append):
            for _ in range(2):
                with pytest.raises(KeyboardInterrupt):
                    signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert seen == [False, False]


def test_another_lost_exception_is_reported_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[object] = []
    monkeypatch.setattr("sys.unraisablehook", lambda lost: reported.append(lost.exc_type))
    thing = Thing()
    reference = weakref.ref(thing, lambda _gone: 1 / 0)
    with interruptible(signal.SIGINT):
        del thing
    assert (reference(), reported) == (None, [ZeroDivisionError])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_error_in_an_interruptions_place_is_the_interruption(number: signal.Signals) -> None:
    def close_twice() -> None:
        try:
            signal.raise_signal(number)
        finally:
            raise OSError("closed twice")

    with interruptible(number), pytest.raises(KeyboardInterrupt), unexpected_as_interrupt():
        close_twice()
    assert interrupted()


def test_errors_without_an_interruption_stay_what_they_are() -> None:
    with interruptible(signal.SIGINT):
        with pytest.raises(OSError, match="broken"), unexpected_as_interrupt():
            raise OSError("broken")
        with pytest.raises(ImageError), unexpected_as_interrupt():
            raise ImageError("no image")


def test_signals_are_ignored_when_it_is_asked_for_and_handled_as_before_afterwards() -> None:
    before = signal.getsignal(signal.SIGINT)
    with interruptible(signal.SIGINT) as ignore:
        ignore()
        signal.raise_signal(signal.SIGINT)
        assert not interrupted()
    assert signal.getsignal(signal.SIGINT) is before
