"""How often a request is sent again, and after how long: one policy for what Azure is asked by plain requests, and for its SDK.

A repetition must be harmless: every request that is repeated is idempotent by a name that is chosen before it leaves
(docs/architecture.md has the table).
"""

from __future__ import annotations

import email.utils
import logging
import time
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final

import stamina

from aml_train.core.errors import ServiceError

# stamina logs each repetition as a warning, which Python writes to stderr where nobody handles it.
logging.getLogger("stamina").addHandler(logging.NullHandler())

#: So often a request is sent at most; where a tenth of the answers fails, one in 10**10 is not answered at all.
ATTEMPTS: Final = 10
#: Of a request that its sender repeats anyway, such as the question how a job is.
FEW: Final = 4
#: No attempt begins later than so many seconds after the first one...
PATIENCE_SECONDS: Final = 120.0
#: ...but for one that the service itself has put off, by no more than this.
LONGEST_WAIT_SECONDS: Final = 60.0
#: Characters of a header that are read, and seconds (thirty years) that are more than anyone waits.
_LONGEST_HEADER: Final = 100
_FAR: Final = 1e9
#: Answers that may be others in a moment.
TRANSIENT_STATUS: Final = frozenset({408, 429, 500, 502, 503, 504})


def retry_after(headers: Mapping[str, str], *, now: float | None = None) -> float | None:
    """Return the seconds that ``Retry-After`` asks to wait, None where it says nothing that can be read.

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
    """Tell whether *error* goes away by itself, and after how many seconds where the service said so."""
    if not isinstance(error, ServiceError) or not error.transient:
        return False
    asked = error.retry_after
    return True if asked is None else asked <= LONGEST_WAIT_SECONDS and max(asked, 0.1)


def repeated(
    attempts: int = ATTEMPTS, *, only: type[ServiceError] = ServiceError
) -> Iterable[AbstractContextManager[Any]]:
    """Yield a context for each attempt: one that raises a transient ServiceError is followed by the next, after a pause.

    The last attempt's error is let through.

    Args:
        attempts: how many there are at most.
        only: what is repeated, and nothing else.
    """

    def repeat(error: Exception) -> bool | float:
        return isinstance(error, only) and backoff(error)

    return stamina.retry_context(
        on=repeat, attempts=attempts, timeout=PATIENCE_SECONDS, wait_initial=0.2, wait_max=5.0
    )
