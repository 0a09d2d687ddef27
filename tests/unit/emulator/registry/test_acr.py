"""Azure Container Registry's own interface, over a registry's files."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from aml_emulator.registry.acr import AcrInterface, Answer, Locks
from aml_emulator.registry.requests import read_request
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


def _names(answer: Answer, kind: str) -> list[str]:
    assert answer[0] == 200
    return [item["name"] if isinstance(item, dict) else item for item in answer[1][kind]]


def test_repositories_in_pages(acr: AcrInterface, files: Files) -> None:
    assert _ask(acr, "GET", "_catalog")[1] == {"repositories": []}
    for name in ("b", "a/nested", "a", "c"):
        files.image(name, name, "v1")
    first = _ask(acr, "GET", "_catalog?n=2")
    assert _names(first, "repositories") == ["a", "a/nested"]
    assert first[2] == {"Link": '</acr/v1/_catalog?last=a%2Fnested&n=2&orderby=>; rel="next"'}
    second = acr.answer(read_request("GET", first[2]["Link"][1:].partition(">")[0]), b"")
    assert (_names(second, "repositories"), second[2]) == (["b", "c"], {})
    for odd in ("0", "-1", "x", "\u00b2", "9" * 5000):
        assert _names(_ask(acr, "GET", f"_catalog?n={odd}"), "repositories") == ["a", "a/nested", "b", "c"]
    _ask(acr, "PATCH", "b", {"listEnabled": False})
    assert _names(_ask(acr, "GET", "_catalog"), "repositories") == ["a", "a/nested", "c"]


def test_tags_in_their_orders(acr: AcrInterface, files: Files) -> None:
    one = files.image("a/b", "one", "z", "m")
    two = files.image("a/b", "two", "a")
    assert _names(_ask(acr, "GET", "a/b/_tags"), "tags") == ["a", "m", "z"]
    assert _names(_ask(acr, "GET", "a/b/_tags?last=b&n=1"), "tags") == ["m"]
    assert _names(_ask(acr, "GET", "a/b/_tags?orderby=timeasc"), "tags") == ["z", "m", "a"]
    page = _ask(acr, "GET", "a/b/_tags?orderby=timedesc&n=2")
    assert _names(page, "tags") == ["a", "m"]
    assert page[2]["Link"] == '</acr/v1/a/b/_tags?last=m&n=2&orderby=timedesc>; rel="next"'
    assert _names(_ask(acr, "GET", "a/b/_tags?orderby=timedesc&n=2&last=m"), "tags") == ["z"]
    assert _names(_ask(acr, "GET", f"a/b/_tags?digest={quote(two)}"), "tags") == ["a"]
    tag = _ask(acr, "GET", "a/b/_tags/z")[1]
    assert (tag["registry"], tag["imageName"], tag["tag"]["digest"]) == (HOST, "a/b", one)
    assert tag["tag"]["createdTime"] <= tag["tag"]["lastUpdateTime"]
    assert tag["tag"]["createdTime"].startswith("2023-11-14T22:13:50.")
    assert set(tag["tag"]["changeableAttributes"].values()) == {True}


def test_manifests(acr: AcrInterface, files: Files) -> None:
    digest = files.image("a", "one", "x", "y")
    other = files.image("a", "two")
    child = {"digest": digest, "size": 5, "platform": {"architecture": "amd64", "os": "linux"}}
    index = files.manifest("a", {"mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [child]}, "i")
    record = files.manifest("a", {"config": {"mediaType": "x/y", "digest": "sha256:" + "1" * 64, "size": 3}}, "test")
    listed = _ask(acr, "GET", "a/_manifests?orderby=timeasc")[1]["manifests"]
    assert [one["digest"] for one in listed] == [digest, other, index, record]
    assert [one.get("tags") for one in listed] == [["x", "y"], None, ["i"], ["test"]]
    assert (listed[0]["architecture"], listed[0]["os"]) == ("amd64", "linux")
    assert listed[0]["imageSize"] > 1000
    assert "architecture" not in listed[3]
    found = _ask(acr, "GET", f"a/_manifests/{quote(index)}")[1]["manifest"]
    assert found["references"] == [{"digest": digest, "architecture": "amd64", "os": "linux"}]
    properties = _ask(acr, "GET", "a")[1]
    assert (properties["manifestCount"], properties["tagCount"]) == (4, 4)
    assert properties["createdTime"] < properties["lastUpdateTime"]


def test_untagging_leaves_what_the_tag_named(acr: AcrInterface, files: Files) -> None:
    digest = files.image("a", "one", "x", "y")
    assert _ask(acr, "DELETE", "a/_tags/x")[0] == 202
    assert _names(_ask(acr, "GET", "a/_tags"), "tags") == ["y"]
    assert _ask(acr, "GET", f"a/_manifests/{quote(digest)}")[1]["manifest"]["tags"] == ["y"]
    assert _ask(acr, "DELETE", "a/_tags/x")[0] == 404
    assert _ask(acr, "DELETE", "a/_tags/y")[0] == 202
    assert _ask(acr, "GET", f"a/_manifests/{quote(digest)}")[0] == 200
    assert not [path for path in files.folder.iterdir() if path.name.startswith("trash")]


def test_deleting_a_repository_leaves_those_below_it(acr: AcrInterface, files: Files) -> None:
    digest = files.image("a", "one", "x")
    files.image("a/b", "one", "x")
    assert _ask(acr, "DELETE", "a")[:2] == (202, {"manifestsDeleted": [digest], "tagsDeleted": ["x"]})
    assert _names(_ask(acr, "GET", "_catalog"), "repositories") == ["a/b"]
    assert _ask(acr, "DELETE", "a")[1]["errors"][0]["code"] == "NAME_UNKNOWN"


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


def test_what_is_locked_is_not_written_or_read(acr: AcrInterface, files: Files) -> None:
    digest = files.image("a", "one", "x")

    def forbidden(method: str, target: str) -> int:
        answer = acr.forbidden(read_request(method, target))
        return 0 if answer is None else answer[0]

    assert forbidden("PUT", "/v2/a/manifests/x") == 0
    _ask(acr, "PATCH", "a/_tags/x", {"writeEnabled": False})
    assert forbidden("PUT", "/v2/a/manifests/x") == 405
    assert forbidden("PUT", "/v2/a/manifests/y") == 0
    assert forbidden("GET", "/v2/a/manifests/x") == 0
    _ask(acr, "PATCH", f"a/_manifests/{quote(digest)}", {"readEnabled": False})
    assert forbidden("GET", "/v2/a/manifests/x") == 405
    assert forbidden("HEAD", f"/v2/a/manifests/{digest}") == 405
    _ask(acr, "PATCH", "a", {"writeEnabled": False})
    assert forbidden("POST", "/v2/a/blobs/uploads/") == 405
    assert forbidden("GET", f"/v2/a/blobs/{digest}") == 0


def test_attributes_are_kept_and_forgotten(acr: AcrInterface, files: Files, tmp_path: Path) -> None:
    files.image("a", "one", "x")
    _ask(acr, "PATCH", "a/_tags/x", {"listEnabled": False, "readEnabled": None})
    assert _names(_ask(acr, "GET", "a/_tags"), "tags") == []
    assert Locks(tmp_path / "attributes.json").of("a", "x")["listEnabled"] is False
    assert _ask(acr, "DELETE", "a/_tags/x")[0] == 202
    assert json.loads((tmp_path / "attributes.json").read_text()) == {}
    files.image("a", "one", "y")
    _ask(acr, "PATCH", "a/_tags/y", {"listEnabled": False})
    RegistryStorage(files.folder).untag("a", "y")
    acr.tidy("a")
    assert json.loads((tmp_path / "attributes.json").read_text()) == {}
    (tmp_path / "attributes.json").write_text("[]")
    with pytest.raises(ValueError, match="does not hold the registry's attributes"):
        Locks(tmp_path / "attributes.json")


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "nothing", None, 404, "NAME_UNKNOWN"),
        ("GET", "nothing/_tags", None, 404, "NAME_UNKNOWN"),
        ("GET", "nothing/_tags/x", None, 404, "NAME_UNKNOWN"),
        ("GET", "a/_tags/nothing", None, 404, "TAG_UNKNOWN"),
        ("PATCH", "a/_tags/nothing", {}, 404, "TAG_UNKNOWN"),
        ("GET", f"a/_manifests/sha256:{'0' * 64}", None, 404, "MANIFEST_UNKNOWN"),
        ("PATCH", "a", [], 400, "UNSUPPORTED"),
        ("PATCH", "a", {"writeEnabled": "no"}, 400, "UNSUPPORTED"),
        ("POST", "a", None, 405, "UNSUPPORTED"),
        ("DELETE", "_catalog", None, 405, "UNSUPPORTED"),
    ],
)
def test_refusals(acr: AcrInterface, files: Files, method: str, path: str, body: Any, status: int, code: str) -> None:
    files.image("a", "one", "x")
    answer = _ask(acr, method, path, body)
    assert (answer[0], answer[1]["errors"][0]["code"]) == (status, code)


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
