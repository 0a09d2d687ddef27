"""The plain network: requests of this process go to a service of this process.

All clients send by ``requests.adapters.HTTPAdapter``.
"""

from __future__ import annotations

import contextlib
import io
import platform
from collections.abc import Iterator
from typing import Any, Final
from unittest import mock

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPResponse

from simulation.world.http import Request, Response, Service, UnreachableError, http_date

#: The reason phrase of every answer.
_REASON: Final = "simulated"

# azure-core starts a program (uname) for the first user agent of a process; from here on the result is known.
platform.platform()


@contextlib.contextmanager
def connected(service: Service) -> Iterator[None]:
    """Send every request of this process to *service*, during the block."""

    def send(_adapter: HTTPAdapter, request: requests.PreparedRequest, **_options: Any) -> requests.Response:
        try:
            answered = service(request_of(request))
        except UnreachableError as error:
            raise requests.ConnectionError(str(error), request=request) from error
        return response_of(request, answered)

    with mock.patch.object(HTTPAdapter, "send", send):
        yield


def request_of(request: requests.PreparedRequest) -> Request:
    """Return the value of a prepared request; its body is read."""
    body: Any = request.body
    if body is None:
        content = b""
    elif isinstance(body, str):
        content = body.encode()
    elif isinstance(body, bytes | bytearray | memoryview):
        content = bytes(body)
    elif hasattr(body, "read"):
        content = body.read()
    else:
        content = b"".join(body)
    return Request(
        method=str(request.method), url=str(request.url), headers=dict(request.headers.items()), body=content
    )


def raw_response(method: str | None, answered: Response) -> HTTPResponse:
    """Return an answer as urllib3 gives it, not read yet."""
    headers = {"date": http_date()}
    headers |= {name.lower(): value for name, value in answered.headers.items()}
    if method != "HEAD":
        headers["content-length"] = str(len(answered.body))
    return HTTPResponse(
        io.BytesIO(b"" if method == "HEAD" else answered.body),
        headers=headers,
        status=answered.status,
        reason=_REASON,
        preload_content=False,
        request_method=method,
    )


def response_of(request: requests.PreparedRequest, answered: Response) -> requests.Response:
    """Return an answer as requests gives it."""
    raw = raw_response(request.method, answered)
    response = requests.Response()
    response.request, response.url, response.status_code = request, str(request.url), answered.status
    response.headers.update(raw.headers)
    response.encoding = requests.utils.get_encoding_from_headers(response.headers)
    response.raw, response.reason = raw, _REASON
    return response
