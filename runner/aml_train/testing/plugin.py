"""The plugin of pytest: the fixtures ``aml_workspace`` and ``aml_memory``.

pytest imports it in every project that has aml-train installed, so it imports nothing that is slow.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from aml_train.local.settings import EmulatorSettings
    from aml_train.testing import AmlWorkspace, MemoryService


@pytest.fixture(scope="session")
def aml_emulator() -> EmulatorSettings:
    """The local AzureML of the environment, started if it does not run.

    The variables are AML_TRAIN_EMULATOR_HOST, …_PORT and so on.
    """
    from aml_train.testing import find_or_start

    return find_or_start(dict(os.environ))


@pytest.fixture
def aml_workspace(
    aml_emulator: EmulatorSettings, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[AmlWorkspace]:
    """A workspace of the local AzureML for one test.

    Azure's SDKs reach it while the test runs. It is deleted at the end, with its jobs.
    """
    from aml_train.testing import temporary_workspace, workspace_name

    with temporary_workspace(aml_emulator, workspace_name(request.node.name), dict(os.environ)) as workspace:
        for name, value in workspace.environment.items():
            monkeypatch.setenv(name, value)
        yield workspace


@pytest.fixture
def aml_memory() -> Iterator[MemoryService]:
    """A workspace in memory, which takes every target's place while the test runs.

    The attribute ``training`` is the work of its jobs.
    """
    from aml_train.testing import memory_workspace

    with memory_workspace() as service:
        yield service
