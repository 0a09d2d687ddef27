"""What the tests of pipelines share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.emulator.memory_service import StoredBlobs
from tests.unit.emulator.played_pipelines import Pipelines


@pytest.fixture
def pipelines() -> Iterator[Pipelines]:
    service = Pipelines(blobs=StoredBlobs())
    yield service
    service.jobs.close()
    service.close()
