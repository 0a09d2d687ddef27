"""Pushes and pulls of the engine that broke off are done again: what has arrived is not sent a second time.

The engine has a patience of its own, and some answers for which it has none. It tries a layer five times, 5 to 20 seconds apart, when
the connection breaks or the registry answers 5xx; it gives up at once on 401, 429 and on 4xx in general, though a token may
have expired and a limit may pass (moby, distribution/xfer/upload.go and distribution/errors.go, v20.10 to v28). So it is asked again,
after the registry has been asked from here: that obeys Retry-After, signs in anew, and tells a refusal that will stay from trouble that
passes, by status and not by the engine's words.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from aml_train.core.errors import ImageError
from aml_train.core.events import Listener, Notice
from aml_train.core.threads import Stop

T = TypeVar("T")

PAUSES: Final = (1.0, 3.0, 9.0, 20.0)
"""Seconds before each attempt after the first."""


class BrokenOffError(ImageError):
    """What the engine was asked to do broke off; done again, it may succeed."""


def done_again(
    work: Callable[[], T],
    *,
    check: Callable[[], object],
    renew: Callable[[], object],
    listener: Listener,
    stop: Stop,
    pauses: Sequence[float] | None = None,
) -> T:
    """Return what *work* returns, doing it again as long as it breaks off and *check* succeeds.

    Args:
        work: asks the engine; with the credentials of the moment.
        check: raises ImageError where the registry refuses for good.
        renew: makes the credentials of the moment new ones.
        listener: told of each failure that is not the last.
        stop: ends the waiting.
        pauses: seconds before each attempt after the first; :data:`PAUSES` by default.

    Raises:
        ImageError: *work* failed for good or each time; or *check* did.
        StoppedError: if *stop* was set meanwhile.
    """
    pauses = PAUSES if pauses is None else pauses
    for number, pause in enumerate([*pauses, None], start=1):
        try:
            return work()
        except BrokenOffError as error:
            stop.check()
            if pause is None:
                error.message += f" ({number} attempts)"
                raise
            renew()
            text = f"{error.message}. Once more in {pause:.0f} s: attempt {number + 1} of {len(pauses) + 1}."
            listener(Notice(text=text, level="warning"))
            _wait(pause, stop)
            try:
                check()
            except ImageError as refusal:
                refusal.message += f"\nBefore that, {error.message}"
                raise
    raise AssertionError("unreachable")  # pragma: no cover - the last attempt returns or raises


def _wait(seconds: float, stop: Stop) -> None:
    over = threading.Event()
    with stop.frees(over.set):
        over.wait(seconds)
