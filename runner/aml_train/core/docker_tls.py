"""A client of an engine at ``tcp://`` that trusts only the engine's authority.

requests prefers ``REQUESTS_CA_BUNDLE`` and ``CURL_CA_BUNDLE`` to the ``verify`` of a session (``Session.merge_environment_settings``),
which is how docker-py passes on ca.pem. A bundle for the internet would replace it: the right engine would be refused, and an engine with
a certificate of any public authority accepted. docker's own command reads ca.pem alone.

A separate module, because it derives from docker-py's classes, which are imported when an engine is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from docker import APIClient, DockerClient


class TlsApiClient(APIClient):
    """An API client whose authority no environment variable replaces."""

    def merge_environment_settings(
        self, url: str | bytes | None, proxies: Any, stream: bool | None, verify: Any, cert: Any
    ) -> Any:
        """Prefer the engine's authority; proxies are the environment's."""
        chosen = self.verify if verify in (None, True) else verify
        return super().merge_environment_settings(url, proxies, stream, chosen, cert)


class TlsDockerClient(DockerClient):
    """A client over :class:`TlsApiClient`."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.api = TlsApiClient(*args, **options)


def connect_tls(environ: Mapping[str, str], timeout: int) -> DockerClient:
    """Return a client of the engine in *environ*, after it has answered."""
    client: DockerClient = TlsDockerClient.from_env(environment=dict(environ), timeout=timeout)
    return client
