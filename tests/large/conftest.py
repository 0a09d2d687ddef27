"""The engine of the other tests with containers, and the options of the tests in a workspace."""

import pytest

from tests.integration.conftest import engine

__all__ = ["engine"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """See docs/azure-check.md."""
    parser.addoption("--workspace", help="the workspace's id in Azure Resource Manager")
    parser.addoption("--compute", help="the name of a cluster of that workspace")
    parser.addoption("--image", action="append", default=[], help="an image with Python, by digest; given twice")
