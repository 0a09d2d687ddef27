"""A small client of the registry API (OCI distribution 1.1, Docker registry v2).

Only what the pipeline needs: manifests, blobs, mounts, tags. Proxies, certificates and credentials are passed in; the process's
environment is not read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final
from urllib.parse import urljoin

import requests

from aml_train.core.answers import Answer, UndecodableError, decode, split
from aml_train.core.errors import DamagedError, ImageError
from aml_train.core.references import is_digest
from aml_train.image.registry.auth import BusyError, Login, RegistryAuth, is_acr, renew
from aml_train.image.registry.http import RegistryHttp, codes_of
from aml_train.image.registry.manifest import (
    DOCKER_LIST,
    DOCKER_MANIFEST,
    OCI_INDEX,
    OCI_MANIFEST,
    Manifest,
    sha256_digest,
)

logger = logging.getLogger(__name__)

# Without all four a registry may answer with an old schema 1 manifest, whose digest is of no use.
_ACCEPT: Final = ", ".join((OCI_INDEX, OCI_MANIFEST, DOCKER_LIST, DOCKER_MANIFEST))

_MANIFEST_LIMIT: Final = 4 << 20
_CHUNK: Final = 1 << 20

CONNECTIONS: Final = 8
"""Requests at once; the client keeps ten connections (``requests.adapters.DEFAULT_POOLSIZE``)."""


@dataclass(frozen=True, kw_only=True)
class RegistryLocation:
    """The registry that images are released to; engine and jobs name it differently.

    Attributes:
        push_name: host and port as the engine names it, such as ``localhost:7381``.
        job_name: host as jobs, records and models name it, such as ``amllocal.azurecr.io``.
        url: the registry's interface as this process reaches it.
        auth: credentials, or what gives those of the moment; None for none.
        verify: as in requests: True, False, or a file of certificates.
        proxies: as in requests.
        elsewhere: credentials of another registry, by its name, for a base that is there; None for what the engine's user has.
        engine_runs_jobs: the jobs run on the engine that builds, so the image is kept there; the registry is a
            container of that engine, too.
    """

    push_name: str
    job_name: str
    url: str
    auth: RegistryAuth | Login | None = None
    verify: bool | str = True
    proxies: Mapping[str, str] = field(default_factory=dict)
    elsewhere: Callable[[str], RegistryAuth | Login | None] = field(default=lambda _registry: None, compare=False)
    engine_runs_jobs: bool = False

    def credentials(self) -> RegistryAuth | None:
        """Return the engine's credentials for one push or pull; ask again for the next."""
        return self.auth() if callable(self.auth) else self.auth

    def logins(self, base: str) -> dict[str, RegistryAuth]:
        """Return a build's credentials by registry: of this one, and of the base's."""
        there = self.elsewhere(base) if base != self.push_name else None
        found = {base: there() if callable(there) else there, self.push_name: self.credentials()}
        return {registry: auth for registry, auth in found.items() if auth is not None}

    def renew(self) -> bool:
        """Have the next :meth:`credentials` be new ones; False where there are no others."""
        return renew(self.auth)

    def client(self) -> Registry:
        """Return a client of this registry."""
        return Registry(
            self.url,
            auth=self.auth,
            verify=self.verify,
            proxies=self.proxies,
            same_machine=self.engine_runs_jobs,
        )


