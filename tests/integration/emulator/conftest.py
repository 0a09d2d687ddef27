"""Fixtures of the executor's tests."""

from tests.integration.emulator.executor_bench import bench, make_bench

__all__ = ["bench", "make_bench"]
