"""The child processes behind the service: Azurite and the registry of images."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import shutil
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aml_emulator.identity.identity import Identity
from aml_emulator.network.certificates import Certificates
from aml_emulator.processes.host import reserved_port
from aml_emulator.settings import Settings

READY_SECONDS = 120.0
STOP_SECONDS = 3.0
POLL_SECONDS = 0.02
TAIL_LINES = 20
LINE_BYTES = 1024 * 1024

TETHER = Path(__file__).with_name("tether.py")
"""Has a child end with this process, even if this one is killed."""

PROXY_VARIABLES = frozenset({"http_proxy", "https_proxy", "all_proxy", "no_proxy"})


class ChildError(RuntimeError):
    """A child that did not start or listen, or ended; the message has its last lines."""


@dataclass(frozen=True, kw_only=True)
class ChildSpec:
    """A process to run.

    Attributes:
        name: what it is called in messages.
        argv: its command line.
        port: the port on 127.0.0.1 that shows it is ready.
        environment: variables on top of this process's own, whose proxy variables it does not get.
        keep_open: file descriptors that it inherits.
    """

    name: str
    argv: Sequence[str]
    port: int
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    keep_open: tuple[int, ...] = ()


class Child:
    """A running process. Made by `start`."""

    def __init__(self, spec: ChildSpec, process: asyncio.subprocess.Process) -> None:
        self.spec = spec
        self._process = process
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, spec: ChildSpec) -> Child:
        """Start a process and return when it listens.

        Raises:
            ChildError: it cannot be started, ends, or does not listen in time.
        """
        if shutil.which(spec.argv[0]) is None:
            raise ChildError(f"{spec.name} cannot be started: {spec.argv[0]}: no such command")
        inherited = {key: value for key, value in os.environ.items() if key.lower() not in PROXY_VARIABLES}
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", str(TETHER), str(os.getpid())),
                *spec.argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env={**inherited, **spec.environment},
                pass_fds=spec.keep_open,
                limit=LINE_BYTES,
                start_new_session=True,
            )
        except OSError as error:
            raise ChildError(f"{spec.name} cannot be started: {spec.argv[0]}: {error.strerror}") from error
        child = cls(spec, process)
        try:
            async with asyncio.timeout(READY_SECONDS):
                await child._until_listening()
        except TimeoutError as error:
            await child.stop()
            raise ChildError(f"{spec.name} did not listen within {READY_SECONDS:.0f} s{child._said()}") from error
        except BaseException:
            await child.stop()
            raise
        return child

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process.returncode is None

    async def died(self) -> ChildError:
        """Wait for it to end and return an error that says so."""
        code = await self._process.wait()
        await self._reading
        return ChildError(f"{self.spec.name} ended unexpectedly with code {code}{self._said()}")

    async def stop(self) -> None:
        """End it: by request, and by force when it does not follow."""
        if self.alive:
            self._process.terminate()
            try:
                async with asyncio.timeout(STOP_SECONDS):
                    await self._process.wait()
            except TimeoutError:
                self._process.kill()
                await self._process.wait()
        await self._reading

    async def _until_listening(self) -> None:
        while True:
            if not self.alive:
                raise await self.died()
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self.spec.port)
            except OSError:
                await asyncio.sleep(POLL_SECONDS)
                continue
            writer.close()
            return

    async def _read(self) -> None:
        stream = self._process.stdout
        while stream is not None and (line := await stream.readline()):
            text = line.decode("utf-8", "replace").rstrip()
            self._tail.append(text)
            logger.debug("%s: %s", self.spec.name, text)

    def _said(self) -> str:
        return "; it said:\n  " + "\n  ".join(self._tail) if self._tail else ""


logger = logging.getLogger(__name__)

AZURITE_SCRIPT = Path(__file__).with_name("azurite_journal.js")
"""Loaded into Azurite: without the journal, what was stored in the last seconds before a kill would be lost."""


async def start_children(
    settings: Settings,
    identity: Identity,
    certificates: Certificates,
    registry_port: int,
    lock: int,
    stack: contextlib.AsyncExitStack,
) -> tuple[list[Child], int]:
    """Start Azurite and the registry side by side; returns them and Azurite's port."""
    storage_port = stack.enter_context(reserved_port())
    storage, images = settings.data / "blobs", settings.data / "registry"
    for folder in (storage, images):
        folder.mkdir(exist_ok=True)
    azurite = ChildSpec(
        name="Azurite",
        argv=[
            *(settings.azurite, "--blobHost", "127.0.0.1", "--blobPort", str(storage_port)),
            *(
                "--location",
                str(storage),
                "--cert",
                str(certificates.server_cert),
                "--key",
                str(certificates.server_key),
            ),
            # With basic OAuth it takes the tokens that the service issues for storage, as identity-based datastores need them.
            *("--oauth", "basic", "--skipApiVersionCheck", "--disableTelemetry", "--silent"),
        ],
        port=storage_port,
        environment={
            "AZURITE_ACCOUNTS": f"{identity.storage_account}:{identity.storage_key}",
            "NODE_OPTIONS": " ".join(filter(None, (os.environ.get("NODE_OPTIONS"), f"--require={AZURITE_SCRIPT}"))),
        },
        keep_open=(lock,),
    )
    configuration = settings.data / "registry.json"
    configuration.write_text(json.dumps(_registry_configuration(registry_port, images)), encoding="utf-8")
    registry = ChildSpec(
        name="the registry",
        argv=[settings.registry, "serve", str(configuration)],
        port=registry_port,
        keep_open=(lock,),
    )
    started = await asyncio.gather(Child.start(azurite), Child.start(registry), return_exceptions=True)
    children = [child for child in started if isinstance(child, Child)]
    for child in children:
        stack.push_async_callback(child.stop)
    for outcome in started:
        if isinstance(outcome, BaseException):
            raise outcome
    if not any(storage.glob("*.journal.*")):
        logger.warning("%s keeps no journal: a kill loses what was stored in its last seconds", settings.azurite)
    return children, storage_port


def _registry_configuration(port: int, folder: Path) -> dict[str, object]:
    """Return the configuration of the CNCF distribution registry, as JSON.

    It asks for no sign-in, so it listens on loopback only; :mod:`aml_emulator.fronts` lets others in.
    See https://distribution.github.io/distribution/about/configuration/.
    """
    return {
        "version": "0.1",
        "log": {"level": "warn", "accesslog": {"disabled": True}},
        "storage": {
            "filesystem": {"rootdirectory": str(folder)},
            "delete": {"enabled": True},
            "cache": {"blobdescriptor": "inmemory"},
        },
        "http": {"addr": f"127.0.0.1:{port}", "relativeurls": True},
    }
