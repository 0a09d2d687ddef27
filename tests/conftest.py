"""What holds for all tests."""

from __future__ import annotations

import signal

import pytest

# Its assertions are to say as much as those of tests.
pytest.register_assert_rewrite("tests.contracts.job_service")


def pytest_configure() -> None:
    """Have interruptions reach the programs that tests start: a shell's background jobs are born ignoring them, and hand that on."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
