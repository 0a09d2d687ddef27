"""Checks and tests of one image at once, and which of two failures is the reason."""

from __future__ import annotations

import contextlib
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from aml_train.core.errors import ImageError, TestsFailedError
from aml_train.core.files import FileSet
from aml_train.core.threads import CancelToken, WorkCancelledError
from aml_train.image import trial
from aml_train.image.readiness.check import Checks
from aml_train.image.readiness.facts import Facts
from aml_train.image.spec import TestSpec
from aml_train.image.trial import Trial
from aml_train.image.work import Work
from tests.support.image_configs import plan


def _fails(error: Exception) -> Any:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def _trial(tmp_path: Any) -> Trial:
    nobody = cast("Any", None)
    return Trial(
        Work(
            spec=plan(),
            tests=TestSpec(files=FileSet.collect(tmp_path), command="pytest"),
            engine=nobody,
            cli=nobody,
            location=nobody,
            listener=lambda _event: None,
            commit=None,
            release_tags=(),
            registry=nobody,
        )
    )


def test_an_image_that_is_not_ready_is_the_reason_whichever_thread_is_quicker(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread of the checks is held as soon as that of the tests may go on, until this one has ended with its failure."""
    waiting, ended = threading.Event(), threading.Event()
    held = contextlib.ExitStack()

    class Slow(threading.Event):
        def set(self) -> None:
            super().set()
            ended.wait()

        def wait(self, timeout: float | None = None) -> bool:
            waiting.set()
            return super().wait(timeout)

    def look(_checks: Checks, _engine: object, _image: str, token: CancelToken) -> Facts:
        held.enter_context(token.on_cancel(ended.set))  # it is told to end when the tests have
        waiting.wait()
        raise ImageError("the image is not ready")

    monkeypatch.setattr("aml_train.image.trial.threading", SimpleNamespace(Event=Slow))
    monkeypatch.setattr(Checks, "look", look)
    monkeypatch.setattr(trial, "run_tests", _fails(TestsFailedError("the tests failed")))
    with pytest.raises(ImageError, match=r"^the image is not ready\nAlso: the tests failed$"):
        _trial(tmp_path).inside("sha256:0", CancelToken())
    with contextlib.suppress(WorkCancelledError):
        held.close()


def test_tests_that_fail_in_an_image_that_is_ready_are_the_reason(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Checks, "look", lambda *_: cast("Facts", {}))
    monkeypatch.setattr(trial, "run_tests", _fails(TestsFailedError("the tests failed")))
    with pytest.raises(TestsFailedError, match=r"^the tests failed$"):
        _trial(tmp_path).inside("sha256:0", CancelToken())
