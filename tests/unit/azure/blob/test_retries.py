"""Which requests to Blob storage are repeated, and when."""

from __future__ import annotations

from typing import Any

import pytest
from azure.core.exceptions import IncompleteReadError
from azure.core.pipeline import Pipeline
from azure.core.pipeline.transport import HttpRequest

from aml_train.azure.blob.storage import MOST_PAUSE_SECONDS, retries


class CutOff:
    """Every answer is cut off; pauses are noted."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    def send(self, request: Any, **_: Any) -> Any:
        raise IncompleteReadError("Connection broken")

    def sleep(self, duration: float) -> None:
        self.pauses.append(duration)


def test_pauses_grow_and_none_is_longer_than_the_sdks_longest() -> None:
    transport = CutOff()
    pipeline: Any = Pipeline
    with pytest.raises(IncompleteReadError):
        pipeline(transport, [retries(6)["retry_policy"]]).run(HttpRequest("GET", "https://a.blob.core.windows.net/"))
    assert transport.pauses == pytest.approx(
        [3, 9, 27, MOST_PAUSE_SECONDS, MOST_PAUSE_SECONDS, MOST_PAUSE_SECONDS], abs=1
    )
