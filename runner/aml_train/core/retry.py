"""Retry what is interrupted: requests to Azure, pushes and pulls of the engine.

A repetition must be harmless. Every request that is repeated is idempotent by a name that is chosen before it leaves
(docs/architecture.md has the table); a repeated push or pull skips the layers that have arrived.
"""

from __future__ import annotations

import email.utils
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final, TypeVar

import stamina

from aml_train.core.errors import ImageError, ServiceError
from aml_train.core.events import Listener, Notice
from aml_train.core.threads import CancelToken

T = TypeVar("T")

#: Attempts of a request; if a tenth of the answers fails, one request in 10**10 is not answered at all.
ATTEMPTS: Final = 10
#: Attempts of a request that its sender repeats anyway, such as for the status of a job.
FEW: Final = 4
#: No attempt begins later than so many seconds after the first one...
PATIENCE_SECONDS: Final = 120.0
#: ...but for one that the service itself has put off, by no more than this.
LONGEST_WAIT_SECONDS: Final = 60.0
#: Characters of a header that are read, and seconds (thirty years) that are more than anyone waits.
_LONGEST_HEADER: Final = 100
_FAR: Final = 1e9
#: Seconds before each attempt of a push or pull after the first.
PAUSES: Final = (1.0, 3.0, 9.0, 20.0)
#: Statuses of answers that may be different in a moment.
TRANSIENT_STATUS: Final = frozenset({408, 429, 500, 502, 503, 504})

# stamina logs each repetition as a warning, which Python writes to stderr if no handler takes it.
logging.getLogger("stamina").addHandler(logging.NullHandler())


def retry_after(headers: Mapping[str, str], *, now: float | None = None) -> float | None:
    """Return the seconds that ``Retry-After`` asks to wait, None if it cannot be read.

    Args:
        headers: of an answer; the header is in seconds or a date (RFC 9110, section 10.2.3).
        now: seconds since the epoch; the present by default.
    """
    text = (headers.get("Retry-After") or "").strip()[:_LONGEST_HEADER]
    if text.isascii() and text.isdecimal():
        return min(float(text), _FAR)
    try:
        date = email.utils.parsedate_tz(text)
        until = None if date is None else email.utils.mktime_tz(date)
    except (ValueError, OverflowError, TypeError, IndexError):  # a date that no calendar has
        return None
    return None if until is None else min(max(0.0, until - (time.time() if now is None else now)), _FAR)


def backoff(error: Exception) -> bool | float:
    """Return whether *error* is transient, or the seconds that the service asks for."""
    if not isinstance(error, ServiceError) or not error.transient:
        return False
    asked = error.retry_after
    return True if asked is None else asked <= LONGEST_WAIT_SECONDS and max(asked, 0.1)


def repeated(
    attempts: int = ATTEMPTS, *, only: type[ServiceError] = ServiceError
) -> Iterable[AbstractContextManager[Any]]:
    """Yield a context for each attempt; a transient error leads to the next one.

    The last attempt's error is raised.

    Args:
        attempts: the most attempts.
        only: the errors that are retried.
    """

    def repeat(error: Exception) -> bool | float:
        return isinstance(error, only) and backoff(error)

    return attempts_while(repeat, attempts=attempts, timeout=PATIENCE_SECONDS, longest=5.0)


def attempts_while(
    repeat: Callable[[Exception], bool | float], *, attempts: int, timeout: float, longest: float
) -> Iterable[AbstractContextManager[Any]]:
    """Return a context for each attempt.

    Args:
        repeat: whether an error is retried, or in how many seconds.
        attempts: the most attempts.
        timeout: seconds after the first attempt within which others begin.
        longest: the longest pause in seconds, if *repeat* says no other.
    """
    return stamina.retry_context(on=repeat, attempts=attempts, timeout=timeout, wait_initial=0.2, wait_max=longest)


class TransferInterruptedError(ImageError):
    """A push or pull of the engine was interrupted; a retry may succeed."""


def retry(
    work: Callable[[], T],
    *,
    check: Callable[[], object],
    renew: Callable[[], object],
    listener: Listener,
    token: CancelToken,
) -> T:
    """Return what *work* returns; retry it if interrupted and *check* succeeds.

    The engine itself tries a layer five times, 5 to 20 seconds apart, when the connection breaks or the registry answers
    5xx; it gives up at once on 401, 429 and on 4xx in general, though a token may have expired and a limit may pass (moby,
    distribution/xfer/upload.go and distribution/errors.go, v20.10 to v28). Before each retry, *check* queries the registry
    from here: that obeys Retry-After, signs in again, and distinguishes a refusal that will stay from trouble that passes, by
    status and not by the engine's words.

    Args:
        work: the push or pull, with the current credentials.
        check: raises ImageError if the registry refuses for good.
        renew: renews the current credentials.
        listener: receives each failure that is not the last.
        token: ends the waiting.

    Raises:
        ImageError: *work* failed for good or each time; or *check* did.
        WorkCancelledError: if *token* was cancelled meanwhile.
    """
    for number, pause in enumerate([*PAUSES, None], start=1):
        try:
            return work()
        except TransferInterruptedError as error:
            token.raise_if_cancelled()
            if pause is None:
                error.message += f" ({number} attempts)"
                raise
            renew()
            text = f"{error.message}. Retrying in {pause:.0f} s: attempt {number + 1} of {len(PAUSES) + 1}."
            listener(Notice(text=text, level="warning"))
            token.wait(pause)
            token.raise_if_cancelled()
            try:
                check()
            except ImageError as refusal:
                refusal.message += f"\nBefore that, {error.message}"
                raise
    raise AssertionError("unreachable")  # pragma: no cover - the last attempt returns or raises
