"""A submission on its way, which can be called off until the request that makes the job has left."""

from __future__ import annotations

import threading
from collections.abc import Callable

from aml_train.core.errors import CancelledError


class Submission:
    """Shared by the thread that submits and the one that may think better of it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left = False
        self._called_off = False
        self._undo: list[Callable[[], None]] = []

    def leave(self) -> None:
        """Say that the request which makes the job is about to leave; also before each repetition of it.

        Raises:
            CancelledError: the submission was called off. The request must not leave then.
        """
        with self._lock:
            if self._called_off:
                raise CancelledError("The submission was called off.")
            self._left = True

    def on_call_off(self, undo: Callable[[], None]) -> None:
        """Have *undo* called, in the other thread, when the submission is called off; at once if it was. It must not raise."""
        with self._lock:
            self._undo.append(undo)
            late = self._called_off
        if late:
            undo()

    def call_off(self) -> bool:
        """Stop the submission. Return whether it has been stopped: False where the request has left already."""
        with self._lock:
            if self._left:
                return False
            self._called_off = True
            undo = self._undo[:]
        for action in undo:
            action()
        return True
