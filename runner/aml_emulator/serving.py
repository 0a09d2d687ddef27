"""Starts the service: storage and registry first, the rest while they start."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import Callable

import uvloop

from aml_emulator import server
from aml_emulator.identity.identity import load_or_create
from aml_emulator.network.certificates import prepare_certificates
from aml_emulator.processes.backing import Backing, start_children
from aml_emulator.processes.host import StartError, hold, lock_file, reserved_port
from aml_emulator.settings import Settings
from aml_emulator.workspaces import MakeRunner

SWITCH_SECONDS = 0.0001
"""A few threads answer many short requests at once: a thread should not wait 5 ms, Python's default, for its turn."""


def run(settings: Settings, *, clock: Callable[[], float] = time.time, make_runner: MakeRunner | None = None) -> None:
    """Run the service in this thread until SIGTERM or SIGINT: see :func:`serve`."""
    sys.setswitchinterval(SWITCH_SECONDS)
    uvloop.run(serve(settings, clock=clock, make_runner=make_runner))


async def serve(
    settings: Settings, *, clock: Callable[[], float] = time.time, make_runner: MakeRunner | None = None
) -> None:
    """Run the service until SIGTERM or SIGINT.

    When it is ready, one line of JSON is written to stdout: ``{"event": "ready", "port", "registry_port", ...}``.

    Args:
        clock: seconds since the epoch: what tokens, signed addresses and records are dated by.
        make_runner: gives what executes jobs; containers by default.

    Raises:
        StartError: a port or the data folder is taken, no container engine answers, or a child cannot be started or
            ended.
    """
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    async with contextlib.AsyncExitStack() as stack:
        lock = stack.enter_context(lock_file(settings.data / "lock"))
        await hold(lock, settings.data)
        try:
            backing = _start_backing(settings, lock, stack)
            await server.run(settings, backing, stack, stop, clock, make_runner)
        except StartError:
            raise
        except Exception as error:
            reason = server.start_error(error)
            if reason is None:
                raise
            raise reason from error


def _start_backing(settings: Settings, lock: int, stack: contextlib.AsyncExitStack) -> Backing:
    """Begin to start storage and registry."""
    identity = load_or_create(settings.data, location=settings.location)
    certificates = prepare_certificates(settings.data / "tls")
    registry_port = stack.enter_context(reserved_port())
    # The children end after all that uses them, and before the lock is free.
    last = contextlib.AsyncExitStack()
    stack.push_async_callback(last.aclose)
    starting = asyncio.create_task(start_children(settings, identity, certificates, registry_port, lock, last))
    stack.push_async_callback(_cancelled, starting)
    return Backing(identity=identity, certificates=certificates, registry_port=registry_port, children=starting)


async def _cancelled(starting: asyncio.Task[object]) -> None:
    """End what still starts; a failure reaches those who wait for it."""
    starting.cancel()
    await asyncio.wait([starting])
    if not starting.cancelled():
        starting.exception()
