"""A way to an engine at ``ssh://``: a socket of this machine for docker-py.

docker-py imports paramiko for such an address, even if it runs the command ssh. Here each connection to the socket runs the user's own
ssh, with its configuration and agent, as docker's own command does (docker/cli, ``cli/connhelper/connhelper.go``):
``ssh … docker system dial-stdio``.
"""

from __future__ import annotations

import atexit
import contextlib
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final
from urllib.parse import urlsplit

from aml_train.core.errors import ImageError

_LONGEST: Final = 2000
_PENDING: Final = 64


def ssh_command(address: str) -> list[str]:
    """Return the command of one connection to the engine at *address*. Pure.

    Raises:
        ImageError: it is no address of ssh.
    """
    try:
        parts = urlsplit(address)
        user, host, port = parts.username, parts.hostname, parts.port
    except ValueError as error:
        # Without the address, which may hold a password.
        raise ImageError(
            f"The address of the Docker engine is no address of ssh: {error}.",
            hint="Write it as ssh://USER@HOST:PORT in DOCKER_HOST or in the Docker context.",
        ) from None
    words = ["ssh", "-T", "-o", "ConnectTimeout=30"]
    words += ["-l", user] if user else []
    words += ["-p", str(port)] if port else []
    return [*words, "--", host or "", "docker", "system", "dial-stdio"]


class SshTunnel:
    """A listening socket, each of whose connections is one of ssh.

    Args:
        address: of the engine.
        environ: of the commands.
    """

    def __init__(self, address: str, environ: Mapping[str, str]) -> None:
        self._command = ssh_command(address)
        self._environ = dict(environ)
        self._folder = Path(tempfile.mkdtemp(prefix="aml-train-ssh-"))  # mode 0700
        self._errors: IO[bytes] = (self._folder / "errors").open("w+b")
        self._socket = socket.socket(socket.AF_UNIX)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._lock = threading.Lock()
        self._socket.bind(str(self._folder / "docker.sock"))
        self._socket.listen(_PENDING)
        threading.Thread(target=self._serve, name="ssh-tunnel", daemon=True).start()

    @property
    def address(self) -> str:
        """The engine's address for docker-py."""
        return f"unix://{self._folder / 'docker.sock'}"

    def reason(self) -> str:
        """Return what ssh wrote to its error output last; empty if it wrote nothing."""
        with (self._folder / "errors").open("rb") as file:
            file.seek(max(file.seek(0, 2) - _LONGEST, 0))
            lines = file.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

    def close(self) -> None:
        """End all connections."""
        self._socket.close()
        with self._lock:
            processes, self._processes = self._processes, []
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()
        self._errors.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:  # closed
                return
            with connection, contextlib.suppress(OSError):
                self._start(self._command, connection)

    def _start(self, command: Sequence[str], connection: socket.socket) -> None:
        """Run ssh on a connection; it ends when either side closes it."""
        process = subprocess.Popen(
            command,
            env=self._environ,
            stdin=connection.fileno(),
            stdout=connection.fileno(),
            stderr=self._errors,
            start_new_session=True,
        )
        with self._lock:
            self._processes = [one for one in self._processes if one.poll() is None]
            self._processes.append(process)


def open_tunnel(address: str, environ: Mapping[str, str]) -> SshTunnel:
    """Return a tunnel to the engine at *address*, which ends with this process."""
    tunnel = SshTunnel(address, environ)
    atexit.register(tunnel.close)
    return tunnel
