"""A line for each HTTP request of this process, for ``-vv`` and the action's ``log-level: debug``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Final

from urllib3.connectionpool import HTTPConnectionPool

from aml_train.core.clock import elapsed

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
