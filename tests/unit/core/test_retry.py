from __future__ import annotations

import contextlib

import pytest
import stamina

from aml_train.core import retry as retries
from aml_train.core.errors import AmlTrainError, InvalidError, ServiceError


class LostError(ServiceError):
    pass


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7", 7.0),
        ("Thu, 01 Jan 1970 00:01:00 GMT", 50.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("soon", None),
        ("", None),
    ],
)
def test_retry_after(text: str, expected: float | None) -> None:
    assert retries.retry_after({"Retry-After": text}, now=10.0) == expected


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ServiceError("x", transient=True), True),
        (ServiceError("x", transient=True, retry_after=7.0), 7.0),
        (ServiceError("x", transient=True, retry_after=0.0), 0.1),
        (ServiceError("x", transient=True, retry_after=60.5), False),
        (ServiceError("x", retry_after=7.0), False),
        (InvalidError("x"), False),
        (OSError("x"), False),
    ],
)
def test_what_is_tried_again_and_when(error: Exception, expected: object) -> None:
    assert retries.backoff(error) == expected


@pytest.mark.parametrize(
    ("errors", "only", "sent", "raised"),
    [
        ([LostError("a", transient=True)] * 9, ServiceError, 10, None),
        ([LostError(f"{number}", transient=True) for number in range(10)], ServiceError, 10, "9"),
        ([ServiceError("no")], ServiceError, 1, "no"),
        ([LostError("a", transient=True), ServiceError("b", transient=True)], LostError, 2, "b"),
    ],
)
def test_how_often(errors: list[ServiceError], only: type[ServiceError], sent: int, raised: str | None) -> None:
    count, left, ended = 0, list(errors), None
    with stamina.set_testing(True, attempts=retries.ATTEMPTS):
        try:
            for attempt in retries.repeated(only=only):
                with attempt:
                    count += 1
                    if left:
                        raise left.pop(0)
        except AmlTrainError as error:
            ended = error.message
    assert (count, ended) == (sent, raised)


def test_an_interruption_is_no_attempt_that_failed() -> None:
    begun = 0
    with contextlib.suppress(KeyboardInterrupt):
        for attempt in retries.repeated(3):
            with attempt:
                begun += 1
                raise KeyboardInterrupt
    assert begun == 1
