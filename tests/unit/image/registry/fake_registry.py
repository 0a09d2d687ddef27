"""A registry in memory behind requests' transport: manifests, blobs, mounts, and token sign-in."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

import requests
from requests.adapters import BaseAdapter

from aml_train.image.registry.manifest import sha256_digest


class FakeRegistry(BaseAdapter):
    """Answers as a registry does; ``log`` keeps ``METHOD path``.

    Args:
        basic: the only Authorization header that is accepted, by the token service or, with ``realm`` None, directly.
        realm: address of the token service.
        mounts: whether blobs can be mounted.
        fail_first: statuses (or exceptions) of the first answers.
        referrers: whether it has the interface of referrers.
        unlinked: how many puts of a manifest do not know its blobs, as while another client mounts them.
    """

    def __init__(
        self,
        *,
        basic: str | None = None,
        realm: str | None = None,
        mounts: bool = True,
        fail_first: list[int | Exception] | None = None,
        referrers: bool = False,
        unlinked: int = 0,
    ) -> None:
        super().__init__()
        self.referrers = referrers
        self.unlinked = unlinked
        self.basic, self.realm, self.mounts = basic, realm, mounts
        self.fail_first = list(fail_first or ())
        self.manifests: dict[tuple[str, str], tuple[bytes, str]] = {}
        self.blobs: dict[tuple[str, str], bytes] = {}
        self.log: list[str] = []
        self.upload_host = ""
        self._authorizations: list[tuple[str, str | None]] = []

    def sent_to(self, host: str) -> list[str | None]:
        """Return the Authorization headers that *host* was sent."""
        return [authorization for place, authorization in self._authorizations if place == host]

    def send(self, request: requests.PreparedRequest, *_args: Any, **_options: Any) -> requests.Response:
        parts = urlsplit(request.url or "")
        self.log.append(f"{request.method} {parts.path}" + (f"?{parts.query}" if parts.query else ""))
        self._authorizations.append((str(parts.hostname), request.headers.get("Authorization")))
        if self.fail_first:
            failure = self.fail_first.pop(0)
            if isinstance(failure, Exception):
                raise failure
            return _response(request, failure)
        if self.realm is not None and str(request.url).startswith(self.realm):
            return self._sign_in(request)
        if (refusal := self._refuse(request)) is not None:
            return refusal
        words = str(parts.path).removeprefix("/v2/").split("/")
        place = next(index for index, word in enumerate(words) if word in ("manifests", "blobs", "tags", "referrers"))
        repository, kind, rest = "/".join(words[:place]), words[place], "/".join(words[place + 1 :])
        handler: Callable[..., requests.Response] = getattr(self, f"_{kind}")
        return handler(request, repository, rest, parse_qs(str(parts.query)))

    def close(self) -> None:
        pass

    def _refuse(self, request: requests.PreparedRequest) -> requests.Response | None:
        if self.basic is None:
            return None
        wanted = "Bearer token" if self.realm else self.basic
        if request.headers.get("Authorization") == wanted:
            return None
        challenge = f'Bearer realm="{self.realm}",service="fake"' if self.realm else 'Basic realm="fake"'
        return _response(request, 401, headers={"WWW-Authenticate": challenge})

    def _sign_in(self, request: requests.PreparedRequest) -> requests.Response:
        if request.method == "POST" or request.headers.get("Authorization") == self.basic:
            return _response(request, 200, json.dumps({"token": "token"}).encode())
        return _response(request, 401)

    def _manifests(
        self, request: requests.PreparedRequest, repository: str, reference: str, _query: Mapping[str, list[str]]
    ) -> requests.Response:
        if request.method == "PUT":
            content = _body(request)
            if self.unlinked:
                self.unlinked -= 1
                codes = [{"code": "DIGEST_INVALID"}, {"code": "MANIFEST_BLOB_UNKNOWN", "message": "blob unknown"}]
                return _response(request, 400, json.dumps({"errors": codes}).encode())
            for name in (reference, sha256_digest(content)):
                self.manifests[repository, name] = (content, request.headers["Content-Type"])
            return _response(request, 201, headers={"Docker-Content-Digest": sha256_digest(content)})
        if request.method == "DELETE":
            return _response(request, 405)
        if (repository, reference) not in self.manifests:
            return _response(request, 404, b'{"errors": [{"code": "MANIFEST_UNKNOWN", "message": "unknown"}]}')
        content, media_type = self.manifests[repository, reference]
        headers = {"Docker-Content-Digest": sha256_digest(content), "Content-Type": media_type}
        return _response(request, 200, content if request.method == "GET" else b"", headers)

    def _blobs(
        self, request: requests.PreparedRequest, repository: str, rest: str, query: Mapping[str, list[str]]
    ) -> requests.Response:
        if request.method == "POST":
            if "mount" in query and self.mounts:
                self.blobs[repository, query["mount"][0]] = self.blobs[query["from"][0], query["mount"][0]]
                return _response(request, 201)
            return _response(
                request, 202, headers={"Location": f"{self.upload_host}/v2/{repository}/blobs/uploads/1?state=x"}
            )
        if request.method == "PUT":
            content = _body(request)
            if sha256_digest(content) != query["digest"][0]:
                return _response(request, 400)
            self.blobs[repository, query["digest"][0]] = content
            return _response(request, 201)
        if (repository, rest) not in self.blobs:
            return _response(request, 404)
        return _response(request, 200, self.blobs[repository, rest] if request.method == "GET" else b"")

    def _referrers(
        self, request: requests.PreparedRequest, repository: str, digest: str, _query: Mapping[str, list[str]]
    ) -> requests.Response:
        if not self.referrers:
            return _response(request, 404, b"404 page not found")
        found = []
        for (place, name), (content, media_type) in sorted(self.manifests.items()):
            document = json.loads(content)
            if (
                place == repository
                and name.startswith("sha256:")
                and document.get("subject", {}).get("digest") == digest
            ):
                entry = {"mediaType": media_type, "digest": name, "size": len(content)}
                kept = {key: document[key] for key in ("artifactType", "annotations") if key in document}
                found.append(entry | kept)
        index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": found}
        return _response(request, 200, json.dumps(index).encode())

    def _tags(
        self, request: requests.PreparedRequest, repository: str, _rest: str, query: Mapping[str, list[str]]
    ) -> requests.Response:
        names = sorted(tag for place, tag in self.manifests if place == repository and not tag.startswith("sha256:"))
        if not names:
            return _response(request, 404)
        first = names[1:] if "last" in query else names[:1]
        headers = (
            {"Link": f'</v2/{repository}/tags/list?last={names[0]}>; rel="next"'}
            if len(first) < len(names) - 1
            else {}
        )
        if "last" in query:
            headers = {}
        return _response(request, 200, json.dumps({"tags": first}).encode(), headers)


def _body(request: requests.PreparedRequest) -> bytes:
    body: Any = request.body
    if hasattr(body, "read"):
        return bytes(body.read())
    return bytes(body) if isinstance(body, bytes) else b"".join(body)


def _response(
    request: requests.PreparedRequest, status: int, content: bytes = b"", headers: Mapping[str, str] | None = None
) -> requests.Response:
    response = requests.Response()
    response.status_code = status
    response.request, response.url = request, str(request.url)
    response.headers.update(headers or {})
    response.raw = io.BytesIO(content)
    return response
