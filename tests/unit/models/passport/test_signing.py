"""Keys, envelopes, manifests and signatures: what is signed, and what is refused without a word of the key."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from aml_train.core.answers import Answer
from aml_train.core.errors import InvalidError
from aml_train.models.catalogue import StoredFile
from aml_train.models.passport.envelope import BadBundleError, encode_statement, read_bundle
from aml_train.models.passport.keys import load_public_key, load_signer
from aml_train.models.passport.manifest import FileManifest, hash_files, read_manifest
from aml_train.models.passport.trust import _matches
from tests.support.passport_world import new_signer

STATEMENT = {"_type": "https://in-toto.io/Statement/v1", "subject": [], "predicateType": "x", "predicate": {}}


def _pem(key: Any, secret: bytes | None = None) -> bytes:
    kind: KeySerializationEncryption = BestAvailableEncryption(secret) if secret else NoEncryption()
    text: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, kind)
    return text


@pytest.mark.parametrize("curve", [ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()])
def test_a_key_signs_and_its_public_part_verifies(curve: ec.EllipticCurve, tmp_path: Path) -> None:
    key = ec.generate_private_key(curve)
    (tmp_path / "k.pem").write_bytes(_pem(key, b"sesame"))
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "k.pub").write_bytes(public)
    signer = load_signer(tmp_path / "k.pem", None, "PASS", environ={"PASS": "sesame"})
    bundle = read_bundle(signer.sign(encode_statement(STATEMENT)))
    checked = load_public_key(tmp_path / "k.pub")
    assert checked.verifies(bundle)
    assert bundle.key_hint == checked.hint == hashlib.sha256(public).hexdigest()
    assert not new_signer().public.verifies(bundle)
    assert bundle.statement.text("predicateType") == "x"


def test_a_key_of_a_variable_signs() -> None:
    text = _pem(ec.generate_private_key(ec.SECP256R1())).decode()
    signer = load_signer(None, "KEY", None, environ={"KEY": text})
    assert "BEGIN" not in f"{signer!r}{signer.title}"
    assert signer.title.endswith("($KEY)")


@pytest.mark.parametrize(
    ("content", "environ", "reason"),
    [
        (None, {}, "cannot be read: No such file"),
        (b"-----", {}, "it is no private key in PEM"),
        (_pem(ed25519.Ed25519PrivateKey.generate()), {}, "is not of one of the curves secp256r1"),
        (_pem(ec.generate_private_key(ec.SECP256K1())), {}, "is not of one of the curves secp256r1"),
        (_pem(ec.generate_private_key(ec.SECP256R1()), b"sesame"), {}, "passphrase is missing or wrong"),
        (b"-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----", {}, "is in cosign's own format"),
    ],
)
def test_a_key_that_cannot_be_used(
    content: bytes | None, environ: dict[str, str], reason: str, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / "k.pem").write_bytes(content)
    with pytest.raises(InvalidError, match=reason) as error:
        load_signer(tmp_path / "k.pem", None, None, environ=environ)
    assert "openssl genpkey" in (error.value.hint or "")


@pytest.mark.parametrize("secret", ["", "wrong"])
def test_a_passphrase_that_is_missing_or_wrong_is_never_shown(secret: str, tmp_path: Path) -> None:
    (tmp_path / "k.pem").write_bytes(_pem(ec.generate_private_key(ec.SECP256R1()), b"sesame"))
    with pytest.raises(InvalidError, match=r"is not set|missing or wrong") as error:
        load_signer(tmp_path / "k.pem", None, "PASS", environ={"PASS": secret})
    assert "wrong (" in str(error.value) or not secret
    assert error.value.__suppress_context__ or not secret
    with pytest.raises(InvalidError, match="KEY is not set"):
        load_signer(None, "KEY", None, environ={})


def test_a_public_key_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "k.pub").write_bytes(b"?")
    with pytest.raises(InvalidError, match="is no public key in PEM"):
        load_public_key(tmp_path / "k.pub")
    key = ed25519.Ed25519PrivateKey.generate().public_key()
    (tmp_path / "k.pub").write_bytes(key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    with pytest.raises(InvalidError, match="is not of one of the curves"):
        load_public_key(tmp_path / "k.pub")


def _changed(**changes: Any) -> bytes:
    bundle = json.loads(new_signer().sign(encode_statement(STATEMENT)))
    for path, value in changes.items():
        *keys, last = path.split("__")
        place = bundle
        for key in keys:
            place = place[key]
        place[last] = value
    return json.dumps(bundle).encode()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is empty"),
        (b"[]", "it is a list where an object was expected"),
        (_changed(mediaType="application/x"), "its type is application/x"),
        (_changed(dsseEnvelope__payloadType="text/plain"), "it holds no in-toto statement"),
        (_changed(dsseEnvelope__signatures=[]), "it has 0 signatures"),
        (_changed(dsseEnvelope__payload="???"), "is not base64"),
        (_changed(verificationMaterial={}), "names neither a key nor a certificate"),
        (_changed(dsseEnvelope__payload=base64.b64encode(b"x").decode()), "its statement is not JSON"),
    ],
)
def test_a_bundle_that_is_none(content: bytes, reason: str) -> None:
    with pytest.raises(BadBundleError, match=reason):
        read_bundle(content).statement.text("_type")


def test_the_manifest_of_files() -> None:
    def file(path: str, content: bytes) -> StoredFile:
        return StoredFile(path=path, size=len(content), read=lambda: iter([content[:1], content[1:]]))

    manifest = hash_files([file("b", b"two"), file("a/z", b"one"), file("a-", b"")])
    assert list(manifest.digests) == ["a/z", "a-", "b"]
    assert manifest.digests["b"] == hashlib.sha256(b"two").hexdigest()
    assert manifest.size == 6
    assert read_manifest(Answer(manifest.statement("m"), ValueError), "m") == FileManifest(digests=manifest.digests)
    other = hash_files([file("b", b"TWO"), file("c", b"")])
    assert manifest.difference(other) == "changed: b; missing: a/z, a-; not signed: c"
    renamed = FileManifest(digests={"x": manifest.digests["b"]})
    single = FileManifest(digests={"b": manifest.digests["b"]})
    assert (renamed.root, renamed.listing != single.listing) == (single.root, True)


def test_a_name_cannot_look_like_another_file() -> None:
    one, two = hashlib.sha256(b"1").hexdigest(), hashlib.sha256(b"2").hexdigest()
    forged = FileManifest(digests={f"a\n{two}  b": one})
    assert forged.listing != FileManifest(digests={"a": one, "b": two}).listing
    # As sha256sum of coreutils writes it.
    line = f"\\{one}  a\\nb\\\\c\n".encode()
    assert FileManifest(digests={"a\nb\\c": one}).listing == hashlib.sha256(line).hexdigest()


def test_a_file_of_the_model_is_never_left_out_as_a_signature() -> None:
    digest = hashlib.sha256(b"1").hexdigest()
    assert FileManifest(digests={"a": digest}).serialization["ignore_paths"] == ["model.sig"]
    assert FileManifest(digests={"model.sig": digest}).serialization["ignore_paths"] == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"predicateType": "x"}, "its predicate is not"),
        ({"subject": []}, "do not give the digest of its subject"),
        ({"predicate": {"resources": [{"name": "a", "algorithm": "md5", "digest": "0"}]}}, "and not of SHA-256"),
    ],
)
def test_a_manifest_that_is_none(change: dict[str, Any], reason: str) -> None:
    statement = FileManifest(digests={"a": "0" * 64}).statement("m")
    with pytest.raises(ValueError, match=reason):
        read_manifest(Answer({**statement, **change}, ValueError), "m")


@pytest.mark.parametrize(
    ("pattern", "subject", "found"),
    [
        ("https://g/o/r/w.yml@refs/heads/main", "https://g/o/r/w.yml@refs/heads/main", True),
        ("https://g/o/*@refs/tags/v*", "https://g/o/r/w.yml@refs/tags/v1", True),
        ("https://g/o/r", "https://g/o/r/evil", False),
        ("https://g.o/r", "https://gxo/r", False),
        ("*", "anything", True),
    ],
)
def test_a_subject_of_a_policy(pattern: str, subject: str, found: bool) -> None:
    assert _matches(pattern, subject) is found
