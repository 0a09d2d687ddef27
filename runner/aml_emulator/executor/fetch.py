"""Inputs from the web, fetched by the emulator through its environment's proxy.

Without such a proxy a host is resolved once for each connection, and its address decides (:mod:`aml_emulator.network.hosts`).
"""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import IO, Any
from urllib.parse import urljoin, urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import NewConnectionError

from aml_emulator.executor.archive import ContentError
from aml_emulator.executor.spec import InputSpec
from aml_emulator.network.hosts import Destination, InwardError, Outward, decide, is_public_storage
from aml_emulator.reading import whole

CHUNK_BYTES = 1024 * 1024
CONNECT_SECONDS = 30.0
READ_SECONDS = 60.0
MAX_REDIRECTS = 10
ATTEMPTS = 3

Sessions = Callable[[], requests.Session]


def guarded(outward: Outward) -> Sessions:
    """Return a factory of HTTP clients that connect to what *outward* allows."""

    def session() -> requests.Session:
        made = requests.Session()
        for scheme in ("http://", "https://"):
            made.mount(scheme, _Adapter(outward))
        return made

    return session


@contextmanager
def fetched(
    inputs: tuple[InputSpec, ...], go_on: Callable[[], None], *, session: Sessions
) -> Iterator[dict[str, IO[bytes]]]:
    """Yield the files of web *inputs* by the inputs' names; they are temporary.

    Args:
        inputs: all inputs of a job.
        go_on: called now and then; raises to end it.
        session: gives the HTTP client.

    Raises:
        ContentError: a file cannot be had; the message names the input and the address without its query.
    """
    with ExitStack() as stack:
        files: dict[str, IO[bytes]] = {}
        for item in inputs:
            if item.url is not None:
                if item.kind != "uri_file":
                    # Azure accepts such a job as well, and fails it when it starts.
                    raise ContentError(
                        f"The input '{item.name}' ({item.uri}) is a {item.kind}; on the web there are only files: use"
                        " uri_file, or upload a copy with aml-train data upload"
                    )
                file = stack.enter_context(tempfile.TemporaryFile(prefix="aml-input-"))
                _fetch(item, file, go_on, session)
                files[item.name] = file
        yield files


def why_unreachable(url: str, *, session: Sessions) -> str | None:
    """Return the reason why a file on the web cannot be read.

    It is None if the file can be read, or if a later attempt may succeed. Nothing of the file is read.

    Args:
        session: gives the HTTP client.
    """
    try:
        with session() as client, _opened(url, client):
            return None
    except _RefusedError as error:
        return str(error)
    except requests.HTTPError:
        # The server's own trouble, which may be over when the job starts: `fetched` tries several times.
        return None
    except requests.RequestException as error:
        # The library's own text may quote the whole address, with the secrets of its query.
        return type(error).__name__


def _fetch(item: InputSpec, file: IO[bytes], go_on: Callable[[], None], session: Sessions) -> None:
    url = str(item.url)
    shown = url.partition("?")[0]
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with session() as client:
                _download(url, file, go_on, client)
        except _RefusedError as error:
            raise ContentError(f"The input '{item.name}' cannot be read from {shown}: {error}") from error
        except requests.RequestException as error:
            if attempt == ATTEMPTS:
                # The library's own text may quote the whole address, with the secrets of its query.
                why = f"after {ATTEMPTS} attempts: {type(error).__name__}"
                raise ContentError(f"The input '{item.name}' cannot be read from {shown}, {why}") from error
        else:
            return


class _RefusedError(Exception):
    """The file is not given, and will not be."""


class _Adapter(HTTPAdapter):
    """Connections that :func:`_dial` opens, but for those to the environment's proxy."""

    def __init__(self, outward: Outward) -> None:
        self._outward = outward
        super().__init__()

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        outward = self._outward

        class Plain(HTTPConnection):
            def _new_conn(self) -> socket.socket:
                return _dial(self, outward)

        class Secure(HTTPSConnection):
            def _new_conn(self) -> socket.socket:
                return _dial(self, outward)

        class PlainPool(HTTPConnectionPool):
            ConnectionCls = Plain

        class SecurePool(HTTPSConnectionPool):
            ConnectionCls = Secure

        self.poolmanager.pool_classes_by_scheme = {"http": PlainPool, "https": SecurePool}


def _dial(connection: HTTPConnection, outward: Outward) -> socket.socket:
    """Return a socket to one of the host's addresses that are allowed."""
    port = connection.port or connection.default_port
    try:
        *others, last = outward.addresses(connection.host, port)
        for address in others:
            with suppress(OSError):
                return socket.create_connection((address, port), CONNECT_SECONDS)
        return socket.create_connection((last, port), CONNECT_SECONDS)
    except InwardError as error:
        raise _RefusedError(str(error.strerror)) from error
    except OSError as error:
        raise NewConnectionError(connection, str(error)) from error


def _download(url: str, file: IO[bytes], go_on: Callable[[], None], client: requests.Session) -> None:
    """Write what *url* leads to into *file*, from its beginning."""
    with _opened(url, client) as answer:
        _keep(answer, file, go_on)


@contextmanager
def _opened(url: str, client: requests.Session) -> Iterator[requests.Response]:
    """Yield the answer with the file that *url* leads to, its body unread.

    Public storage in Azure is read without signing in if the job names it, not if a redirect leads to it.
    """
    named = _host_of(url) if is_public_storage(_host_of(url)) else None
    for _ in range(MAX_REDIRECTS):
        host = _host_of(url)
        decision = decide(host, blob_host="", login_server="")
        if decision.destination is not Destination.ONWARD and host != named:
            raise _RefusedError(decision.reason or f"{host} is a service of the workspace")
        # Files are wanted as they are stored: no compression on the way.
        with client.get(
            url,
            stream=True,
            allow_redirects=False,
            timeout=(CONNECT_SECONDS, READ_SECONDS),
            headers={"Accept-Encoding": "identity"},
        ) as answer:
            if answer.is_redirect:
                url = urljoin(url, answer.headers["Location"])
                continue
            if answer.status_code >= 500:
                raise requests.HTTPError(str(answer.status_code))
            if answer.status_code != 200:
                raise _RefusedError(f"the server answers {answer.status_code} {answer.reason}")
            yield answer
            return
    raise _RefusedError(f"it leads on more than {MAX_REDIRECTS} times")


def _host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError as error:
        raise _RefusedError("it leads on to something that is no address") from error


def _keep(answer: requests.Response, file: IO[bytes], go_on: Callable[[], None]) -> None:
    file.seek(0)
    file.truncate()
    for chunk in answer.iter_content(CHUNK_BYTES):
        go_on()
        file.write(chunk)
    file.flush()
    announced = whole(answer.headers.get("Content-Length", ""))
    if announced is not None and announced != file.tell():
        # urllib3 lets a body that was cut short pass for a whole one.
        raise requests.ConnectionError("the body was cut short")
