"""Copies of images from another registry, by the distribution interface."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import requests
from requests.adapters import BaseAdapter

_ACCEPT: Final = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
_TIMEOUT: Final = (10.0, 120.0)
_CHUNK: Final = 1 << 20
_MOST_MANIFEST_BYTES: Final = 4 << 20
_MOST_DEPTH: Final = 3
_CHALLENGE: Final = re.compile(r'(\w+)="([^"]*)"')
#: Docker Hub's own registry has another name than its images: https://distribution.github.io/reference/
_HOSTS: Final = {"docker.io": "registry-1.docker.io", "registry.hub.docker.com": "registry-1.docker.io"}


@dataclass(frozen=True, kw_only=True)
class ImportSource:
    """An image of another registry; *reference* is a tag or a digest."""

    registry: str
    repository: str
    reference: str
    username: str = ""
    password: str = field(default="", repr=False)


class ImportFailedError(Exception):
    """The image cannot be read or written; the message says why."""


class ImageCopier:
    """Copies images into one registry. See :class:`aml_emulator.domain.Copier`.

    Args:
        port: of the registry on 127.0.0.1.
        login_server: the registry's Azure name, so that it can be a source as well.
        transport: sends the requests; the environment's proxies count by default.
    """

    def __init__(self, port: int, *, login_server: str, transport: BaseAdapter | None = None) -> None:
        self._own = f"http://127.0.0.1:{port}"
        self._login_server = login_server
        self._transport = transport

    def has_tag(self, repository: str, tag: str) -> bool:
        """See :meth:`aml_emulator.domain.Copier.has_tag`."""
        with self._session() as session:
            address = f"{self._own}/v2/{repository}/manifests/{tag}"
            return session.head(address, headers={"Accept": _ACCEPT}, timeout=_TIMEOUT).ok

    def copy(self, source: ImportSource, targets: Sequence[tuple[str, str | None]]) -> None:
        """See :meth:`aml_emulator.domain.Copier.copy`."""
        try:
            with self._session() as session:
                reader = _Reader(session, source, self._address(source.registry))
                for repository, tag in targets:
                    self._manifest(session, reader, source.reference, repository, tag, 0)
        except requests.RequestException as error:
            host = urlsplit(str(error.request.url)).netloc if error.request is not None else source.registry
            raise ImportFailedError(f"{host} does not answer ({type(error).__name__}).") from error

    def _session(self) -> requests.Session:
        session = requests.Session()
        session.headers["User-Agent"] = "aml-emulator"
        if self._transport is not None:
            session.mount("http://", self._transport)
            session.mount("https://", self._transport)
        return session

    def _address(self, registry: str) -> str:
        if registry.lower() == self._login_server:
            return self._own
        host = registry.partition(":")[0]
        scheme = "http" if host in ("localhost", "127.0.0.1") else "https"
        return f"{scheme}://{_HOSTS.get(registry, registry)}"

    def _manifest(
        self, session: requests.Session, reader: _Reader, reference: str, repository: str, tag: str | None, depth: int
    ) -> None:
        if depth > _MOST_DEPTH:
            raise ImportFailedError(f"{reader.name} lists images within each other without an end.")
        content, media_type, digest = reader.manifest(reference)
        children, blobs = _parts(content, reader.name)
        for child in children:
            self._manifest(session, reader, child, repository, None, depth + 1)
        for blob in blobs:
            self._blob(session, reader, blob, repository)
        for name in (digest, tag):
            if name is not None:
                address = f"{self._own}/v2/{repository}/manifests/{name}"
                _written(session.put(address, data=content, headers={"Content-Type": media_type}, timeout=_TIMEOUT))

    def _blob(self, session: requests.Session, reader: _Reader, digest: str, repository: str) -> None:
        if session.head(f"{self._own}/v2/{repository}/blobs/{digest}", timeout=_TIMEOUT).ok:
            return
        begun = _written(session.post(f"{self._own}/v2/{repository}/blobs/uploads/", timeout=_TIMEOUT))
        place = urljoin(f"{self._own}/", begun.headers.get("Location", ""))
        whole = f"{place}{'&' if '?' in place else '?'}digest={digest}"
        headers = {"Content-Type": "application/octet-stream"}
        # The registry compares the digest, and refuses other content.
        _written(session.put(whole, data=reader.blob(digest), headers=headers, timeout=_TIMEOUT))


class _Reader:
    """Reads one repository of the source, signed in if it asks for that."""

    def __init__(self, session: requests.Session, source: ImportSource, address: str) -> None:
        self._session = session
        self._source = source
        self._base = f"{address}/v2/{source.repository}"
        self._headers: dict[str, str] = {}
        self.name = f"{source.registry}/{source.repository}"

    def manifest(self, reference: str) -> tuple[bytes, str, str]:
        """Return content, media type and digest of a manifest."""
        response = self._get(f"manifests/{reference}", accept=_ACCEPT)
        content = response.content
        if len(content) > _MOST_MANIFEST_BYTES:
            raise ImportFailedError(f"{self.name}: {reference} is no manifest.")
        digest = response.headers.get("Docker-Content-Digest") or (
            reference if reference.startswith("sha256:") else ""
        )
        if not digest:
            raise ImportFailedError(f"{self.name}: the registry names no digest of {reference}.")
        return content, response.headers.get("Content-Type", "").partition(";")[0], digest

    def blob(self, digest: str) -> Iterator[bytes]:
        """Yield a blob part by part."""
        with self._get(f"blobs/{digest}", stream=True) as response:
            yield from response.iter_content(_CHUNK)

    def _get(self, path: str, *, accept: str = "*/*", stream: bool = False) -> requests.Response:
        address = f"{self._base}/{path}"
        for signed_in in (False, True):
            headers = {"Accept": accept, **self._headers}
            response = self._session.get(address, headers=headers, timeout=_TIMEOUT, stream=stream)
            if response.status_code != requests.codes.unauthorized or signed_in:
                break
            self._sign_in(response.headers.get("WWW-Authenticate", ""))
        if not response.ok:
            raise ImportFailedError(f"{self.name}: the source registry answered {response.status_code} to {path}.")
        return response

    def _sign_in(self, challenge: str) -> None:
        """Get a token, or use the password itself, as the registry asks."""
        login = (self._source.username, self._source.password) if self._source.password else None
        scheme, _, rest = challenge.partition(" ")
        if scheme.lower() == "basic" and login is not None:
            prepared = requests.Request("GET", self._base, auth=login).prepare()
            self._headers = {"Authorization": str(prepared.headers["Authorization"])}
            return
        parameters = dict(_CHALLENGE.findall(rest))
        realm = parameters.pop("realm", "")
        if scheme.lower() != "bearer" or urlsplit(realm).scheme != urlsplit(self._base).scheme:
            raise ImportFailedError(f"{self.name}: the source registry needs credentials.")
        wanted = {"scope": f"repository:{self._source.repository}:pull", **parameters}
        answer = self._session.get(realm, params=wanted, auth=login, timeout=_TIMEOUT)
        if not answer.ok:
            raise ImportFailedError(f"{self.name}: the source registry refuses the credentials.")
        try:
            found: Any = answer.json()
            token = found.get("token") or found.get("access_token")
        except (ValueError, AttributeError) as error:
            raise ImportFailedError(f"{self.name}: the source registry gives no token.") from error
        self._headers = {"Authorization": f"Bearer {token}"}


def _parts(content: bytes, name: str) -> tuple[list[str], list[str]]:
    """Return the digests of the manifests and of the blobs that a manifest lists."""
    try:
        document = json.loads(content)
        children = [str(one["digest"]) for one in document.get("manifests") or ()]
        listed = [document.get("config"), *(document.get("layers") or ())]
        # A layer with addresses is kept elsewhere.
        blobs = [str(one["digest"]) for one in listed if one is not None and not one.get("urls")]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ImportFailedError(f"{name} has a manifest that cannot be read.") from error
    return children, list(dict.fromkeys(blobs))


def _written(response: requests.Response) -> requests.Response:
    """Return an answer of the own registry.

    Raises:
        ImportFailedError: it refuses.
    """
    if not response.ok:
        raise ImportFailedError(f"The registry answered {response.status_code}: {response.text[:200]}")
    return response
