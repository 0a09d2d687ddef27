"""Output of SDKs, which is kept from the terminal."""

from __future__ import annotations

import logging
import sys
import threading

import pytest

from aml_train.azure.sdk import quiet


def test_output_is_logged_and_not_printed(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, logger="aml_train.azure.sdk"), quiet():
        print("to stdout")
        print("to stderr", file=sys.stderr)
    assert capsys.readouterr() == ("", "")
    assert caplog.messages == ["SDK: to stdout\nto stderr"]


def test_calls_that_overlap_in_two_threads_restore_the_streams(capsys: pytest.CaptureFixture[str]) -> None:
    """The one that began first ends first."""
    streams = sys.stdout, sys.stderr
    began, ended = threading.Event(), threading.Event()

    def other() -> None:
        with quiet():
            began.set()
            assert ended.wait(10)
            print("of the second call")

    thread = threading.Thread(target=other)
    with quiet():
        thread.start()
        assert began.wait(10)
    ended.set()
    thread.join()
    assert (sys.stdout, sys.stderr) == streams
    print("afterwards")
    assert capsys.readouterr() == ("afterwards\n", "")


def test_the_streams_are_restored_after_an_error() -> None:
    streams = sys.stdout, sys.stderr
    with pytest.raises(ValueError, match="refused"), quiet():
        raise ValueError("refused")
    assert (sys.stdout, sys.stderr) == streams
