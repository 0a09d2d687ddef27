"""Every operation of the registry's client, its sign-in and the records in it, met by arbitrary answers: our own errors, and no other end."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

import pytest
import requests

from aml_train.azure.acr import AcrLogin
from aml_train.image.prune.registry import delete_manifest, read_entries
from aml_train.image.readiness.check import FACTS_TYPE, load_facts
from aml_train.image.records import RECORD_TYPE, load_record, record_tag
from aml_train.image.registry.auth import RegistryAuth
from aml_train.image.registry.client import Registry
from aml_train.image.registry.manifest import OCI_INDEX, OCI_MANIFEST, Manifest, sha256_digest
from aml_train.image.registry.referrers import list_referrers, load_document
from aml_train.image.spec import TestRecord
from tests.support.wrong_answers import CASES, Answering, Reply, as_json, tries

KEY = "b" * 64
BLOB = b"layer" * 20
DIGEST = sha256_digest(BLOB)
FACTS = {"format": 1, "bash": None, "python": None}
RECORD = TestRecord(
    digest=DIGEST,
    key=KEY,
    command="pytest",
    passed=3,
    failed=0,
    skipped=None,
    seconds=1.5,
    at="2026-01-01T00:00:00+00:00",
    commit=None,
)
RECORD_BLOB = json.dumps(dataclasses.asdict(RECORD)).encode()
FACTS_BLOB = json.dumps({"digest": DIGEST, "facts": FACTS}).encode()
BLOBS = {sha256_digest(one): one for one in (BLOB, RECORD_BLOB, FACTS_BLOB)}


def manifest_of(media_type: str, content: bytes) -> bytes:
    config = {"mediaType": "application/x", "digest": DIGEST, "size": len(BLOB)}
    layer = {"mediaType": media_type, "digest": sha256_digest(content), "size": len(content)}
    return json.dumps({"schemaVersion": 2, "artifactType": media_type, "config": config, "layers": [layer]}).encode()


PLAIN = manifest_of("application/x", BLOB)
LISTED = sha256_digest(PLAIN)


def valid(request: requests.PreparedRequest) -> Reply:
    """Return what a registry answers."""
    path, method = str(urlsplit(str(request.url)).path), request.method
    if urlsplit(str(request.url)).netloc == "auth.invalid" or path == "/oauth2/exchange":
        return as_json({"token": "t", "expires_in": 300, "refresh_token": "r"})
    if "Authorization" not in request.headers:
        realm = 'Bearer realm="https://auth.invalid/token",service="s"'
        return Reply(status=401, headers={"WWW-Authenticate": realm, "Content-Type": "application/json"}, body=b"{}")
    if path.endswith("/blobs/uploads/"):
        return Reply(status=202, headers={"Location": "/v2/r/blobs/uploads/1"})
    if method == "PUT":
        return Reply(status=201)
    if path.startswith("/acr/v1/"):
        return as_json(listed(path))
    if "/blobs/" in path:
        return Reply(body=BLOBS.get(path.rpartition("/")[2], BLOB) if method == "GET" else b"")
    if "/referrers/" in path:
        entry = {"mediaType": OCI_MANIFEST, "digest": LISTED, "size": 5, "artifactType": "application/x"}
        return as_json({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [entry]})
    if path.endswith("/tags/list"):
        last = "last=" in str(request.url)
        return as_json({"tags": ["a", "b"]}, headers={} if last else {"Link": '</v2/r/tags/list?last=b>; rel="next"'})
    content, media_type = PLAIN, OCI_MANIFEST
    if path.endswith("/index"):
        content, media_type = json.dumps({"manifests": [{"digest": LISTED, "size": 5}]}).encode(), OCI_INDEX
    elif path.endswith(record_tag(DIGEST, KEY)):
        content = manifest_of(RECORD_TYPE, RECORD_BLOB)
    elif "/facts-" in path:
        content = manifest_of(FACTS_TYPE, FACTS_BLOB)
    headers = {"Content-Type": media_type, "Docker-Content-Digest": sha256_digest(content)}
    return Reply(headers=headers, body=content if method == "GET" else b"")


def listed(path: str) -> dict[str, object]:
    """Return what Azure's registry says of a repository, its manifests and its tags."""
    attributes = {"changeableAttributes": {"deleteEnabled": True, "writeEnabled": False}}
    tag = {"name": "t", "digest": LISTED, "lastUpdateTime": "2026-01-01T00:00:00.1234567Z", **attributes}
    times = {"createdTime": "2026-01-01T00:00:00Z", "lastUpdateTime": "2026-01-02T00:00:00Z"}
    manifest = {"digest": LISTED, "imageSize": 5, "mediaType": OCI_MANIFEST, "tags": ["t"], **times, **attributes}
    ends: dict[str, dict[str, object]] = {
        "/_manifests": {"manifests": [manifest]},
        "/_tags": {"tags": [tag]},
        f"/_manifests/{LISTED}": {"manifest": manifest},
        "/_tags/t": {"tag": tag},
        "/r": {"manifestCount": 1, "tagCount": 1, **attributes},
    }
    return next((answer for end, answer in ends.items() if path.endswith(end)), {})


