"""A proxy in front of a real registry that makes faults: chosen answers, and connections that break."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

_CHUNK = 1 << 16
_CODES = {401: "UNAUTHORIZED", 403: "DENIED", 405: "UNSUPPORTED", 429: "TOOMANYREQUESTS"}


@dataclass
class Fault:
    """What goes wrong with requests of a kind.

    Attributes:
        what: a pattern of ``METHOD path?query``.
        times: for how many such requests; below zero for all of them.
        after: how many such requests pass unharmed before.
        status: what is answered instead of the registry; 0 breaks the connection after *body_bytes* of the request's body.
        headers: of that answer.
        body_bytes: how much of the request's body gets to the registry before the connection breaks.
        lose_answer: the registry does its work, and the connection breaks before its answer.
        act: called before.
        happened: how often it did.
    """

    what: str
    times: int = 1
    after: int = 0
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body_bytes: int = 0
    lose_answer: bool = False
    act: Callable[[], object] = lambda: None
    happened: int = 0


class FaultyRegistry(ThreadingHTTPServer):
    """Passes requests on to a registry on loopback, but for those that a fault is meant for.

    ``log`` keeps ``METHOD path`` and the status of each, in order; 0 for a connection that was broken.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, target: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target = target
        self.faults: list[Fault] = []
        self.log: list[tuple[str, int]] = []
        self.lock = threading.Lock()

    @property
    def name(self) -> str:
        """Host and port."""
        return f"localhost:{self.server_address[1]}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Keep quiet: clients hang up as they like."""

    def fault_for(self, request: str) -> Fault | None:
        """Return the fault that happens to a request, None for none."""
        with self.lock:
            for fault in self.faults:
                if not re.search(fault.what, request):
                    continue
                if fault.after > 0:
                    fault.after -= 1
                elif fault.happened < fault.times or fault.times < 0:
                    fault.happened += 1
                    return fault
        return None

    def count(self, pattern: str, status: int) -> int:
        """Return how many requests of a kind ended with *status*."""
        return len(self.matches(pattern, status))

    def matches(self, pattern: str, status: int) -> list[str]:
        """Return the pattern's group, or all that it matches, of each request of a kind that ended with *status*."""
        found = (re.search(pattern, what) for what, ended in self.log if ended == status)
        return [match[match.re.groups and 1] for match in found if match is not None]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FaultyRegistry

    def log_message(self, *_: object) -> None:
        """Keep quiet."""

    def do_GET(self) -> None:
        what = f"{self.command} {self.path}"
        fault = self.server.fault_for(what)
        if fault is not None:
            fault.act()
            if fault.status:
                self._drain()
                self._answer(what, fault.status, fault.headers, _error(fault.status))
                return
        connection = http.client.HTTPConnection(self.server.target, timeout=60)
        try:
            self._send(connection, limit=None if fault is None or fault.lose_answer else fault.body_bytes)
            if fault is not None:
                if fault.lose_answer:
                    connection.getresponse().read()
                self.server.log.append((what, 0))
                self._break()
                return
            response = connection.getresponse()
            kept = ("content-length", "transfer-encoding", "connection")
            headers = {name: value for name, value in response.getheaders() if name.lower() not in kept}
            if self.command == "HEAD":
                headers["Content-Length"] = response.getheader("Content-Length") or "0"
            if "Location" in headers:
                parts = urlsplit(headers["Location"])
                headers["Location"] = f"{parts.path}?{parts.query}"
            self._answer(what, response.status, headers, response.read())
        finally:
            connection.close()

    do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 - http.server's names

    def _send(self, connection: http.client.HTTPConnection, *, limit: int | None) -> None:
        """Pass the request on, or the first *limit* bytes of its body."""
        connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        chunked = self.headers.get("Transfer-Encoding", "").lower() == "chunked"
        for name, value in self.headers.items():
            if name.lower() not in ("connection", "expect"):
                connection.putheader(name, value)
        connection.endheaders()
        sent = 0
        for chunk in self._body():
            if limit is not None:
                chunk = chunk[: max(0, limit - sent)]
            sent += len(chunk)
            if chunk:
                connection.send(b"%x\r\n%s\r\n" % (len(chunk), chunk) if chunked else chunk)
            if limit is not None and sent >= limit:
                return
        if chunked:
            connection.send(b"0\r\n\r\n")

    def _body(self) -> Iterator[bytes]:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            while size := int(self.rfile.readline().strip() or b"0", 16):
                yield self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            left = int(self.headers.get("Content-Length") or 0)
            while left > 0 and (chunk := self.rfile.read(min(left, _CHUNK))):
                left -= len(chunk)
                yield chunk

    def _drain(self) -> None:
        for _ in self._body():
            pass

    def _answer(self, what: str, status: int, headers: dict[str, str], body: bytes) -> None:
        self.server.log.append((what, status))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if "Content-Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(b"" if self.command == "HEAD" else body)

    def _break(self) -> None:
        """Reset the connection."""
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
            self.connection.close()


def _error(status: int) -> bytes:
    """Return the body of a refusal: by its code the engine tells whether to try again itself."""
    return json.dumps({"errors": [{"code": _CODES.get(status, "UNKNOWN"), "message": "a fault"}]}).encode()


@contextlib.contextmanager
def serve(target: str) -> Iterator[FaultyRegistry]:
    """Serve in front of the registry at *target*, host and port."""
    server = FaultyRegistry(target)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
