"""What the storage's client repeats: azure-storage-blob sends its requests to a transport in memory."""

from __future__ import annotations

from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import ContainerClient

from aml_train.azure.blob.storage import retries
from tests.support.memory_transport import MemoryTransport


class Busy(MemoryTransport):
    """Answers with these statuses, one after the other; notes how long the client waits between them."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.waits: list[float] = []

    def send(self, request: Any, **_options: Any) -> Any:
        return Answer(request, self.statuses.pop(0))

    def sleep(self, duration: float) -> None:
        self.waits.append(duration)


class Answer:
    """As much of azure-core's response as the properties of a container need."""

    content_type = None
    reason = "said so"
    internal_response = None

    def __init__(self, request: Any, status: int) -> None:
        self.request = request
        self.status_code = status
        code = {} if status == 200 else {"x-ms-error-code": "ServerBusy"}
        self.headers = {"x-ms-request-id": "1", "ETag": "2", **code}

    def text(self, _encoding: str | None = None) -> str:
        return ""

    def body(self) -> bytes:
        return b""


def ask(transport: Busy) -> Any:
    client = ContainerClient(
        "https://a.blob.core.windows.net", "c", credential="a2V5", transport=transport, **retries(3)
    )
    return client.get_container_properties()


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_a_storage_that_is_busy_is_queried_again_soon(status: int) -> None:
    transport = Busy(status, status, 200)
    assert ask(transport).etag == "2"
    assert len(transport.waits) == 2
    assert transport.waits[0] <= 5


@pytest.mark.parametrize(("status", "left"), [(403, 1), (429, 0), (503, 0)])
def test_a_storage_that_refuses_or_stays_busy_is_an_error(status: int, left: int) -> None:
    transport = Busy(status, *([status] * 3 if left == 0 else [200]))
    with pytest.raises(HttpResponseError) as caught:
        ask(transport)
    assert caught.value.status_code in (status, 503)
    assert len(transport.statuses) == left
