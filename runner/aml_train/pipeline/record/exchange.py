"""Observe the HTTP exchange of this process, while a run is recorded.

All clients of the product (requests, azure-core's transport, msal, the registry's client, the upload of code) end in one method of
urllib3, which is replaced for that time. The Docker engine's connections are left out. Nothing is changed on the way.
"""

from __future__ import annotations

import contextlib
import gzip
import threading
import zlib
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import Any, Final

import urllib3
from urllib3.connectionpool import HTTPConnectionPool

from aml_train.core.values import dataclass

#: Bytes of one body, and of all together, that are held until the bundle is written.
MOST_BODY: Final = 1 << 20
MOST_BODIES: Final = 64 << 20
#: Headers of answers that decide something, or that a message quotes.
HEADERS: Final = frozenset(
    {
        "azure-asyncoperation",
        "content-range",
        "content-type",
        "date",
        "docker-content-digest",
        "etag",
        "last-modified",
        "location",
        "retry-after",
        "retry-after-ms",
        "www-authenticate",
        "x-ms-creation-time",
        "x-ms-error-code",
        "x-ms-retry-after-ms",
    }
)


@dataclass(kw_only=True)
class Exchange:
    """One request and its answer, as they were.

    Attributes:
        began, ended: seconds of the recording's clock.
        status: None where no answer came.
        body: what was read of the answer; None if that is too long.
        length: bytes that were read.
        error: the names of the errors' classes, the outermost first, if no answer came or its body was cut off.
        main: whether the main thread sent it.
        during: the part of the run that the target does by itself, such as ``image``.
    """

    method: str
    url: str
    began: float
    main: bool
    during: str
    authorization: str = field(default="", repr=False)
    ended: float = 0.0
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = b""
    length: int = 0
    error: tuple[str, ...] = ()


class Tap:
    """Gathers exchanges from all threads.

    Args:
        now: seconds of the recording's clock.
        during: returns the current part of the run.
    """

    def __init__(self, now: Callable[[], float], *, during: Callable[[], str]) -> None:
        self.exchanges: list[Exchange] = []
        self._now = now
        self._during = during
        self._lock = threading.Lock()
        self._held = 0
        self._bodies: dict[bytes, bytes] = {}
        self._inside = threading.local()

    @contextlib.contextmanager
    def attached(self) -> Iterator[None]:
        """Observe every request of the process during the block."""
        original = HTTPConnectionPool.urlopen

        def urlopen(pool: HTTPConnectionPool, method: str, url: str, *args: Any, **options: Any) -> Any:
            # A request that urllib3 repeats or redirects comes here again.
            if getattr(self._inside, "yes", False) or type(pool).__module__.startswith("docker."):
                return original(pool, method, url, *args, **options)
            self._inside.yes = True
            try:
                return self._observe(original, pool, method, url, args, options)
            finally:
                self._inside.yes = False

        HTTPConnectionPool.urlopen = urlopen  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            HTTPConnectionPool.urlopen = original  # type: ignore[method-assign]

    def _observe(
        self,
        original: Callable[..., Any],
        pool: HTTPConnectionPool,
        method: str,
        url: str,
        args: tuple[Any, ...],
        options: dict[str, Any],
    ) -> Any:
        headers = options.get("headers") or (args[1] if len(args) > 1 else None) or {}
        one = Exchange(
            method=method.upper(),
            url=url if "://" in url else f"{pool.scheme}://{pool.host}{url}",
            began=self._now(),
            main=threading.current_thread() is threading.main_thread(),
            during=self._during(),
            authorization=str(headers.get("Authorization") or ""),
        )
        with self._lock:
            self.exchanges.append(one)
        try:
            response = original(pool, method, url, *args, **options)
        except BaseException as error:
            one.ended, one.error = self._now(), names_of(error)
            raise
        one.ended, one.status = self._now(), response.status
        one.headers = {name.lower(): value for name, value in response.headers.items() if name.lower() in HEADERS}
        if options.get("preload_content", True):
            self._keep(one, [response.data])
        else:
            self._follow(one, response)
        return response

    def _follow(self, one: Exchange, response: urllib3.BaseHTTPResponse) -> None:
        """Keep what is read of the body; requests and azure-core read it as a stream."""
        stream = response.stream

        def followed(amt: int | None = 2**16, decode_content: bool | None = None) -> Iterator[bytes]:
            pieces: list[bytes] = []
            try:
                for piece in stream(amt, decode_content):
                    one.length += len(piece)
                    if one.length <= MOST_BODY:
                        pieces.append(piece)
                    yield piece
            except GeneratorExit:
                raise
            except BaseException as error:
                one.error = names_of(error)
                raise
            finally:
                one.ended = self._now()
                encoding = "" if decode_content else response.headers.get("Content-Encoding", "")
                self._keep(one, pieces, encoding, whole=one.length <= MOST_BODY)

        response.stream = followed  # type: ignore[method-assign]

    def _keep(self, one: Exchange, pieces: list[bytes], encoding: str = "", *, whole: bool = True) -> None:
        body = _decoded(b"".join(pieces), encoding)
        one.length = max(one.length, len(body))
        with self._lock:
            known = self._bodies.get(body)
            if known is None and whole and self._held + len(body) <= MOST_BODIES:
                known = self._bodies[body] = body
                self._held += len(body)
        one.body = known if whole else None


def _decoded(body: bytes, encoding: str) -> bytes:
    """Return a body without its compression; as it is if that is unknown or damaged."""
    try:
        if encoding == "gzip":
            return gzip.decompress(body)
        if encoding == "deflate":
            return zlib.decompress(body)
    except (OSError, EOFError, zlib.error):
        return body
    return body


def names_of(error: BaseException) -> tuple[str, ...]:
    """Return the names of an error's class, and of what urllib3 gives as its reason."""
    names = [type(error).__name__]
    reason = getattr(error, "reason", None)
    if isinstance(reason, BaseException):
        names.append(type(reason).__name__)
    return tuple(names)
