from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.emulator.memory_service import StoredBlobs
from tests.unit.emulator.parts import Service
from tests.unit.emulator.played_pipelines import Pipelines
from tests.unit.emulator.played_sweeps import Sweeps


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    yield made
    made.close()


@pytest.fixture
def pipelines() -> Iterator[Pipelines]:
    made = Pipelines(blobs=StoredBlobs())
    yield made
    made.jobs.close()
    made.close()


@pytest.fixture
def sweeps() -> Iterator[Sweeps]:
    made = Sweeps(blobs=StoredBlobs())
    yield made
    made.jobs.close()
    made.close()
