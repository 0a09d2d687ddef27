"""The proxy's port: what is answered to whom, and that nothing that a client sends breaks it; without sockets."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from aml_emulator.network.heads import Head
from aml_emulator.network.hosts import Destination, Outward, decide
from aml_emulator.network.proxy import UNRECOGNIZED_NAME, Proxy
from aml_emulator.network.upstream import Streams, Upstream

HOST, JOB, OWN = "192.168.7.9", "172.30.0.2", "172.18.0.2"


class Writer:
    """The writing side of a connection from *peer*."""

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.sent = b""
        self.transport = self

    def get_protocol(self) -> Any:
        return self

    def get_extra_info(self, name: str) -> Any:
        peer = (self.peer, 40000) if self.peer else None
        return {"peername": peer, "sockname": (OWN, 7380)}.get(name)

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes) -> None:
        self.sent += data

    async def drain(self) -> None:
        return

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        return

    def close(self) -> None:
        return

    def abort(self) -> None:
        self.sent += b"aborted"

    async def wait_closed(self) -> None:
        return


class Listening:
    """A proxy whose services and upstream are recorded, and not connected to."""

    def __init__(self) -> None:
        self.dialled: list[tuple[str, int]] = []
        self.doors: list[Destination] = []
        self.page: list[str] = []
        outward = Outward(
            own_ports={7380, 7381},
            resolve=self.resolve,
            is_own=lambda one: one == "172.17.0.2",
            is_container=lambda one: one.startswith("172."),
        )
        self.proxy = Proxy(
            decide=partial(decide, blob_host="blob.core.windows.net", login_server="amllocal.azurecr.io"),
            port_of=self.port_of,
            upstream=Upstream({}, outward=outward, dial=self.dial),
            admin=self.admin,
            page=self.show,
            is_host=lambda address: not address.startswith("172.30."),
        )

    def resolve(self, host: str, _port: int) -> Sequence[str]:
        names = {"rebound.example": "127.0.0.1", "index.internal": "10.1.2.3", "emulator": "172.17.0.2"}
        names["neighbour"] = "172.18.0.3"
        return [names.get(host, host)]

    async def dial(self, host: str, port: int) -> Streams:
        self.dialled.append((host, port))
        raise ConnectionRefusedError("not in this test")

    def port_of(self, destination: Destination) -> int:
        self.doors.append(destination)
        raise ConnectionRefusedError("not in this test")

    async def admin(self, method: str, target: str) -> tuple[int, bytes]:
        return 200, json.dumps({"asked": f"{method} {target}"}).encode()

    async def show(self, head: Head, writer: asyncio.StreamWriter) -> None:
        self.page.append(head.target)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")

    def send(self, data: bytes, *, peer: str = HOST, tls: bool = False, ends: bool = True) -> bytes:
        """Return all that is answered to a connection that sends *data* and ends, to the port of TLS if asked.

        One that does not end has to be answered by itself.
        """

        async def run() -> bytes:
            reader = asyncio.StreamReader(limit=64 * 1024)
            reader.feed_data(data)
            if ends:
                reader.feed_eof()
            writer = Writer(peer)
            handle = self.proxy._direct if tls else self.proxy._request
            await self.proxy._accept(handle, reader, writer)  # type: ignore[arg-type]
            return writer.sent

        return asyncio.run(run())

    def ask(self, line: str, *headers: str, peer: str = HOST) -> bytes:
        return self.send("\r\n".join([f"{line} HTTP/1.1", *headers, "", ""]).encode("latin-1"), peer=peer)


@pytest.fixture
def listening() -> Listening:
    return Listening()


@pytest.mark.parametrize(
    "target",
    [
        *("127.0.0.1", "127.1", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]", "[::]", "[::1]", "0.0.0.0", "0"),  # noqa: S104
        *("169.254.169.254", "[64:ff9b::169.254.169.254]", "rebound.example", "localhost", "neighbour", "172.18.0.3"),
        *("168.63.129.16", "100.100.100.200", "192.0.0.192", "[fd00:ec2::254]", "[fd20:ce::254]", "0xa83f8110"),
    ],
)
def test_this_machine_is_refused_alike_by_both_ways(listening: Listening, target: str) -> None:
    for answer in (listening.ask(f"CONNECT {target}:443"), listening.ask(f"GET http://{target}/")):
        assert answer.startswith(b"HTTP/1.1 403 Refused: ")
        assert b"put it into NO_PROXY to reach it" in answer
    assert listening.dialled == []


def test_its_own_ports_are_refused_on_its_bridge_addresses_and_other_ports_are_not(listening: Listening) -> None:
    for port in (7380, 7381):
        for host in ("172.17.0.2", "emulator"):
            assert listening.ask(f"GET http://{host}:{port}/_emulator/info").startswith(b"HTTP/1.1 403 ")
            assert listening.ask(f"CONNECT {host}:{port}").startswith(b"HTTP/1.1 403 ")
    assert listening.dialled == []
    assert listening.ask("CONNECT 172.17.0.2:8080").startswith(b"HTTP/1.1 502 ")
    assert listening.dialled == [("172.17.0.2", 8080)]


@pytest.mark.parametrize(
    "line",
    [
        *("GET /_emulator/info", "GET /_emulator/status", "POST /_emulator/reset", "GET /_emulator/requests?limit=1"),
        *(
            "POST /_emulator/health",
            "GET /_emulator/health?x=1",
            "GET //_emulator/info",
            "GET /ui/",
            "GET /",
            "GET /favicon.ico",
        ),
    ],
)
def test_jobs_have_nothing_of_the_emulators_own_interface(listening: Listening, line: str) -> None:
    answer = listening.ask(line, "Host: localhost", peer=JOB)
    assert answer.startswith(b"HTTP/1.1 403 Refused: jobs reach the services that Azure has")
    assert listening.page == []


def test_jobs_have_a_door_of_the_service_for_jobs(listening: Listening) -> None:
    for host in ("management.azure.com", "blob.core.windows.net", "amllocal.azurecr.io"):
        listening.ask(f"CONNECT {host}:443", peer=JOB)
        listening.ask(f"CONNECT {host}:443", peer=HOST)
    assert listening.doors == [
        *(Destination.SERVICE_FOR_JOBS, Destination.SERVICE),
        *(Destination.BLOB, Destination.BLOB, Destination.REGISTRY, Destination.REGISTRY),
    ]


def hello(host: str | None) -> bytes:
    """Return the first message of Python's own TLS client for *host*."""
    context = ssl.create_default_context()
    context.check_hostname = False
    out = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=host).do_handshake()
    return out.read()


def test_jobs_reach_the_services_by_tls_under_their_own_names(listening: Listening) -> None:
    for host in ("management.azure.com", "blob.core.windows.net", "amllocal.azurecr.io", "eastus.api.azureml.ms"):
        listening.send(hello(host), peer=JOB, tls=True)
    service = Destination.SERVICE_FOR_JOBS
    assert listening.doors == [service, Destination.BLOB, Destination.REGISTRY, service]
    assert listening.dialled == []


@pytest.mark.parametrize("host", ["example.com", "graph.microsoft.com", "localhost", None])
def test_other_hosts_are_refused_by_tls(listening: Listening, host: str | None) -> None:
    answer = listening.send(hello(host), peer=JOB, tls=True)
    assert answer == UNRECOGNIZED_NAME
    client = ssl.create_default_context()
    incoming = ssl.MemoryBIO()
    handshake = client.wrap_bio(incoming, ssl.MemoryBIO(), server_hostname="example.com")
    with pytest.raises(ssl.SSLWantReadError):
        handshake.do_handshake()
    incoming.write(answer)
    with pytest.raises(ssl.SSLError, match=r"(?i)unrecognized.name"):
        handshake.do_handshake()
    assert (listening.doors, listening.dialled) == ([], [])
