"""Resources of the machine: data folder lock, sockets, CAs, the own container."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import re
import socket
import ssl
import sys
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import certifi
import docker
import docker.errors

logger = logging.getLogger(__name__)

LOCK_SECONDS = 20.0
LOCK_POLL_SECONDS = 0.05
CONTAINER_ID = re.compile(r"[0-9a-f]{12}")


class StartError(RuntimeError):
    """The service cannot run or continue; the message says why and the remedy."""


@contextlib.contextmanager
def lock_file(path: Path) -> Iterator[int]:
    """Open the lock of the data folder, which children inherit.

    It is free only when they have ended as well.

    Yields:
        the file descriptor.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


async def hold(lock: int, folder: Path) -> None:
    """Take the lock. The children of an emulator that was killed need a moment to end."""
    patience = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > patience:
                raise StartError(f"{folder} is in use by another emulator, or by what one left running") from error
            await asyncio.sleep(LOCK_POLL_SECONDS)
        else:
            return


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; raise OSError if the address is not available."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named, for asyncio turns Nagle's algorithm off only if it sees that a connection is TCP.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(256)
    except OSError as error:
        listener.close()
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror}") from error
    listener.setblocking(False)
    return listener


@contextlib.contextmanager
def reserved_port() -> Iterator[int]:
    """Yield a port that is reserved for a child to listen on.

    It is bound, and nothing listens on it: Linux lets a server listen there that sets SO_REUSEADDR, as Node and Go do, and
    gives the port neither to outgoing connections nor to those who ask for any (``inet_csk_bind_conflict`` and
    ``inet_csk_find_open_port`` of net/ipv4/inet_connection_sock.c). On other systems another process may be quicker.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        port = int(held.getsockname()[1])
        if sys.platform != "linux":
            held.close()
        yield port


def system_authorities() -> bytes:
    """Return the machine's trusted certificates, PEM, with a line end, for jobs."""
    path = ssl.get_default_verify_paths().cafile or "/etc/ssl/certs/ca-certificates.crt"
    file = Path(path) if Path(path).exists() else Path(certifi.where())
    return file.read_bytes().rstrip() + b"\n"


def own_container() -> str | None:
    """Return the id of the container that this process runs in, None if in none.

    Docker makes the first twelve digits of a container's id its host name; only the engine knows whether it is one.
    """
    name = socket.gethostname()
    if not CONTAINER_ID.fullmatch(name):
        return None
    try:
        client = docker.from_env()
        try:
            container_id = client.containers.get(name).id
        finally:
            client.close()
    except docker.errors.NotFound:
        return None
    except (docker.errors.DockerException, OSError) as error:
        logger.warning("cannot ask the container engine whether this is a container: %s", error)
        return None
    return container_id if container_id and container_id.startswith(name) else None


def own_version() -> str:
    """Return the installed version of aml-train, or ``0+unknown``."""
    try:
        return version("aml-train")
    except PackageNotFoundError:
        return "0+unknown"
