"""Guards: a unit test uses no network, starts no process, obeys no outer terminal, and leaves the environment as it was."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator

import pytest

#: What pipelines set for the sake of their logs, and libraries obey.
_TERMINAL = ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS", "LINES")


@pytest.fixture(autouse=True)
def _no_world() -> Iterator[None]:
    def refuse(*_args: object, **_kwargs: object) -> None:
        raise AssertionError("a unit test may not use sockets or start processes: move it to tests/integration")

    # Its own, for a test may undo what it has patched itself.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", refuse)
        patch.setattr(socket.socket, "bind", refuse)
        patch.setattr(subprocess.Popen, "__init__", refuse)
        for name in _TERMINAL:
            patch.delenv(name, raising=False)
        before = dict(os.environ)
        yield
        after = {key: value for key, value in os.environ.items() if key != "PYTEST_CURRENT_TEST"}
        before.pop("PYTEST_CURRENT_TEST", None)
        assert after == before, "the test changed os.environ"
