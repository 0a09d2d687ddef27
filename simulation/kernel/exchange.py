"""One request and its answer, between the client's thread and the service's."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from simulation.kernel.messages import Response

if TYPE_CHECKING:
    from simulation.kernel.entities import Task
    from simulation.kernel.scheduler import Kernel


class RefusedError(OSError):
    """The connection is refused, or the host is unknown."""


class HangingConnectError(Exception):
    """The connection was not answered within the client's time-out."""


class TimedOutError(Exception):
    """Nothing was answered within the client's time-out."""


class Exchange:
    """A request that was sent, and what has arrived of its answer.

    Attributes:
        task: the client's thread.
        status, headers: of the answer, once it has begun.
        streamed: whether the service produces the body part by part.
        answered: whether the service has answered, whatever becomes of the answer.
        given_up: whether the client no longer waits for an answer.
    """

    def __init__(self, kernel: Kernel, task: Task) -> None:
        self.task = task
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self.streamed = False
        self.answered = False
        self.given_up = False
        self._kernel = kernel
        self._begun = False
        self._chunks: deque[bytes] = deque()
        self._ended = False
        self._error: OSError | None = None

    # The service's side, called in the hub

    def begin(self, response: Response) -> None:
        """The first line and the headers arrive; the first answer counts."""
        if not self._begun and self._error is None:
            self._begun = True
            self.status, self.headers = response.status, response.headers
            self._kernel.wake(self.task)

    def feed(self, chunk: bytes) -> None:
        """A part of the body arrives."""
        self._chunks.append(chunk)
        self._kernel.wake(self.task)

    def finish(self) -> None:
        """The body is complete, or the connection was closed in order."""
        self._ended = True
        self._kernel.wake(self.task)

    def fail(self, error: OSError) -> None:
        """The connection breaks, unless the answer has arrived."""
        if not self._ended and self._error is None:
            self._error = error
            self._kernel.wake(self.task)

    # The client's side

    def wait(self, seconds: float | None) -> None:
        """Wait for the beginning of the answer.

        Raises:
            OSError: the connection broke.
            TimedOutError: nothing arrived in time.
        """
        until = None if seconds is None else self._kernel.now + round(seconds * 1e9)
        while not self._begun:
            if self._error is not None:
                raise self._error
            if until is not None and self._kernel.now >= until:
                self.given_up = True
                raise TimedOutError
            self._kernel.wait("an answer", until)

    def chunk(self, seconds: float | None) -> bytes | None:
        """Return the next part of the body, None at its end.

        Raises:
            TimeoutError: nothing arrived in time.
            OSError: the connection broke.
        """
        until = None if seconds is None else self._kernel.now + round(seconds * 1e9)
        while not self._chunks:
            if self._error is not None:
                raise self._error
            if self._ended:
                return None
            if until is not None and self._kernel.now >= until:
                raise TimeoutError("timed out")
            self._kernel.wait("a body", until)
        return self._chunks.popleft()


def reset() -> OSError:
    """Return the error of a connection that the other side resets."""
    return ConnectionResetError(104, "Connection reset by peer")


def refused() -> RefusedError:
    """Return the error of a port where no process listens."""
    return RefusedError(111, "Connection refused")


def parts(body: bytes | Iterable[bytes]) -> Iterable[bytes]:
    """Return the parts of a body."""
    return [body] if isinstance(body, bytes) else body
