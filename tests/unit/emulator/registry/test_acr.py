"""Azure Container Registry's own interface, over a registry's files."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from aml_emulator.registry.acr import AcrInterface, Answer, Locks, read_request
from aml_emulator.registry.storage import RegistryStorage

HOST = "amllocal.azurecr.io"


class Files:
    """A registry's files, written as the registry writes them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "docker" / "registry" / "v2"
        self._time = 1_700_000_000

    def blob(self, content: bytes) -> str:
        value = hashlib.sha256(content).hexdigest()
        file = self.root / "blobs" / "sha256" / value[:2] / value / "data"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        return f"sha256:{value}"

    def image(self, repository: str, content: str, *tags: str) -> str:
        config = json.dumps({"architecture": "amd64", "os": "linux", "content": content}).encode()
        kind = "application/vnd.docker.container.image.v1+json"
        manifest = {
            "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
            "config": {"mediaType": kind, "digest": self.blob(config), "size": len(config)},
            "layers": [{"digest": "sha256:" + "0" * 64, "size": 1000}],
        }
        return self.manifest(repository, manifest, *tags)

    def manifest(self, repository: str, document: dict[str, Any], *tags: str) -> str:
        digest = self.blob(json.dumps(document).encode())
        manifests = self.root / "repositories" / repository / "_manifests"
        self._link(manifests / "revisions" / "sha256" / digest[7:], digest)
        for tag in tags:
            self._link(manifests / "tags" / tag / "index" / "sha256" / digest[7:], digest)
            self._link(manifests / "tags" / tag / "current", digest)
            os.utime(manifests / "tags" / tag, (self._time, self._time))
        return digest

    def _link(self, folder: Path, digest: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "link").write_text(digest)
        self._time += 10
        for path in (folder / "link", folder):
            os.utime(path, (self._time, self._time))


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path / "registry")


@pytest.fixture
def acr(files: Files, tmp_path: Path) -> AcrInterface:
    return AcrInterface(
        login_server=HOST, storage=RegistryStorage(files.folder), locks=Locks(tmp_path / "attributes.json")
    )


def _ask(acr: AcrInterface, method: str, path: str, body: Any = None) -> Answer:
    return acr.answer(read_request(method, f"/acr/v1/{path}"), json.dumps(body).encode() if body is not None else b"")


@pytest.mark.parametrize("attribute", ["deleteEnabled", "writeEnabled"])
@pytest.mark.parametrize("what", ["", "/_tags/x", "/_manifests/DIGEST"])
def test_what_is_locked_is_not_deleted(acr: AcrInterface, files: Files, attribute: str, what: str) -> None:
    digest = files.image("a", "one", "x", "y")
    what = what.replace("DIGEST", quote(digest))
    changed = _ask(acr, "PATCH", f"a{what}", {attribute: False})
    assert changed[0] == 200
    assert f"'{attribute}': False" in str(changed[1])
    code = "REGISTRY_DISALLOWED_OPERATION"
    assert _ask(acr, "DELETE", "a")[1]["errors"][0]["code"] == code
    forbidden = acr.forbidden(read_request("DELETE", f"/v2/a/manifests/{digest}"))
    assert forbidden is not None
    assert forbidden[0] == 405
    assert _ask(acr, "DELETE", "a/_tags/x")[0] == (202 if "manifests" in what else 405)
    assert _ask(acr, "PATCH", f"a{what}", {attribute: True})[0] == 200
    assert acr.forbidden(read_request("DELETE", f"/v2/a/manifests/{digest}")) is None
    assert _ask(acr, "DELETE", "a")[0] == 202


def test_referrers_of_a_manifest(acr: AcrInterface, files: Files) -> None:
    digest = files.image("a", "one", "x")
    other = files.image("a", "two", "y")
    config = {"mediaType": "application/vnd.oci.empty.v1+json", "digest": files.blob(b"{}"), "size": 2}
    manifest = {"mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": []}
    paper = manifest | {"subject": {"digest": digest}, "artifactType": "text/x", "annotations": {"k": "v"}}
    plain = manifest | {"subject": {"digest": digest}}
    made = {files.manifest("a", paper), files.manifest("a", plain)}
    files.manifest("a", manifest | {"subject": {"digest": other}, "artifactType": "text/x"})

    def ask(digest: str, query: str = "") -> Answer:
        return acr.referrers(read_request("GET", f"/v2/a/referrers/{digest}{query}"))

    status, index, headers = ask(digest)
    assert (status, headers["Content-Type"]) == (200, index["mediaType"])
    assert {entry["digest"] for entry in index["manifests"]} == made
    assert {entry["artifactType"] for entry in index["manifests"]} == {"text/x", config["mediaType"]}
    _, index, headers = ask(digest, "?artifactType=text/x")
    (entry,) = index["manifests"]
    assert (entry["annotations"], headers["OCI-Filters-Applied"]) == ({"k": "v"}, "artifactType")
    assert entry["size"] == len(json.dumps(paper).encode())
    assert ask("sha256:" + "0" * 64)[1]["manifests"] == []
