"""Start the Docker engine of this machine, and never a second one."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from scripts.bootstrap.commands import BootstrapError, Shell, read_tail
from scripts.bootstrap.probes import PID_FILE, SOCKET, find_daemon_process, ping_socket

LOG = Path("/var/log/aml-train-dockerd.log")
# Long enough for a first start on a slow disk; one that has ended is not waited for.
_DEADLINE = 300.0
_INTERVAL = 0.1


def start_daemon(shell: Shell, *, systemd: bool) -> None:
    """Start the engine and wait until it answers.

    Its socket may still be silent afterwards: probe it.

    Without systemd ``dockerd`` runs in a separate session, so that it outlives this process and its terminal,
    with its output in :data:`LOG`.
    """
    if systemd:
        shell.run(["systemctl", "start", "docker"])
        await_socket(SOCKET, lambda: True)
        return
    running = find_daemon_process()
    if running is not None:
        raise BootstrapError(f"dockerd runs already (process {running}); a second one is never started")
    # dockerd refuses to start while its old pid file names any living process, whichever it is by now.
    PID_FILE.unlink(missing_ok=True)
    with LOG.open("ab") as log:
        process = subprocess.Popen(
            ["dockerd"], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/"
        )
    await_socket(SOCKET, lambda: process.poll() is None)


def await_daemon() -> None:
    """Wait until the running engine answers.

    It may be silent afterwards, or have ended: probe it.
    """
    await_socket(SOCKET, lambda: find_daemon_process() is not None)


def await_socket(
    path: Path,
    runs: Callable[[], bool],
    *,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Wait until the engine at *path* answers or no longer *runs*, 300 s at most."""
    deadline = now() + _DEADLINE
    while now() < deadline:
        if ping_socket(path).answers or not runs():
            return
        sleep(_INTERVAL)


def log_tail() -> str:
    """Return the end of the daemon's log, or nothing where none was started here."""
    return read_tail(LOG) if LOG.exists() else ""
