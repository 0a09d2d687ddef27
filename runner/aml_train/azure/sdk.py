"""Calls of Azure's SDKs that create something: exactly once, and without output."""

from __future__ import annotations

import contextlib
import io
import logging
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

from aml_train.azure.http import HINTS
from aml_train.core import retry as retries
from aml_train.core.errors import AmlTrainError, CancelledError, InvalidError, RefusedError, ServiceError

ATTEMPTS: Final = 3
_INPUT: Final = re.compile(r"The input '([^']+)'")
"""How the local AzureML begins a refusal of a job's input."""
_LOG = logging.getLogger(__name__)
_Thing = TypeVar("_Thing")


def ml_sdk() -> Any:
    """Return azure-ai-ml with the parts that are needed; it takes over a second to import."""
    import azure.ai.ml.entities
    import azure.ai.ml.exceptions

    return azure.ai.ml


def refusal(
    what: str,
    status: int | None,
    said: str,
    *,
    headers: Mapping[str, str] | None = None,
    trace: str = "",
    lost: bool = False,
) -> ServiceError | InvalidError:
    """Return our error for a refusal by AzureML that an SDK reports.

    Args:
        what: for messages.
        status: of the answer.
        said: the service's explanation.
        headers: of the answer.
        trace: the ids of the request.
        lost: the answer could not be read, so that another one may come.
    """
    asked = retries.retry_after(headers or {})
    wait = "" if asked is None else f"; it asks to wait {asked:.0f} seconds"
    message = f"{what}: AzureML answered {status}: {said}{wait}{f' ({trace})' if trace else ''}"
    if status == 400:
        match = _INPUT.search(said)
        hint = f"Name other data: --set job.inputs.{match[1]}.path=ADDRESS_OR_FOLDER." if match else None
        return RefusedError(message, hint=hint)
    transient = lost or status is None or status in retries.TRANSIENT_STATUS
    return ServiceError(message, hint=HINTS.get(status or 0), transient=transient, retry_after=asked)


def unexpected(what: str, sdk: str, error: Exception, said: str) -> ServiceError:
    """Return our error for whatever else an SDK raised: it decodes answers with few checks."""
    why = f"{what}: {sdk} failed with {type(error).__name__}: {said}"
    return ServiceError(why, hint="An answer of AzureML may not be as it expects; a proxy's page is none.")


def made(
    create: Callable[[], object],
    look: Callable[[], _Thing | None],
    what: str,
    *,
    translate: Callable[[Exception, str], AmlTrainError],
) -> _Thing:
    """Create a thing by an SDK, and return it: the answer may be lost, or late.

    The SDKs repeat each of their requests a few times. If that was not enough and the thing is not there, it is made
    again: its name is chosen before, so that there is never a second one.

    Args:
        create: makes it.
        look: returns it where it is there, and is what was to be made.
        what: for messages.
        translate: makes one of our errors of whatever the SDK raised.

    Raises:
        InvalidError: the SDK refuses.
        CancelledError: the submission was called off.
        ServiceError: the service refuses or does not answer.
    """
    for attempt in retries.repeated(ATTEMPTS):
        with attempt:
            problem: AmlTrainError = ServiceError(
                f"{what}: AzureML accepted it, but does not show it.", transient=True
            )
            try:
                with quiet():
                    create()
            except Exception as error:
                problem = translate(error, what)
                # A refusal by the service is final unless an earlier attempt, whose answer was lost, has made it.
                if isinstance(problem, InvalidError | CancelledError) and not isinstance(problem, RefusedError):
                    raise problem from error
                problem.__cause__ = error
            found = look()
            if found is None:
                raise problem
            return found
    raise AssertionError("the last attempt returns or raises")


class _Silence:
    """The streams of the process, kept from the terminal during calls that overlap.

    The first call redirects them and the last one restores them: two that nested their own redirections in different threads would
    leave one of them behind.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls = 0
        self._streams = contextlib.ExitStack()
        self._said = io.StringIO()

    def begin(self) -> None:
        """Redirect the streams, unless another call has."""
        with self._lock:
            self._calls += 1
            if self._calls == 1:
                self._said = io.StringIO()
                self._streams.enter_context(contextlib.redirect_stderr(self._said))
                self._streams.enter_context(contextlib.redirect_stdout(self._said))

    def end(self) -> None:
        """Restore the streams, unless another call still needs them; log what was printed."""
        with self._lock:
            self._calls -= 1
            if self._calls:
                return
            self._streams.close()
            said = self._said.getvalue().strip()
        if said:
            _LOG.debug("SDK: %s", said)


_SILENCE: Final = _Silence()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep an SDK's output from the terminal; log it at level debug.

    Even with ``show_progress=False`` azure-ai-ml prints colour resets around an upload (``_artifacts/_blob_storage_helper.py``).
    Other threads of the process are silent for that time, too.
    """
    _SILENCE.begin()
    try:
        yield
    finally:
        _SILENCE.end()
