"""The fixtures of the SDK's tools: ``pytest -p devtools_testutils.proxy_fixtures``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TypeVar

import pytest

V = TypeVar("V")


class VariableRecorder:
    """Gives the values that a test drew."""

    def get_or_record(self, _name: str, value: V) -> V:
        """Return *value*, which no recording replaces."""
        return value


class EnvironmentVariables:
    """The variables by which a test finds its service."""

    def sanitize_batch(self, names: Mapping[str, str]) -> dict[str, str]:
        """Return the values of these variables, which no recording has to hide."""
        return {name: os.environ[name] for name in names}

    def get(self, name: str) -> str | None:
        """Return a variable's value, if it has one."""
        return os.environ.get(name)


@pytest.fixture(scope="session")
def test_proxy() -> None:
    """No proxy is between the test and its service."""


@pytest.fixture
def recorded_test() -> None:
    """A test that would be recorded."""


@pytest.fixture
def variable_recorder() -> VariableRecorder:
    """Values that a test draws."""
    return VariableRecorder()


@pytest.fixture
def environment_variables() -> EnvironmentVariables:
    """Where the service is."""
    return EnvironmentVariables()
