"""The emulator's front of a registry in this process, with a clock that can be moved, and holds in the middle of a push."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from aml_emulator.identity.identity import Identity, load_or_create
from aml_emulator.identity.tokens import Tokens
from aml_emulator.network.certificates import prepare_certificates
from aml_emulator.network.heads import Head
from aml_emulator.registry.acr import AcrInterface, Answer, Locks
from aml_emulator.registry.front import RegistryFront
from aml_emulator.registry.storage import RegistryStorage


class Clock:
    """Runs as fast as time, or faster, and can be set ahead."""

    def __init__(self) -> None:
        self.ahead = 0.0
        self._rate = 1.0
        self._then = self._shown = time.time()
        self._lock = threading.Lock()

    def __call__(self) -> float:
        with self._lock:
            now = time.time()
            self._shown += self._rate * (now - self._then)
            self._then = now
            return self._shown + self.ahead

    def run(self, rate: float) -> None:
        """Go on *rate* times as fast as time, from now on."""
        self()
        self._rate = rate


class WatchedFront(RegistryFront):
    """A front that tells of each request, and may hold uploads.

    Attributes:
        log: ``METHOD target``, the authorization's last letters, and the status; 0 where the registry answered.
        before: called with ``METHOD target`` before a request is checked.
        hold: how many seconds the next upload is held before the registry gets it.
    """

    def __init__(self, port: int, *, host: str, tokens: Tokens, folder: Path) -> None:
        acr = AcrInterface(
            login_server=host, storage=RegistryStorage(folder / "none"), locks=Locks(folder / "attributes.json")
        )
        super().__init__(port, login_server=host, tokens=tokens, acr=acr)
        self.log: list[tuple[str, str, int]] = []
        self.before: Callable[[str], object] = lambda _what: None
        self.hold = 0.0

    def answer(self, head: Head, body: bytes = b"") -> Answer | None:
        what = f"{head.method} {head.target}"
        self.before(what)
        found = super().answer(head, body)
        authorization = next((value for name, value in head.headers if name.lower() == "authorization"), "")
        self.log.append((what, authorization[-12:], 0 if found is None else found[0]))
        return found

    async def _forward(self, head: Head, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if head.method == "PATCH" and self.hold:
            seconds, self.hold = self.hold, 0.0
            await asyncio.sleep(seconds)
        await super()._forward(head, reader, writer)


@dataclasses.dataclass(frozen=True)
class Served:
    """A front that runs."""

    name: str
    front: WatchedFront
    tokens: Tokens
    clock: Clock
    ca_file: str


@contextlib.contextmanager
def serve(registry_port: int, folder: Path) -> Iterator[Served]:
    """Serve a front, with TLS, in front of the registry on a loopback port."""
    certificates, clock = prepare_certificates(folder / "tls"), Clock()
    listener = socket.create_server(("127.0.0.1", 0))
    name = f"localhost:{listener.getsockname()[1]}"
    identity: Identity = dataclasses.replace(load_or_create(folder, location="eastus"), login_server=name)
    tokens = Tokens(identity, clock=clock)
    front = WatchedFront(registry_port, host=name, tokens=tokens, folder=folder)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificates.server_cert, certificates.server_key)
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(front.accept, sock=listener, ssl=tls, limit=1 << 16))
    thread = threading.Thread(target=loop.run_forever, name="front")
    thread.start()

    async def end() -> None:
        server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    try:
        yield Served(name, front, tokens, clock, str(certificates.ca_file))
    finally:
        asyncio.run_coroutine_threadsafe(end(), loop).result(timeout=120)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
