"""Start the Docker engine of this machine, and never a second one."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from scripts.bootstrap.commands import BootstrapError, Shell, read_tail
from scripts.bootstrap.probes import PID_FILE, SOCKET, find_daemon_process, ping_socket

LOG = Path("/var/log/aml-train-dockerd.log")
_DEADLINE = 90.0
_INTERVAL = 0.1


def start_daemon(shell: Shell, *, systemd: bool) -> None:
    """Start the engine and wait until it answers. Its socket may still be silent afterwards: probe it.

    Without systemd ``dockerd`` runs in a session of its own, so that it outlives this process and its terminal,
    with its output in :data:`LOG`.
    """
    if systemd:
        shell.run(["systemctl", "start", "docker"])
        await_socket(SOCKET)
        return
    running = find_daemon_process()
    if running is not None:
        raise BootstrapError(f"dockerd runs already (process {running}); a second one is never started beside it")
    # dockerd refuses to start while its old pid file names any living process, whichever it is by now.
    PID_FILE.unlink(missing_ok=True)
    with LOG.open("ab") as log:
        process = subprocess.Popen(
            ["dockerd"], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/"
        )
    await_socket(SOCKET, process)


def await_socket(path: Path, process: subprocess.Popen[bytes] | None = None) -> None:
    """Return when the engine behind *path* answers, *process* has ended, or 90 seconds are over."""
    deadline = time.monotonic() + _DEADLINE
    while time.monotonic() < deadline:
        if ping_socket(path).answers or (process is not None and process.poll() is not None):
            return
        time.sleep(_INTERVAL)


def log_tail() -> str:
    """Return the end of the daemon's log, or nothing where none was started here."""
    return read_tail(LOG) if LOG.exists() else ""
