"""The engine of the other tests with containers."""

from tests.integration.conftest import engine

__all__ = ["engine"]
