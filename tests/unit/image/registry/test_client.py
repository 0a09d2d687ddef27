from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator

import pytest
import stamina

from aml_train.core.errors import ImageError
from aml_train.image.push import read_back, release
from aml_train.image.records import RECORD_TYPE, load_record, record_tag
from aml_train.image.registry.auth import Login, RegistryAuth, parse_challenge, sign_in_hint
from aml_train.image.registry.client import Registry, RegistryLocation
from aml_train.image.registry.manifest import DOCKER_MANIFEST, OCI_MANIFEST, Manifest, sha256_digest
from aml_train.image.spec import TestRecord
from tests.unit.image.registry.fake_registry import FakeRegistry

URL = "https://registry.test"
REALM = "https://auth.test/token"
AUTH = RegistryAuth(username="me", password="secret-word")
DIGEST, KEY = "sha256:" + "a" * 64, "b" * 64
RECORD = TestRecord(
    digest=DIGEST,
    key=KEY,
    command="pytest",
    passed=3,
    failed=0,
    skipped=None,
    seconds=1.5,
    at="2026-01-01T00:00:00+00:00",
    commit="c0ffee",
)


@pytest.fixture(autouse=True)
def _no_waiting() -> Iterator[None]:
    with stamina.set_testing(True, attempts=3):
        yield


def _client(fake: FakeRegistry, auth: RegistryAuth | None = None, url: str = URL) -> Registry:
    return Registry(url, auth=auth, transport=fake)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('Bearer realm="https://a/t",service="s",scope="x:y:pull,push"',
         ("bearer", {"realm": "https://a/t", "service": "s", "scope": "x:y:pull,push"})),
        ('Basic realm="r"', ("basic", {"realm": "r"})),
        ("", ("", {})),
    ],
)  # fmt: skip
def test_challenge(text: str, expected: tuple[str, dict[str, str]]) -> None:
    assert parse_challenge(text) == expected


def test_token_sign_in_once_for_each_scope() -> None:
    fake = FakeRegistry(basic=AUTH.basic, realm=REALM)
    client = _client(fake, AUTH)
    assert client.head_manifest("a/b", "x") is None
    assert client.head_manifest("a/b", "y") is None
    assert fake.log == [
        "HEAD /v2/a/b/manifests/x",
        "GET /token?service=fake&scope=repository%3Aa%2Fb%3Apull",
        "HEAD /v2/a/b/manifests/x",
        "HEAD /v2/a/b/manifests/y",
    ]


def test_identity_token_and_basic() -> None:
    fake = FakeRegistry(basic="-", realm=REALM)
    told: list[str] = []
    auth = RegistryAuth(username="", identity_token="refresh", fetched=told.append)
    assert _client(fake, auth).head_manifest("a", "x") is None
    assert "POST /token" in fake.log
    assert told == ["token"]
    fake = FakeRegistry(basic=AUTH.basic)
    assert _client(fake, AUTH).head_manifest("a", "x") is None
    assert len(fake.log) == 2


def test_credentials_of_the_moment_are_asked_for_each_sign_in() -> None:
    asked: list[str] = []

    def login() -> RegistryAuth:
        asked.append("asked")
        return AUTH

    fake = FakeRegistry(basic=AUTH.basic, realm=REALM)
    client = Registry(URL, auth=login, transport=fake)
    assert client.head_manifest("a", "x") is None
    assert client.head_manifest("b", "x") is None
    assert asked == ["asked", "asked"]
    location = RegistryLocation(push_name="p", job_name="j", url=URL, auth=login)
    assert location.credentials() is AUTH
    assert RegistryLocation(push_name="p", job_name="j", url=URL).credentials() is None


def test_a_build_signs_in_where_its_base_is_too() -> None:
    own, other = RegistryAuth(username="own"), RegistryAuth(username="other")
    known: dict[str, Login] = {"bases.azurecr.io": lambda: other, "p": lambda: other}
    location = RegistryLocation(push_name="p", job_name="j", url=URL, auth=own, elsewhere=known.get)
    assert location.logins("bases.azurecr.io") == {"p": own, "bases.azurecr.io": other}
    assert location.logins("nvcr.io") == {"p": own}
    assert location.logins("p") == {"p": own}
    assert RegistryLocation(push_name="p", job_name="j", url=URL).logins("nvcr.io") == {}


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("my.azurecr.io", "The identity needs the role AcrPush on my.azurecr.io"),
        ("my.azurecr.cn", "The identity needs the role AcrPush on my.azurecr.cn"),
        ("azurecr.io.evil", "Sign in (docker login azurecr.io.evil)"),
        ("ghcr.io", "Sign in (docker login ghcr.io)"),
    ],
)
def test_what_to_do_about_a_refusal(host: str, expected: str) -> None:
    assert sign_in_hint(host).startswith(expected)


@pytest.mark.parametrize(
    ("fake", "auth", "message"),
    [
        (FakeRegistry(basic="-", realm=REALM), AUTH, "refused to sign in as me: HTTP 401"),
        (FakeRegistry(basic="-", realm=REALM), None, "refused to sign in anonymously: HTTP 401"),
        (FakeRegistry(basic="-"), AUTH, "refused to look up a:x: HTTP 401"),
        (FakeRegistry(basic="-"), None, "refused to look up a:x: HTTP 401"),
        (
            FakeRegistry(basic="-", realm="http://evil.test/token"),
            AUTH,
            "'http://evil.test/token' to sign in, which is not https",
        ),
    ],
)
def test_refusals(fake: FakeRegistry, auth: RegistryAuth | None, message: str) -> None:
    with pytest.raises(ImageError, match=message) as caught:
        _client(fake, auth).head_manifest("a", "x")
    assert "secret-word" not in str(caught.value)
    assert "secret-word" not in repr(auth)


