"""Checks and tests of one image, and which of two failures is the reason."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from aml_train.core.errors import ImageError, TestsFailedError
from aml_train.core.files import FileSet
from aml_train.image import verify
from aml_train.image.context import ImageContext
from aml_train.image.readiness.facts import Facts
from aml_train.image.spec import TestSpec
from aml_train.image.verify import verify_image
from tests.support.image_configs import plan
from tests.unit.image.readiness.test_readiness import GOOD


def _fails(error: Exception) -> Any:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def _context(tmp_path: Any) -> ImageContext:
    unused = cast("Any", None)
    return ImageContext(
        spec=plan(),
        tests=TestSpec(files=FileSet.collect(tmp_path), command="pytest"),
        engine=cast("Any", SimpleNamespace()),
        location=unused,
        registry=unused,
        listener=lambda _event: None,
    )


def test_an_image_that_is_not_ready_is_not_tested(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "probe_image", _fails(ImageError("the image is not ready")))
    monkeypatch.setattr("aml_train.image.verify.run_tests", _fails(TestsFailedError("the tests failed")))
    with pytest.raises(ImageError, match=r"^the image is not ready$"):
        verify_image(_context(tmp_path), "sha256:0", check=True, test=True)


def test_tests_that_fail_in_an_image_that_is_ready_are_the_reason(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "probe_image", lambda *_, **__: cast("Facts", GOOD))
    monkeypatch.setattr("aml_train.image.verify.run_tests", _fails(TestsFailedError("the tests failed")))
    with pytest.raises(TestsFailedError, match=r"^the tests failed$"):
        verify_image(_context(tmp_path), "sha256:0", check=True, test=True)
