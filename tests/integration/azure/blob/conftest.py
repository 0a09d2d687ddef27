"""Two local AzureMLs, started once for all tests of data."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.azure.blob.two_targets import TwoTargets
from tests.support.emulator_process import Emulator


@pytest.fixture(scope="package")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoTargets]:
    services = [Emulator(tmp_path_factory.mktemp(name)) for name in ("local", "azure")]
    started = []
    try:
        for service in services:
            service.start()
            started.append(service)
        yield TwoTargets(local=services[0], azure=services[1], folder=tmp_path_factory.mktemp("work"))
    finally:
        for service in started:
            service.stop()
