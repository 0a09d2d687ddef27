"""An Azure Container Registry in memory: manifests, tags, times, locks, lists by pages."""

from __future__ import annotations

import datetime
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import requests
from requests.adapters import BaseAdapter

from aml_train.image.registry.manifest import OCI_INDEX, OCI_MANIFEST, sha256_digest
from tests.unit.image.registry.fake_registry import _body, _response

HOST = "r.azurecr.io"
PAGE = 3


@dataclass
class Stored:
    """A manifest with its tags, and the time of each."""

    content: bytes
    media_type: str
    created: float
    tags: dict[str, float] = field(default_factory=dict)


class FakeAcr(BaseAdapter):
    """Answers as Azure's registry does.

    Args:
        now: seconds since 1970.
    """

    def __init__(self, now: float) -> None:
        super().__init__()
        self.now = now
        self.stored: dict[tuple[str, str], Stored] = {}
        self.blobs: dict[str, bytes] = {}
        self.locked: set[tuple[str, str]] = set()
        self.hidden: set[str] = set()
        self.may_write_metadata = True
        self.log: list[str] = []
        self._one_at_a_time = threading.Lock()
        #: Called before each request with its number, method and path; may raise or return a status.
        self.hook: Callable[[int, str, str], int | None] = lambda _number, _method, _path: None

    def close(self) -> None:
        """Do nothing: there are no connections."""

    def put(
        self,
        repository: str,
        *tags: str,
        days: float = 100,
        children: tuple[str, ...] = (),
        subject: str = "",
        seed: str = "",
    ) -> str:
        """Store a manifest, pushed and tagged so many days ago; return its digest."""
        config = json.dumps(
            {"created": _iso(self.now - days * 86400), "seed": seed or f"{len(self.stored)}"}
        ).encode()
        self.blobs[sha256_digest(config)] = config
        document: dict[str, Any] = {"schemaVersion": 2, "mediaType": OCI_INDEX if children else OCI_MANIFEST}
        if children:
            document["manifests"] = [{"digest": one, "size": 3, "mediaType": OCI_MANIFEST} for one in children]
        else:
            kind = "application/vnd.oci.image.config.v1+json"
            document["config"] = {"mediaType": kind, "digest": sha256_digest(config), "size": len(config)}
            document["layers"] = []
        if subject:
            document["subject"] = {"digest": subject, "size": 3, "mediaType": OCI_MANIFEST}
        content = json.dumps(document).encode()
        digest = sha256_digest(content)
        when = self.now - days * 86400
        self.stored[repository, digest] = Stored(content, document["mediaType"], when, dict.fromkeys(tags, when))
        return digest

    def digests(self, repository: str) -> set[str]:
        """Return the digests of a repository's manifests."""
        return {digest for place, digest in self.stored if place == repository}

    def tags(self, repository: str) -> dict[str, str]:
        """Return a repository's tags with their digests."""
        return {
            tag: digest for (place, digest), one in self.stored.items() if place == repository for tag in one.tags
        }

    def tag(self, repository: str, tag: str, digest: str) -> None:
        """Put a tag on a manifest now."""
        for (place, _), one in self.stored.items():
            if place == repository:
                one.tags.pop(tag, None)
        self.stored[repository, digest].tags[tag] = self.now

    def send(self, request: requests.PreparedRequest, *_args: Any, **_options: Any) -> requests.Response:
        with self._one_at_a_time:
            return self._answer(request)

    def _answer(self, request: requests.PreparedRequest) -> requests.Response:
        parts = urlsplit(request.url or "")
        path, query = unquote(str(parts.path)), parse_qs(str(parts.query))
        self.log.append(f"{request.method} {path}")
        status = self.hook(len(self.log), str(request.method), path)
        if status is not None:
            return _response(request, status)
        if path.startswith("/acr/v1/"):
            return self._acr(request, path.removeprefix("/acr/v1/"), query)
        repository, _, rest = path.removeprefix("/v2/").partition("/manifests/")
        if rest:
            return self._manifest(request, repository, rest)
        if "/blobs/" in path:
            content = self.blobs.get(path.rpartition("/")[2])
            return _response(request, 404) if content is None else _response(request, 200, content)
        return _response(request, 404)

    def _manifest(self, request: requests.PreparedRequest, repository: str, reference: str) -> requests.Response:
        if request.method == "PUT":
            content = _body(request)
            digest = sha256_digest(content)
            self.stored.setdefault((repository, digest), Stored(content, request.headers["Content-Type"], self.now))
            if ":" not in reference:
                self.tag(repository, reference, digest)
            return _response(request, 201, headers={"Docker-Content-Digest": digest})
        digest = reference if ":" in reference else self.tags(repository).get(reference, "")
        found = self.stored.get((repository, digest))
        if found is None:
            return _response(request, 404)
        if request.method == "DELETE":
            if any((repository, name) in self.locked for name in (digest, *found.tags)):
                return _response(request, 405)
            if ":" in reference:
                del self.stored[repository, digest]
            else:
                del found.tags[reference]
            return _response(request, 202)
        headers = {"Docker-Content-Digest": digest, "Content-Type": found.media_type}
        return _response(request, 200, found.content if request.method == "GET" else b"", headers)

    def _acr(self, request: requests.PreparedRequest, path: str, query: dict[str, list[str]]) -> requests.Response:
        repository, _, rest = path.partition("/_")
        kind, _, reference = rest.partition("/")
        mine = {digest: one for (place, digest), one in self.stored.items() if place == repository}
        if not mine:
            return _response(request, 404)
        if request.method == "PATCH":
            return self._patch(request, repository, reference)
        if request.method == "DELETE":
            digest = self.tags(repository).get(reference, "")
            mine[digest].tags.pop(reference, None) if digest else None
            return _response(request, 202)
        shown = {digest: self._shape(repository, digest, one) for digest, one in sorted(mine.items())}
        if kind == "manifests" and reference:
            if reference not in shown:
                return _response(request, 404)
            return _response(request, 200, json.dumps({"manifest": shown[reference]}).encode())
        if not kind:
            counts = {"manifestCount": len(mine), "tagCount": len(self.tags(repository))}
            attributes = {"changeableAttributes": self._attributes(repository, "")}
            return _response(request, 200, json.dumps({**counts, **attributes}).encode())
        tags = [
            {
                "name": tag,
                "digest": digest,
                "lastUpdateTime": _iso(when),
                "changeableAttributes": self._attributes(repository, tag),
            }
            for digest, one in mine.items()
            for tag, when in one.tags.items()
        ]
        if kind == "tags" and reference:
            found = [one for one in tags if one["name"] == reference]
            return (
                _response(request, 200, json.dumps({"tag": found[0]}).encode()) if found else _response(request, 404)
            )
        items = sorted(tags, key=lambda one: str(one["name"])) if kind == "tags" else list(shown.values())
        items = [one for one in items if one.get("digest") not in self.hidden]
        key = "name" if kind == "tags" else "digest"
        page, headers = _page(items, query, f"/acr/v1/{repository}/_{kind}", lambda one: str(one[key]))
        return _response(request, 200, json.dumps({kind: page}).encode(), headers)

    def _patch(self, request: requests.PreparedRequest, repository: str, reference: str) -> requests.Response:
        if not self.may_write_metadata:
            return _response(request, 403)
        wanted = json.loads(_body(request))
        (self.locked.discard if wanted["writeEnabled"] else self.locked.add)((repository, reference))
        return _response(request, 200, b"{}")

    def _shape(self, repository: str, digest: str, one: Stored) -> dict[str, Any]:
        return {
            "digest": digest,
            "imageSize": len(one.content),
            "createdTime": _iso(one.created),
            "lastUpdateTime": _iso(max([one.created, *one.tags.values()])),
            "mediaType": one.media_type,
            "tags": sorted(one.tags) or None,
            "changeableAttributes": self._attributes(repository, digest),
        }

    def _attributes(self, repository: str, name: str) -> dict[str, bool]:
        return {"deleteEnabled": True, "writeEnabled": (repository, name) not in self.locked}


def _page(
    items: list[Any], query: dict[str, list[str]], path: str, key: Callable[[Any], str]
) -> tuple[list[Any], dict[str, str]]:
    last = query.get("last", [""])[0]
    rest = [one for one in items if key(one) > last]
    headers = {"Link": f'<{path}?last={key(rest[PAGE - 1])}&n={PAGE}>; rel="next"'} if len(rest) > PAGE else {}
    return rest[:PAGE], headers


def _iso(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat().replace("+00:00", "Z")