ANSWERING = Answering(valid)
SESSION = ANSWERING.session()
AUTH = RegistryAuth(username="u", password="p")


def registry(host: str = "registry.invalid", *, identity: bool = False) -> Registry:
    auth = RegistryAuth(username="u", identity_token="i") if identity else AUTH
    return Registry(f"https://{host}", auth=auth, transport=ANSWERING, attempts=2)


def used(manifest: Manifest | None) -> object:
    return manifest and (manifest.config_digest, manifest.blobs, manifest.children, manifest.layer_bytes)


def login() -> object:
    return AcrLogin("acr.azurecr.io", lambda: "t", session=SESSION)()


def index() -> object:
    return used(registry().get_manifest("r", "index"))


def acr() -> Registry:
    return registry("acr.azurecr.io")


IMAGE = Manifest(digest=LISTED, media_type=OCI_MANIFEST, content=PLAIN)
_CONFIG = {"config": {"digest": sha256_digest(FACTS_BLOB), "size": len(FACTS_BLOB)}, "layers": []}
WITH_CONFIG = Manifest(digest=DIGEST, media_type=OCI_MANIFEST, content=json.dumps(_CONFIG).encode())
OPERATIONS: Mapping[str, Callable[[], object]] = {
    "check_push": lambda: registry().check_push("r"),
    "head_manifest": lambda: registry().head_manifest("r", "t"),
    "get_manifest": lambda: used(registry().get_manifest("r", "t")),
    "get_manifest by an identity": lambda: used(registry(identity=True).get_manifest("r", "t")),
    "get_manifest of an index": index,
    "put_manifest": lambda: registry().put_manifest("r", "t", IMAGE.content, OCI_MANIFEST),
    "put_tag": lambda: registry().put_tag("r", "t", IMAGE),
    "untag": lambda: acr().untag("r", "t"),
    "lock_tag": lambda: acr().lock_tag("r", "t"),
    "unlock_tag": lambda: acr().lock_tag("r", "t", locked=False),
    "delete_manifest": lambda: delete_manifest(acr(), "r", LISTED),
    "inventory of Azure's registry": lambda: [one.tags for one in read_entries(acr(), "r")],
    "has_blob": lambda: registry().has_blob("r", DIGEST),
    "get_blob": lambda: registry().get_blob("r", DIGEST),
    "image_config": lambda: registry().image_config("r", WITH_CONFIG, "linux/amd64").text("digest"),
    "stream_blob": lambda: b"".join(registry().stream_blob("r", DIGEST)),
    "upload_blob": lambda: registry().upload_blob("r", b"content"),
    "upload": lambda: registry().upload("r", DIGEST, io.BytesIO(b"content")),
    "mount_blob": lambda: registry().mount_blob("r", DIGEST, "other"),
    "tags": lambda: registry().tags("r"),
    "referrers": lambda: [entry.text("digest") for entry in registry().referrers("r", DIGEST) or ()],
    "referrers as they are listed": lambda: list_referrers(registry(), "r", DIGEST),
    "artifact": lambda: load_document(registry(), "r", "t", media_type="application/x", noun="thing", hint=""),
    "record": lambda: load_record(registry(), "r", DIGEST, KEY),
    "facts": lambda: load_facts(registry(), "r", DIGEST),
    "sign-in": login,
}
NO_REQUEST = {"close", "url", "host", "can_lock"}


def test_every_operation_is_tried() -> None:
    names = {name for name in vars(Registry) if not name.startswith("_")}
    assert names - NO_REQUEST <= OPERATIONS.keys()


@pytest.mark.parametrize("name", OPERATIONS)
def test_arbitrary_answers_of_a_registry(name: str) -> None:
    tries(ANSWERING, OPERATIONS[name], count=max(1, CASES * 6 // 20 // len(OPERATIONS)))


@pytest.mark.parametrize("name", OPERATIONS)
def test_valid_answers_are_understood(name: str) -> None:
    """A property test whose valid answers were refused would try nothing."""
    ANSWERING.begin(b"")
    assert OPERATIONS[name]() is not False
    assert ANSWERING.sent