class Registry(RegistryHttp):
    """A client of one registry.

    Every method raises ImageError, with reason and remedy, where the registry refuses.
    """

    def check_push(self, repository: str) -> None:
        """Return if a push to *repository* can begin now; else raise ImageError.

        An upload is begun and given up: the one question whose answer no registry can get wrong.
        """
        start = self._begin_upload(repository)
        where = self._location(start, repository)
        scopes = scopes_of(repository, "pull", "push")
        try:
            self.once("DELETE", where, scopes=scopes)
        except (BusyError, requests.RequestException) as error:
            logger.debug("%s keeps an empty upload until it tires of it: %r", self.host, error)

    def head_manifest(self, repository: str, reference: str) -> str | None:
        """Return the digest of the manifest that a tag or digest names, or None."""
        response = self._read("HEAD", repository, f"manifests/{reference}", headers={"Accept": _ACCEPT})
        if response.status_code == 404:
            return None
        self.expect(response, 200, f"look up {repository}:{reference}")
        digest = response.headers.get("Docker-Content-Digest")
        if digest is not None and not is_digest(digest):
            raise ImageError(
                f"{self.host} answered with no digest of SHA-256 when asked for {repository}:{reference}"
            )
        if digest is None and (manifest := self.get_manifest(repository, reference)) is not None:
            digest = manifest.digest
        return digest

    def get_manifest(self, repository: str, reference: str) -> Manifest | None:
        """Return a manifest byte for byte, its digest computed here; None if missing."""
        headers = {"Accept": _ACCEPT}
        response = self._read("GET", repository, f"manifests/{reference}", headers=headers, most=_MANIFEST_LIMIT)
        if response.status_code == 404:
            return None
        self.expect(response, 200, f"read {repository}:{reference}")
        digest = sha256_digest(response.content)
        if reference.startswith("sha256:") and reference != digest:
            raise DamagedError(f"{self.host} answered with {digest} when asked for {repository}@{reference}")
        media_type = response.headers.get("Content-Type", DOCKER_MANIFEST).split(";")[0].strip()
        return Manifest(digest=digest, media_type=media_type, content=response.content)

    def put_manifest(self, repository: str, reference: str, content: bytes, media_type: str) -> str:
        """Put the very bytes under a tag or digest, unless that is locked and has them already; return their digest."""
        url, headers = f"{self.url}/v2/{repository}/manifests/{reference}", {"Content-Type": media_type}
        scopes, digest = scopes_of(repository, "pull", "push"), sha256_digest(content)

        def put() -> requests.Response:
            response = self.once("PUT", url, scopes=scopes, data=content, headers=headers)
            # While another client mounts the same blob, distribution 2.8 does not know it for a moment: it writes the blob's link
            # in place (registry/storage/driver/filesystem/driver.go, ``PutContent`` and ``Writer``).
            if not response.ok and "MANIFEST_BLOB_UNKNOWN" in codes_of(response):
                raise BusyError(response)
            return response

        response = self.repeated(put)
        # As registries refuse to write a tag that is locked or immutable.
        if response.status_code in (400, 405, 409, 412) and self.head_manifest(repository, reference) == digest:
            return digest
        self.expect(response, 201, f"write {repository}:{reference}")
        if (stored_digest := response.headers.get("Docker-Content-Digest", digest)) != digest:
            raise ImageError(f"{self.host} stored {repository}:{reference} as {stored_digest}, not as {digest}")
        return digest

    def put_tag(self, repository: str, tag: str, manifest: Manifest) -> None:
        """Put *manifest* under *tag*."""
        self.put_manifest(repository, tag, manifest.content, manifest.media_type)

    def untag(self, repository: str, tag: str) -> bool:
        """Remove only the tag; False if this registry cannot (before 3.0), or may not."""
        scopes = scopes_of(repository, "pull", "push", "delete")
        path = f"/acr/v1/{repository}/_tags/{tag}" if is_acr(self.host) else f"/v2/{repository}/manifests/{tag}"
        response = self._request("DELETE", f"{self.url}{path}", scopes)
        return response.status_code in (200, 202, 404)  # 404: it is gone

    @property
    def can_lock(self) -> bool:
        """Whether this is an Azure Container Registry, whose tags can be locked."""
        return is_acr(self.host)

    def lock_tag(self, repository: str, tag: str, *, locked: bool = True) -> bool:
        """Have an Azure Container Registry lock *tag*, or unlock it; False if it does not let us.

        Source: https://learn.microsoft.com/azure/container-registry/container-registry-image-lock.
        """
        url = f"{self.url}/acr/v1/{repository}/_tags/{tag}"
        scopes = scopes_of(repository, "metadata_write", "metadata_read")
        try:
            response = self._request("PATCH", url, scopes, json={"writeEnabled": not locked})
        except ImageError as error:
            logger.debug("%s:%s is not changed: %s", repository, tag, error)
            return False
        return response.status_code == 200

    def has_blob(self, repository: str, digest: str) -> bool:
        """Return whether the blob can be read in *repository*."""
        response = self._read("HEAD", repository, f"blobs/{digest}")
        if response.status_code != 404:
            self.expect(response, 200, f"look up {repository}@{digest}")
        return response.status_code == 200

    def get_blob(self, repository: str, digest: str, *, limit: int = _MANIFEST_LIMIT) -> bytes:
        """Return a small blob, verified; ImageError if missing, too large or damaged."""
        response = self._read("GET", repository, f"blobs/{digest}", most=limit)
        self.expect(response, 200, f"read {repository}@{digest}")
        if sha256_digest(response.content) != digest:
            raise DamagedError(
                f"the blob {repository}@{digest} on {self.host} is damaged: its contents have another digest"
            )
        return response.content

    def image_config(self, repository: str, manifest: Manifest, platform: str) -> Answer:
        """Return the configuration of an image; of an index, that of *platform*'s.

        Raises:
            ImageError: it is missing or damaged, or the index has no image for the platform.
        """

        def fail(problem: str) -> ImageError:
            return ImageError(
                f"the configuration of {self.host}/{repository}@{manifest.digest} is no image's: it {problem}"
            )

        if manifest.is_index:
            child = self.get_manifest(repository, manifest.child_for(platform))
            if child is None:
                raise fail(f"is of an image for {platform} that the registry does not have")
            manifest = child
        try:
            return Answer(decode(self.get_blob(repository, str(manifest.config_digest))), fail)
        except UndecodableError as error:
            raise fail(str(error)) from error

    def stream_blob(self, repository: str, digest: str) -> Iterator[bytes]:
        """Yield a blob's contents as they arrive, unverified; the connection ends with it."""
        try:
            url, scopes = f"{self.url}/v2/{repository}/blobs/{digest}", scopes_of(repository, "pull")
            with self.once("GET", url, scopes=scopes, stream=True) as response:
                self.expect(response, 200, f"read {repository}@{digest}")
                yield from response.iter_content(_CHUNK)
        except BusyError as error:
            self.expect(error.response, 200, f"read {repository}@{digest}")
        except requests.RequestException as error:
            raise ImageError(
                f"reading {repository}@{digest} from {self.host} was interrupted: {type(error).__name__}"
            ) from error

    def upload_blob(self, repository: str, content: bytes) -> str:
        """Store *content*; return its digest. Nothing is sent where it is there already."""
        digest = sha256_digest(content)
        if not self.has_blob(repository, digest):
            self.upload(repository, digest, content)
        return digest

    def upload(self, repository: str, digest: str, content: bytes | BinaryIO) -> None:
        """Store a blob, sent in one piece. An interrupted upload is begun again: how much of it arrived is unknown."""

        def attempt() -> requests.Response:
            if not isinstance(content, bytes):
                content.seek(0)
            start = self._begin_upload(repository)
            return self.once(
                "PUT",
                self._location(start, repository),
                scopes=scopes_of(repository, "pull", "push"),
                params={"digest": digest},
                data=content,
                headers={"Content-Type": "application/octet-stream"},
            )

        self.expect(self.repeated(attempt), 201, f"upload {digest} to {repository}")

    def mount_blob(self, repository: str, digest: str, source: str) -> None:
        """Make a blob of *source* readable in *repository*."""
        url = f"{self.url}/v2/{repository}/blobs/uploads/"
        scopes = [*scopes_of(repository, "pull", "push"), *scopes_of(source, "pull")]
        response = self._request("POST", url, scopes, params={"mount": digest, "from": source})
        if response.status_code == 201:
            return
        self.expect(response, 202, f"mount {source}@{digest} into {repository}")
        if self.has_blob(repository, digest):
            return
        raise ImageError(f"the registry {self.host} does not mount {source}@{digest} into {repository}")

    def tags(self, repository: str) -> list[str]:
        """Return a repository's tags in the registry's order; none if it does not exist."""
        url, what = f"{self.url}/v2/{repository}/tags/list", f"list the tags of {repository}"
        pages = self.pages(url, what, scopes=scopes_of(repository, "pull"))
        return [tag for page in pages for tag in page.list_of_texts("tags")]

    def referrers(self, repository: str, digest: str) -> list[Answer] | None:
        """Return the entries of the list of referrers; None without that interface.

        See :mod:`aml_train.image.registry.referrers`, which knows the fall-back.
        """
        url, what = f"{self.url}/v2/{repository}/referrers/{digest}", f"list the referrers of {repository}@{digest}"
        pages = list(self.pages(url, what, scopes=scopes_of(repository, "pull")))
        return [entry for page in pages for entry in page.each("manifests")] if pages else None

    def _location(self, start: requests.Response, repository: str) -> str:
        """Return where an upload that was begun goes."""
        fail = self.unusable(f"take an upload to {repository}")
        try:
            address = urljoin(start.url, start.headers.get("Location") or "")
        except ValueError:
            raise fail("has a Location that is no address") from None
        if not start.headers.get("Location") or split(address) is None:
            raise fail("has no Location that is an address")
        return address

    def _begin_upload(self, repository: str) -> requests.Response:
        scopes = scopes_of(repository, "pull", "push")
        start = self._request("POST", f"{self.url}/v2/{repository}/blobs/uploads/", scopes)
        self.expect(start, 202, f"upload to {repository}")
        return start

    def _read(self, method: str, repository: str, path: str, **options: Any) -> requests.Response:
        return self._request(method, f"{self.url}/v2/{repository}/{path}", scopes_of(repository, "pull"), **options)

    def _request(self, method: str, url: str, scopes: Sequence[str], **options: Any) -> requests.Response:
        """Make a request, again where it makes sense."""
        return self.repeated(lambda: self.once(method, url, scopes=scopes, **options))


def scopes_of(repository: str, *actions: str) -> list[str]:
    """Return the scope of a token for *actions* in *repository*."""
    return [f"repository:{repository}:{','.join(actions)}"]
