"""Fixtures and hooks of all tests."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support.scheduling import FOLDER, as_utf8, group_of, place_of, room_for

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling
    from xdist.workermanage import WorkerController

# Its assertions are to say as much as those of tests.
pytest.register_assert_rewrite("tests.contracts.job_service")

# How long an example takes says something of the machine, not of the code; and which are tried must not be a matter of luck.
_UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", _UNTIMED, derandomize=True, database=None, max_examples=30)
# To look for what no example has shown yet: pytest tests/unit --hypothesis-profile=search
settings.register_profile("search", _UNTIMED, derandomize=False, max_examples=500, print_blob=True)
settings.load_profile("same")

_LOCKS = pytest.StashKey[str]()
_KEPT = pytest.StashKey[contextlib.ExitStack | None]()


def pytest_configure(config: pytest.Config) -> None:
    """Have interruptions reach the programs that tests start: a shell's background jobs are born ignoring them, and hand that on.

    A run side by side gets a folder for its locks, which its workers learn here.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(config, "workerinput"):
        os.environ[FOLDER] = config.workerinput[FOLDER]
    elif config.getoption("numprocesses", None):
        config.stash[_LOCKS] = tempfile.mkdtemp(prefix="aml-train-tests-")
        # Or else the modules with the most tests would come first, which are the quick ones.
        config.option.loadscopereorder = False


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the folder of the locks."""
    if folder := config.stash.get(_LOCKS, None):
        shutil.rmtree(folder)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    """Pass the locks' folder to a worker, and give it time to clean up before a kill."""
    node.nodemanager.EXIT_TIMEOUT = 60
    node.workerinput[FOLDER] = node.config.stash[_LOCKS]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Give the workers whole groups of tests."""
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return Groups(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, dict[str, Any] | None, dict[str, Any] | None]:
    """Make every report one that a worker can send: execnet sends no lone surrogates, and a log that pytest captured may hold some."""
    report: dict[str, Any] | None = as_utf8((yield))
    return report


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let what takes long begin first, side by side."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: place_of(item.nodeid))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, bool | None, bool | None]:
    """Wait until the test may run next to those of other workers; outside of time-outs.

    Tests that are to be alone, one after the other, wait once.
    """
    alone = [each is not None and each.get_closest_marker("alone") is not None for each in (item, nextitem)]
    room = item.config.stash.get(_KEPT, None)
    if room is None:
        room = contextlib.ExitStack()
        room.enter_context(room_for(item.nodeid, {mark.name for mark in item.iter_markers()}))
    item.config.stash[_KEPT] = room if all(alone) else None
    try:
        return (yield)
    finally:
        if not all(alone):
            room.close()
