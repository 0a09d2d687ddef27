from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.emulator.parts import Service


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    yield made
    made.close()
