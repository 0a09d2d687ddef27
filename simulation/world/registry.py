"""The container registry in memory, behind the sign-in and interface of ACR.

Sign-in, ``/acr/v1``, locks and the list of referrers are the local AzureML's own (:mod:`aml_emulator.registry`), over a storage
in memory. The part of the CNCF registry is here: blobs, uploads, manifests, tags
(https://github.com/opencontainers/distribution-spec/blob/v1.1.1/spec.md).
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from aml_emulator.identity.identity import Identity
from aml_emulator.identity.tokens import Tokens
from aml_emulator.network.heads import Head
from aml_emulator.registry.acr import AcrInterface, Asked, Locks, read_request
from aml_emulator.registry.front import RegistryFront, subject_of
from aml_emulator.registry.storage import RegistryStorage, StoredManifest, Tag
from simulation.world.http import Request, Response, json_response

_DEFAULT_TYPE: Final = "application/vnd.docker.distribution.manifest.v2+json"
_INDEXES: Final = (
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.index.v1+json",
)


@dataclass
class _Manifest:
    content: bytes
    media_type: str
    created: float
    updated: float


@dataclass
class Repository:
    """The content of one repository.

    Attributes:
        manifests: digest → manifest.
        tags: name → digest, time of its making, time of its last change.
        blobs: digests that can be read here.
    """

    created: float
    manifests: dict[str, _Manifest] = field(default_factory=dict)
    tags: dict[str, tuple[str, float, float]] = field(default_factory=dict)
    blobs: set[str] = field(default_factory=set)


class MemoryStorage(RegistryStorage):
    """The registry's content in memory; the local AzureML reads it from files."""

    def __init__(self) -> None:
        super().__init__(Path("/nonexistent"))
        self.content: dict[str, Repository] = {}
        self.blobs: dict[str, bytes] = {}
        self.lock = threading.RLock()

    def repositories(self) -> list[str]:
        return sorted(name for name, one in self.content.items() if one.manifests)

    def exists(self, repository: str) -> bool:
        return bool(repository in self.content and self.content[repository].manifests)

    def created(self, repository: str) -> float:
        return self.content[repository].created

    def tags(self, repository: str) -> list[Tag]:
        found = self.content.get(repository)
        names = sorted(found.tags) if found is not None else []
        return [tag for name in names if (tag := self.tag(repository, name)) is not None]

    def tag(self, repository: str, name: str) -> Tag | None:
        found = self.content[repository].tags.get(name) if repository in self.content else None
        if found is None:
            return None
        digest, created, updated = found
        return Tag(name=name, digest=digest, created=created, updated=updated)

    def manifests(self, repository: str) -> list[StoredManifest]:
        found = self.content.get(repository)
        digests = sorted(found.manifests) if found is not None else []
        return [one for digest in digests if (one := self.manifest(repository, digest)) is not None]

    def manifest(self, repository: str, digest: str) -> StoredManifest | None:
        stored = self.content[repository].manifests.get(digest) if repository in self.content else None
        if stored is None:
            return None
        document = json.loads(stored.content)
        mine = [tag for tag in self.tags(repository) if tag.digest == digest]
        listed, config = document.get("manifests") or (), document.get("config") or {}
        index = stored.media_type in _INDEXES
        entries = [*listed] if index else [config, *(document.get("layers") or ())]
        image: dict[str, Any] = {}
        if "container.image" in str(config.get("mediaType")) or "image.config" in str(config.get("mediaType")):
            image = json.loads(self.blobs.get(str(config.get("digest")), b"{}"))
        return StoredManifest(
            digest=digest,
            created=stored.created,
            updated=max([stored.updated, *(tag.updated for tag in mine)]),
            media_type=stored.media_type,
            config_type=config.get("mediaType"),
            size=sum(int(entry.get("size", 0)) for entry in entries),
            tags=tuple(tag.name for tag in mine),
            architecture=image.get("architecture"),
            system=image.get("os"),
            children=tuple(
                (str(entry["digest"]), *(entry.get("platform", {}).get(key) for key in ("architecture", "os")))
                for entry in listed
            ),
        )

    def referrers(self, repository: str, digest: str) -> list[dict[str, Any]]:
        found = []
        manifests = self.content[repository].manifests if repository in self.content else {}
        for name, stored in sorted(manifests.items()):
            document = json.loads(stored.content)
            if (document.get("subject") or {}).get("digest") != digest:
                continue
            config = document.get("config") or {}
            entry = {
                "mediaType": document.get("mediaType") or _DEFAULT_TYPE,
                "digest": name,
                "size": len(stored.content),
                "artifactType": document.get("artifactType") or config.get("mediaType"),
                "annotations": document.get("annotations"),
            }
            found.append({key: value for key, value in entry.items() if value})
        return found

    def untag(self, repository: str, tag: str) -> bool:
        return repository in self.content and self.content[repository].tags.pop(tag, None) is not None

    def delete_repository(self, repository: str) -> bool:
        return self.content.pop(repository, None) is not None

    def put(self, repository: str, reference: str, content: bytes, media_type: str) -> str:
        """Store a manifest under a tag or its digest; return the digest."""
        digest, now = sha256(content), time.time()
        place = self.content.setdefault(repository, Repository(created=now))
        known = place.manifests.get(digest)
        if known is None:
            place.manifests[digest] = _Manifest(content=content, media_type=media_type, created=now, updated=now)
        if ":" not in reference:
            before = place.tags.get(reference)
            place.tags[reference] = (digest, now if before is None else before[1], now)
        return digest


