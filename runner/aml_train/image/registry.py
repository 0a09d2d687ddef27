"""A small client of the registry interface (OCI distribution specification 1.1, Docker registry v2).

Only what the pipeline needs: manifests, blobs, mounts, tags. Proxies, certificates and credentials are passed in; the process's
environment is not read.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self
from urllib.parse import urljoin, urlsplit

import requests
import requests.adapters
import stamina

from aml_train.errors import ImageError
from aml_train.image.manifest import (
    DOCKER_LIST,
    DOCKER_MANIFEST,
    OCI_INDEX,
    OCI_MANIFEST,
    Manifest,
    ManifestHead,
    sha256_digest,
)
from aml_train.image.registry_auth import Authenticator, Login, RegistryAuth, is_loopback, sign_in_hint

# Without all four a registry may answer with an old schema 1 manifest, whose digest is of no use.
_ACCEPT: Final = ", ".join((OCI_INDEX, OCI_MANIFEST, DOCKER_LIST, DOCKER_MANIFEST))

_CONNECT_TIMEOUT, _READ_TIMEOUT = 10.0, 120.0
_MANIFEST_LIMIT: Final = 4 << 20
_CHUNK: Final = 1 << 20


@dataclass(frozen=True, kw_only=True)
class RegistryLocation:
    """Where images are released to. A registry has two names: the engine's and the jobs'.

    Attributes:
        push_name: host and port as the engine names it, such as ``localhost:7381``.
        job_name: host as jobs, records and models name it, such as ``amllocal.azurecr.io``.
        url: the registry's interface as this process reaches it.
        auth: credentials, or what gives those of the moment; None for none.
        verify: as in requests: True, False, or a file of certificates.
        proxies: as in requests.
        engine_runs_jobs: the jobs run on the engine that builds, so the image is kept there; the registry is a
            container of that engine, too.
    """

    push_name: str
    job_name: str
    url: str
    auth: RegistryAuth | Login | None = None
    verify: bool | str = True
    proxies: Mapping[str, str] = field(default_factory=dict)
    engine_runs_jobs: bool = False

    def credentials(self) -> RegistryAuth | None:
        """Return the credentials of the moment, for the engine. They are not kept: ask again for the next push or pull."""
        return self.auth() if callable(self.auth) else self.auth

    def client(self) -> Registry:
        """Return a client of this registry."""
        return Registry(
            self.url,
            auth=self.auth,
            verify=self.verify,
            proxies=self.proxies,
            same_machine=self.engine_runs_jobs,
        )


class _TransientError(Exception):
    """An answer worth asking for again: 429, 5xx."""

    def __init__(self, response: requests.Response) -> None:
        super().__init__(f"HTTP {response.status_code}")
        self.response = response


class Registry:
    """A client of one registry. Every method raises ImageError, with reason and remedy, where the registry refuses.

    Args:
        url: ``https://host[:port]``; ``http`` is accepted for loopback addresses only, and where *same_machine* says so.
        auth: credentials, or what gives those of the moment; None for anonymous access.
        verify, proxies: as in requests.
        attempts: how often a request is made at most, where connection or registry fail for the moment.
        transport: answers the requests instead of the network.
        same_machine: the address is a container's of the engine in use, though it is not loopback.
    """

    def __init__(
        self,
        url: str,
        *,
        auth: RegistryAuth | Login | None = None,
        verify: bool | str = True,
        proxies: Mapping[str, str] | None = None,
        attempts: int = 5,
        transport: requests.adapters.BaseAdapter | None = None,
        same_machine: bool = False,
    ) -> None:
        parts = urlsplit(url)
        direct = same_machine or is_loopback(parts.hostname or "")
        if parts.scheme != "https" and not (parts.scheme == "http" and direct):
            raise ImageError(
                f"the registry {url} is not reached by https", hint="Plain http is for loopback addresses only."
            )
        self.url = url.rstrip("/")
        self.host = parts.netloc
        self._attempts = attempts
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.verify = verify
        if transport is not None:
            self._session.mount("https://", transport)
            self._session.mount("http://", transport)
        self._session.proxies = {} if direct else dict(proxies or {})
        self._authenticator = Authenticator(self._session, self.host, auth)

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def head_manifest(self, repository: str, reference: str) -> ManifestHead | None:
        """Return digest and type of what *reference* (tag or digest) names, or None where there is nothing."""
        response = self._request("HEAD", repository, f"manifests/{reference}", headers={"Accept": _ACCEPT})
        if response.status_code == 404:
            return None
        self._expect(response, 200, f"look up {repository}:{reference}")
        digest = response.headers.get("Docker-Content-Digest")
        if digest is None:
            manifest = self.get_manifest(repository, reference)
            return None if manifest is None else ManifestHead(digest=manifest.digest, media_type=manifest.media_type)
        return ManifestHead(digest=digest, media_type=_media_type(response))

    def get_manifest(self, repository: str, reference: str) -> Manifest | None:
        """Return a manifest byte for byte, its digest computed here; None where there is nothing."""
        response = self._request("GET", repository, f"manifests/{reference}", headers={"Accept": _ACCEPT})
        if response.status_code == 404:
            return None
        self._expect(response, 200, f"read {repository}:{reference}")
        content = response.content
        if len(content) > _MANIFEST_LIMIT:
            raise ImageError(
                f"the manifest {repository}:{reference} on {self.host} has {len(content)} bytes: not a manifest"
            )
        digest = sha256_digest(content)
        if reference.startswith("sha256:") and reference != digest:
            raise ImageError(f"{self.host} answered with {digest} when asked for {repository}@{reference}")
        return Manifest(digest=digest, media_type=_media_type(response), content=content)

    def put_manifest(self, repository: str, reference: str, content: bytes, media_type: str) -> str:
        """Put the very bytes under a tag or digest; return their digest."""
        response = self._request(
            "PUT", repository, f"manifests/{reference}", push=True, data=content, headers={"Content-Type": media_type}
        )
        self._expect(response, 201, f"write {repository}:{reference}")
        digest = sha256_digest(content)
        if (told := response.headers.get("Docker-Content-Digest", digest)) != digest:
            raise ImageError(f"{self.host} stored {repository}:{reference} as {told}, not as {digest}")
        return digest

    def untag(self, repository: str, tag: str) -> bool:
        """Remove a tag and leave what it named; False where this registry cannot (distribution before 3.0)."""
        response = self._request("DELETE", repository, f"manifests/{tag}", push=True, extra_actions="delete")
        return response.status_code in (200, 202)

    def has_blob(self, repository: str, digest: str) -> bool:
        """Tell whether the blob can be read in *repository*."""
        response = self._request("HEAD", repository, f"blobs/{digest}")
        if response.status_code != 404:
            self._expect(response, 200, f"look up {repository}@{digest}")
        return response.status_code == 200

    def get_blob(self, repository: str, digest: str, *, limit: int = _MANIFEST_LIMIT) -> bytes:
        """Return a small blob, verified; ImageError if it is not there, larger than *limit*, or not what it says."""
        with self._request("GET", repository, f"blobs/{digest}", stream=True) as response:
            self._expect(response, 200, f"read {repository}@{digest}")
            content = b""
            for chunk in response.iter_content(_CHUNK):
                content += chunk
                if len(content) > limit:
                    raise ImageError(f"the blob {repository}@{digest} on {self.host} is larger than {limit} bytes")
        if sha256_digest(content) != digest:
            raise ImageError(
                f"the blob {repository}@{digest} on {self.host} is damaged: its contents have another digest"
            )
        return content

    def upload_blob(self, repository: str, content: bytes) -> str:
        """Store *content*; return its digest. Nothing is sent where it is there already."""
        digest = sha256_digest(content)
        if not self.has_blob(repository, digest):
            self._upload(repository, digest, lambda: content)
        return digest

    def mount_blob(self, repository: str, digest: str, source: str) -> None:
        """Make a blob of the repository *source* readable in *repository*, by copying where the registry cannot mount."""
        response = self._request(
            "POST",
            repository,
            "blobs/uploads/",
            push=True,
            params={"mount": digest, "from": source},
            also_pull=source,
        )
        if response.status_code == 201:
            return
        self._expect(response, 202, f"mount {source}@{digest} into {repository}")
        if self.has_blob(repository, digest):
            return
        with tempfile.TemporaryFile() as file:
            with self._request("GET", source, f"blobs/{digest}", stream=True) as blob:
                self._expect(blob, 200, f"read {source}@{digest}")
                for chunk in blob.iter_content(_CHUNK):
                    file.write(chunk)

            def rewound() -> Any:
                file.seek(0)
                return file

            self._upload(repository, digest, rewound)

    def tags(self, repository: str) -> list[str]:
        """Return the tags of *repository*; none where it does not exist."""
        found: list[str] = []
        path: str | None = "tags/list"
        while path is not None:
            response = self._request("GET", repository, path)
            if response.status_code == 404:
                break
            self._expect(response, 200, f"list the tags of {repository}")
            found += response.json().get("tags") or []
            link = response.links.get("next", {}).get("url")
            path = urljoin(response.url, link) if link else None
        return found

    def _upload(self, repository: str, digest: str, body: Any) -> None:
        """Send a blob in one piece; *body* makes the contents anew for each attempt."""
        start = self._request("POST", repository, "blobs/uploads/", push=True)
        self._expect(start, 202, f"upload to {repository}")
        where = urljoin(start.url, start.headers["Location"])
        response = self._request(
            "PUT",
            repository,
            where,
            push=True,
            params={"digest": digest},
            body=body,
            headers={"Content-Type": "application/octet-stream"},
        )
        self._expect(response, 201, f"upload {digest} to {repository}")

    def _request(
        self,
        method: str,
        repository: str,
        path: str,
        *,
        push: bool = False,
        extra_actions: str = "",
        also_pull: str | None = None,
        body: Any = None,
        **options: Any,
    ) -> requests.Response:
        """Make a request, signing in where asked to and trying again where it makes sense."""
        url = path if "://" in path else f"{self.url}/v2/{repository}/{path}"
        actions = ["pull", *(["push"] if push else []), *([extra_actions] if extra_actions else [])]
        scopes = [
            f"repository:{repository}:{','.join(actions)}",
            *([f"repository:{also_pull}:pull"] if also_pull else []),
        ]
        try:
            for attempt in stamina.retry_context(
                on=(requests.ConnectionError, requests.Timeout, _TransientError), attempts=self._attempts, timeout=120
            ):
                with attempt:
                    if body is not None:
                        options["data"] = body()
                    return self._once(method, url, scopes, options)
        except _TransientError as error:
            return error.response
        except requests.RequestException as error:
            raise ImageError(
                f"the registry {self.host} cannot be reached: {_reason(error)}",
                hint="Check the name, the network, and HTTPS_PROXY and NO_PROXY.",
            ) from error
        raise AssertionError("unreachable")  # pragma: no cover - the retry either returns or raises

    def _once(self, method: str, url: str, scopes: Sequence[str], options: Mapping[str, Any]) -> requests.Response:
        timeout = (_CONNECT_TIMEOUT, _READ_TIMEOUT)
        if urlsplit(url).netloc != self.host:  # an upload or a next page elsewhere: never with our credentials
            return self._session.request(method, url, timeout=timeout, **options)
        authorization = self._authenticator.header(scopes)
        headers = {**options.get("headers", {}), **({"Authorization": authorization} if authorization else {})}
        rest = {name: value for name, value in options.items() if name != "headers"}
        response = self._session.request(method, url, headers=headers, timeout=timeout, **rest)
        challenge = response.headers.get("WWW-Authenticate", "")
        if response.status_code == 401 and (fresh := self._authenticator.answer(challenge, scopes, authorization)):
            response.close()
            data = rest.get("data")
            if data is not None and hasattr(data, "seek"):
                data.seek(0)
            headers["Authorization"] = fresh
            response = self._session.request(method, url, headers=headers, timeout=timeout, **rest)
        if response.status_code == 429 or response.status_code >= 500:
            raise _TransientError(response)
        return response

    def _expect(self, response: requests.Response, status: int, what: str) -> None:
        """Raise ImageError unless the registry answered *status* to the wish *what*."""
        if response.status_code == status:
            return
        hint = None
        if response.status_code in (401, 403):
            hint = sign_in_hint(self.host)
        elif response.status_code == 404:
            hint = "Check the repository's name; a registry may also hide what you may not see."
        elif response.status_code == 429:
            hint = "The registry limits how often it is asked; sign in, or try later."
        raise ImageError(f"the registry {self.host} refused to {what}: {_complaint(response)}", hint=hint)


def _media_type(response: requests.Response) -> str:
    return response.headers.get("Content-Type", DOCKER_MANIFEST).split(";")[0].strip()


def _complaint(response: requests.Response) -> str:
    """Return status and the registry's own words, which it gives as ``{"errors": [{"code", "message"}]}``."""
    words: Iterator[str] = iter(())
    try:
        document = response.json() if response.content else {}
        words = (f"{e.get('code', '')} {e.get('message', '')}".strip() for e in document.get("errors", ()))
    except (ValueError, AttributeError):
        words = iter([response.text[:200]])
    return " ".join([f"HTTP {response.status_code}", *words]).strip()


def _reason(error: requests.RequestException) -> str:
    """Return the innermost reason; requests and urllib3 wrap it."""
    reason: BaseException = error
    while (inner := getattr(reason, "reason", None) or (reason.args[0] if reason.args else None)) is not None:
        if not isinstance(inner, BaseException):
            break
        reason = inner
    return str(reason)
