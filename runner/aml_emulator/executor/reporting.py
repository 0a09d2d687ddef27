"""The end of a run, reported until it is stored."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Final

from aml_emulator.store.database import is_storage_fault

logger = logging.getLogger(__name__)

PAUSE_SECONDS: Final = 5.0
"""Between two attempts."""


def report_until_stored(
    report: Callable[[], object], *, fault: Callable[[str], object], left: threading.Event, what: str
) -> bool:
    """Report an end until it is stored, and return whether it is.

    A client follows a run whose end is lost for as long as it can. A full disk loses it, for one.

    Args:
        report: stores the end.
        fault: stores in its place that the emulator failed, and why; used when *report* fails for another cause than its
            storage.
        left: set when the run is left to the next process.
        what: the run, for the log.

    Raises:
        Exception: not even *fault* can be stored, for another cause than the storage: the run is gone.
    """
    attempt, faulty = report, False
    while not left.is_set():
        try:
            attempt()
        except Exception as error:
            logger.exception("the end of %s could not be stored; it is tried again in %g s", what, PAUSE_SECONDS)
            if not is_storage_fault(error):
                if faulty:
                    raise
                attempt, faulty = partial(fault, f"{type(error).__name__}: {error}"), True
            left.wait(PAUSE_SECONDS)
        else:
            return True
    return False
