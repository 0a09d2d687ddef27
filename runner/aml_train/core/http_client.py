"""The HTTP client: our user agent, errors of requests only, bounded bodies."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import urlsplit

import requests
import urllib3
from requests.adapters import HTTPAdapter
from urllib3.connectionpool import HTTPConnectionPool

from aml_train.core.answers import MOST_BYTES, Answer, Fail, UndecodableError, date_of, decode
from aml_train.core.clock import elapsed
from aml_train.core.version import PRODUCT

USER_AGENT: Final = f"{PRODUCT} python-requests/{requests.__version__} Python/{platform.python_version()}"
_CHUNK: Final = 256 * 1024
#: Connections that are kept open: as many as threads may ask at once.
_CONNECTIONS: Final = 48


class TooLargeError(requests.RequestException):
    """A body is larger than the bound of its request."""


class Session(requests.Session):
    """A session that names aml-train as its user agent."""

    def __init__(self) -> None:
        super().__init__()
        for scheme in ("https://", "http://"):
            self.mount(scheme, HTTPAdapter(pool_maxsize=_CONNECTIONS))
        self.headers["User-Agent"] = USER_AGENT


def exchange(
    session: requests.Session,
    method: str,
    url: str,
    *,
    most: int = MOST_BYTES,
    stream: bool = False,
    **options: Any,
) -> requests.Response:
    """Send a request; return the answer with its body.

    With *stream*, the caller reads the body of a success.

    Raises:
        requests.RequestException: whatever goes wrong on the way, also by an address that is none: requests lets errors of other
            kinds through, such as those of a ``Location`` that cannot be decoded or parsed.
    """
    try:
        response = session.request(method, url, stream=True, **options)
        if not 200 <= response.status_code < 300:  # requests takes 600 and above for a success
            _read_refusal(response)
        elif not stream:
            _read(response, most)
    except (ValueError, RuntimeError, urllib3.exceptions.HTTPError) as error:
        if isinstance(error, requests.RequestException):
            raise
        raise requests.exceptions.InvalidURL(f"{type(error).__name__} in an address or an answer") from error
    return response


def _read(response: requests.Response, most: int) -> None:
    """Read the body into the response, as requests does it, but for the bound."""
    if vars(response).get("_content", False) is not False:  # the adapter has read it
        response.content  # noqa: B018 - marks it as read, so that closing does not ask for a connection
        return
    content = bytearray()
    try:
        for chunk in response.iter_content(_CHUNK):
            content += chunk
            if len(content) > most:
                raise TooLargeError(f"an answer of more than {most} bytes", response=response)
    finally:
        response.close()
    response._content = bytes(content)


def _read_refusal(response: requests.Response) -> None:
    """Read the body of a refusal.

    An unreadable one counts as empty: the status decides.
    """
    try:
        _read(response, MOST_BYTES)
    except (requests.RequestException, ValueError, RuntimeError, urllib3.exceptions.HTTPError):
        response._content = b""


def host_of(url: str | None) -> str:
    """Return the host of an address for messages, even of one that cannot be parsed."""
    try:
        return urlsplit(url or "").netloc.rpartition("@")[2] or "the service"
    except ValueError:
        return "the service"


def answer_of(response: requests.Response, fail: Fail, undecodable: Fail) -> Answer:
    """Return the JSON in an answer.

    Args:
        response: the answer; its body was read.
        fail: makes the error of a part that is of the wrong type.
        undecodable: makes the error of a body that is no JSON.
    """
    try:
        return Answer(decode(response.content), fail, date=date_of(response.headers))
    except UndecodableError as error:
        raise undecodable(str(error)) from error


_IDS: Final = ("x-ms-request-id", "x-ms-correlation-request-id", "x-ms-client-request-id")


@contextlib.contextmanager
def logged_requests(write: Callable[[str], object]) -> Iterator[None]:
    """Write method, address, status, seconds and request id of each request during the block.

    requests, azure-core, msal and the upload of code all send through one method of urllib3, which is wrapped for that time. Bodies,
    headers and queries, which may have signatures, are not written. The Docker engine's requests are left out.
    """
    original = HTTPConnectionPool.urlopen

    def urlopen(pool: HTTPConnectionPool, method: str, url: str, *args: Any, **options: Any) -> Any:
        if type(pool).__module__.startswith("docker."):
            return original(pool, method, url, *args, **options)
        address = url if "://" in url else f"{pool.scheme}://{pool.host}{url}"
        asked = f"{method} {address.partition('?')[0]}"
        began = elapsed()
        try:
            response = original(pool, method, url, *args, **options)
        except Exception as error:
            write(f"{asked}: {type(error).__name__} after {elapsed() - began:.3f} s")
            raise
        ids = [response.headers[name] for name in _IDS if name in response.headers]
        write(f"{asked}: {response.status} after {elapsed() - began:.3f} s{f', request id {ids[0]}' if ids else ''}")
        return response

    HTTPConnectionPool.urlopen = urlopen  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        HTTPConnectionPool.urlopen = original  # type: ignore[method-assign]