@pytest.mark.parametrize("put", ["manifest", "tag"])
def test_a_blob_that_another_client_mounts_at_the_moment_is_waited_for(put: str) -> None:
    content = b'{"layers": []}'
    manifest = Manifest(digest=sha256_digest(content), media_type=OCI_MANIFEST, content=content)

    def write(registry: Registry) -> None:
        if put == "tag":
            registry.put_tag("a", "x", manifest)
        else:
            registry.put_manifest("a", "x", content, OCI_MANIFEST)

    transport = FakeRegistry(unlinked=2)
    write(_client(transport))
    assert transport.manifests["a", "x"] == (content, OCI_MANIFEST)
    with pytest.raises(ImageError, match="refused to write a:x: HTTP 400 DIGEST_INVALID MANIFEST_BLOB_UNKNOWN"):
        write(_client(FakeRegistry(unlinked=3)))


def test_blobs() -> None:
    fake = FakeRegistry()
    client = _client(fake)
    digest = client.upload_blob("a", b"content")
    client.upload_blob("a", b"content")
    assert [line.split()[0] for line in fake.log] == ["HEAD", "POST", "PUT", "HEAD"]
    assert client.get_blob("a", digest) == b"content"
    with pytest.raises(ImageError, match="sends an answer of more than 3 bytes"):
        client.get_blob("a", digest, limit=3)
    fake.blobs["a", digest] = b"changed"
    with pytest.raises(ImageError, match="is damaged: its contents have another digest"):
        client.get_blob("a", digest)


def _image(fake: FakeRegistry, repository: str, name: str) -> bytes:
    blobs = [f"{name} config".encode(), f"{name} layer".encode(), b"shared layer"]
    for blob in blobs:
        fake.blobs[repository, sha256_digest(blob)] = blob
    config, *layers = [{"digest": sha256_digest(blob), "size": len(blob)} for blob in blobs]
    foreign = {"digest": DIGEST, "size": 1, "urls": ["https://elsewhere.test"]}
    return json.dumps({"config": config, "layers": [*layers, foreign]}).encode()


def test_release_puts_the_same_bytes() -> None:
    fake = FakeRegistry()
    client = _client(fake)
    content = _image(fake, "r-candidate", "one")
    digest = client.put_manifest("r-candidate", "t", content, DOCKER_MANIFEST)

    manifest = read_back(client, "r-candidate", digest, sha256_digest(b"one config"))
    release(client, manifest, source="r-candidate", repository="r", tags=["v1", "v2"])

    assert {fake.manifests["r", tag] for tag in ("v1", "v2", digest)} == {(content, DOCKER_MANIFEST)}
    assert {d for place, d in fake.blobs if place == "r"} == {d for place, d in fake.blobs if place == "r-candidate"}
    assert manifest.layer_bytes == len(b"one layer") + len(b"shared layer") + 1


def test_a_registry_that_does_not_mount_is_named() -> None:
    with pytest.raises(ImageError, match="does not mount other@"):
        _client(FakeRegistry(mounts=False)).mount_blob("r", DIGEST, "other")


def test_another_image_than_the_engine_has() -> None:
    fake = FakeRegistry()
    client = _client(fake)
    digest = client.put_manifest("c", "t", _image(fake, "c", "one"), DOCKER_MANIFEST)
    with pytest.raises(ImageError, match=f"registry.test has another image as c@{digest}"):
        read_back(client, "c", digest, DIGEST)
    with pytest.raises(ImageError, match="does not have c@sha256:aaaa"):
        read_back(client, "c", DIGEST, DIGEST)
    fake.manifests["c", DIGEST] = (b"{}", OCI_MANIFEST)
    with pytest.raises(ImageError, match=r"answered with sha256:.* when asked for c@sha256:aaaa"):
        client.get_manifest("c", DIGEST)


def test_credentials_stay_with_the_registry() -> None:
    fake = FakeRegistry(basic=AUTH.basic)
    fake.upload_host = "https://uploads.test"
    client = _client(fake, AUTH)
    with pytest.raises(ImageError, match=r"refused to upload .*: HTTP 401"):
        client.upload_blob("a", b"x")
    assert fake.sent_to("uploads.test") == [None]


def _manifest(kind: str, digest: str) -> bytes:
    return json.dumps({"artifactType": kind, "layers": [{"digest": digest, "size": 1}]}).encode()


def test_corrupt_record_is_never_taken_for_tested() -> None:
    fake = FakeRegistry()
    client = _client(fake)
    tag = record_tag(DIGEST, KEY)
    other = json.dumps(dataclasses.asdict(dataclasses.replace(RECORD, key="d" * 64))).encode()
    for content, message in (
        (b"not json", "is not JSON"),
        (b"[]", "is a list where an object was expected"),
        (b"{}", "is not a test record but application/vnd.oci.image.manifest"),
        (json.dumps({"artifactType": RECORD_TYPE}).encode(), "is damaged: .* has 0 layers where a document has one"),
        (_manifest("application/x", DIGEST), "is not a test record but application/x"),
        (_manifest(RECORD_TYPE, DIGEST), "refused to read"),
        (_manifest(RECORD_TYPE, client.upload_blob("r", b"{}")), "is damaged: its format is None"),
        (_manifest(RECORD_TYPE, client.upload_blob("r", other)), "is about another image or other tests"),
    ):
        fake.manifests["r", tag] = (content, OCI_MANIFEST)
        with pytest.raises(ImageError, match=message):
            load_record(client, "r", DIGEST, KEY)
