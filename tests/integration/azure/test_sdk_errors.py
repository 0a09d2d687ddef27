"""What becomes of azure-ai-ml's errors. Its import takes seconds, so that this is no unit test."""

from __future__ import annotations

import pytest
from azure.core.exceptions import HttpResponseError, ServiceRequestError

from aml_train.azure.sdk_v2 import translate
from aml_train.core.answers import REACH
from aml_train.core.errors import ServiceError

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of azure-ai-ml's own import
IDS = {"x-ms-request-id": "r-1", "x-ms-correlation-request-id": "c-2", "Date": "Thu, 01 Jan 2026 00:00:00 GMT"}


def test_errors_of_the_sdk_say_the_same() -> None:
    response = type("Response", (), {"headers": {**IDS, "Retry-After": "9"}, "status_code": 429, "reason": "Busy"})()
    busy = translate(HttpResponseError("busy", response=response), "Submitting")
    assert busy is not None
    assert "it asks to wait 9 seconds (x-ms-request-id r-1" in busy.message
    lost = translate(ServiceRequestError("refused"), "Submitting")
    assert lost is not None
    assert lost.hint == REACH


def test_a_message_of_the_sdk_is_text_without_colours() -> None:
    from azure.ai.ml.exceptions import MlException  # its import warns

    error = MlException("\x1b[31m(x) no \udfff\x1b[39m version", no_personal_data_message="x")
    found = translate(error, "Submitting")
    assert "(x) no \ufffd version" in found.message


@pytest.mark.parametrize(
    "error",
    [
        AttributeError("'str' object has no attribute 'get'"),
        KeyError("id"),
        RecursionError(),
        NotImplementedError(),
        OSError(5, "Input/output error"),
        Exception("x"),
    ],
)
def test_what_an_sdk_makes_of_a_wrong_answer_is_our_error(error: Exception) -> None:
    assert isinstance(translate(error, "Submitting"), ServiceError)