class RegistryService:
    """The registry under its Azure name.

    Args:
        identity: of the local AzureML, whose tokens it takes.
        folder: keeps the attributes of tags and manifests.
    """

    def __init__(self, identity: Identity, folder: Path) -> None:
        self.host = identity.login_server
        self.storage = MemoryStorage()
        self._acr = AcrInterface(
            login_server=self.host, storage=self.storage, locks=Locks(folder / "registry-locks.json")
        )
        tokens = Tokens(identity, clock=lambda: time.time())
        self._front = RegistryFront(0, login_server=self.host, tokens=tokens, acr=self._acr)
        self._uploads: dict[str, bytes] = {}

    def handle(self, request: Request) -> Response:
        """Answer one request."""
        parts = urlsplit(request.url)
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        head = Head(method=request.method, target=target, headers=(*request.headers.items(), ("Host", self.host)))
        with self.storage.lock:
            answered = self._front.answer(head, request.body)
            if answered is not None:
                status, value, headers = answered
                return json_response(status, value, headers)
            asked = read_request(request.method, target)
            response = self._v2(request, asked)
            if request.method == "DELETE":
                self._acr.tidy(asked.repository)
            return response

    def _v2(self, request: Request, asked: Asked) -> Response:
        if not asked.repository:
            return json_response(200, {})
        match asked.kind:
            case "manifests":
                return self._manifest(request, asked)
            case "tags" if asked.method == "GET":
                return self._tags(asked)
            case "blobs" if asked.reference.startswith("uploads"):
                return self._upload(request, asked)
            case "blobs":
                return self._blob(request, asked)
        return _refused(405, "UNSUPPORTED")

    def _manifest(self, request: Request, asked: Asked) -> Response:
        name, reference, storage = asked.repository, asked.reference, self.storage
        if request.method == "PUT":
            try:
                document = json.loads(request.body)
                listed = [*document.get("layers", ()), *([document["config"]] if "config" in document else ())]
            except (ValueError, AttributeError, TypeError):
                return _refused(400, "MANIFEST_INVALID")
            known = storage.content.get(name)
            if any(one["digest"] not in (known.blobs if known is not None else ()) for one in listed):
                return _refused(400, "MANIFEST_BLOB_UNKNOWN")
            if ":" in reference and reference != sha256(request.body):
                return _refused(400, "DIGEST_INVALID")
            media_type = request.header("Content-Type").partition(";")[0]
            digest = storage.put(name, reference, request.body, media_type or _DEFAULT_TYPE)
            headers = {"Docker-Content-Digest": digest, "Location": f"/v2/{name}/manifests/{digest}"}
            if subject := subject_of(request.body):
                headers["OCI-Subject"] = subject
            return Response(status=201, headers=headers)
        found = storage.content.get(name)
        tag = found.tags.get(reference) if found is not None else None
        digest = reference if ":" in reference else (tag[0] if tag is not None else "")
        stored = found.manifests.get(digest) if found is not None else None
        if found is None or stored is None:
            return _refused(404, "MANIFEST_UNKNOWN")
        if request.method == "DELETE":
            if ":" not in reference:
                del found.tags[reference]
            else:
                del found.manifests[digest]
                found.tags = {key: value for key, value in found.tags.items() if value[0] != digest}
            return Response(status=202)
        headers = {"Docker-Content-Digest": digest, "Content-Type": stored.media_type}
        return Response(status=200, headers=headers, body=stored.content)

    def _tags(self, asked: Asked) -> Response:
        found = self.storage.content.get(asked.repository)
        if found is None:
            return _refused(404, "NAME_UNKNOWN")
        count, last = asked.query.get("n", ""), asked.query.get("last", "")
        names = [name for name in sorted(found.tags) if name > last]
        size = int(count) if count.isdecimal() and int(count) > 0 else len(names)
        page, headers = names[:size], {}
        if len(names) > len(page):
            headers["Link"] = f'</v2/{asked.repository}/tags/list?n={size}&last={page[-1]}>; rel="next"'
        return json_response(200, {"name": asked.repository, "tags": page}, headers)

    def _upload(self, request: Request, asked: Asked) -> Response:
        name, upload = asked.repository, asked.reference.removeprefix("uploads").strip("/")
        now = time.time()
        if request.method == "POST":
            place = self.storage.content.setdefault(name, Repository(created=now))
            mount, source = asked.query.get("mount", ""), self.storage.content.get(asked.query.get("from", ""))
            if mount and source is not None and mount in source.blobs:
                place.blobs.add(mount)
                headers = {"Location": f"/v2/{name}/blobs/{mount}", "Docker-Content-Digest": mount}
                return Response(status=201, headers=headers)
            upload = str(uuid.uuid4())
            self._uploads[upload] = b""
            headers = {"Location": f"/v2/{name}/blobs/uploads/{upload}", "Docker-Upload-UUID": upload, "Range": "0-0"}
            return Response(status=202, headers=headers)
        if upload not in self._uploads:
            return _refused(404, "BLOB_UPLOAD_UNKNOWN")
        if request.method == "DELETE":
            del self._uploads[upload]
            return Response(status=204)
        content = self._uploads[upload] + request.body
        if request.method == "PATCH":
            self._uploads[upload] = content
            where = f"/v2/{name}/blobs/uploads/{upload}"
            return Response(status=202, headers={"Location": where, "Range": f"0-{max(len(content) - 1, 0)}"})
        digest = asked.query.get("digest", "")
        if digest != sha256(content):
            return _refused(400, "DIGEST_INVALID")
        del self._uploads[upload]
        self.storage.blobs[digest] = content
        self.storage.content.setdefault(name, Repository(created=now)).blobs.add(digest)
        headers = {"Location": f"/v2/{name}/blobs/{digest}", "Docker-Content-Digest": digest}
        return Response(status=201, headers=headers)

    def _blob(self, request: Request, asked: Asked) -> Response:
        found = self.storage.content.get(asked.repository)
        if found is None or asked.reference not in found.blobs:
            return _refused(404, "BLOB_UNKNOWN")
        if request.method == "DELETE":
            found.blobs.discard(asked.reference)
            return Response(status=202)
        content = self.storage.blobs[asked.reference]
        headers = {"Docker-Content-Digest": asked.reference, "Content-Type": "application/octet-stream"}
        if request.method == "HEAD":
            return Response(status=200, headers={**headers, "Content-Length": str(len(content))})
        return Response(status=200, headers=headers, body=content)


def sha256(content: bytes) -> str:
    """Return the digest of *content* as registries write it."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _refused(status: int, code: str) -> Response:
    return json_response(status, {"errors": [{"code": code, "message": code.lower().replace("_", " ")}]})
