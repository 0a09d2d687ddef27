"""Signed statements: DSSE envelopes in Sigstore bundles of version 0.3.

DSSE: https://github.com/secure-systems-lab/dsse/blob/v1.0.2/protocol.md. Bundle:
https://github.com/sigstore/protobuf-specs/blob/main/protos/sigstore_bundle.proto, as JSON. The same file is read by
``model_signing``, cosign and the libraries of Sigstore.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from aml_train.core.answers import Answer, UndecodableError, decode

BUNDLE: Final = "application/vnd.dev.sigstore.bundle.v0.3+json"
IN_TOTO: Final = "application/vnd.in-toto+json"
#: The members that a bundle of one envelope has. Others would be neither signed nor checked.
_MEMBERS: Final[Mapping[str, frozenset[str]]] = {
    "": frozenset({"mediaType", "verificationMaterial", "dsseEnvelope"}),
    "verificationMaterial": frozenset({"publicKey", "certificate", "tlogEntries", "timestampVerificationData"}),
    "dsseEnvelope": frozenset({"payload", "payloadType", "signatures"}),
}
_OF_SIGNATURE: Final = frozenset({"sig", "keyid"})


class Signer(Protocol):
    """Signs statements."""

    @property
    def title(self) -> str:
        """Who signs, for people."""

    def sign(self, payload: bytes) -> bytes:
        """Return the bundle of the in-toto statement *payload*.

        Raises:
            PassportError: it cannot be signed.
        """


class BadBundleError(ValueError):
    """A bundle that cannot be used; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """A bundle whose signature was not checked yet.

    Attributes:
        content: the bundle, byte for byte.
        payload: the signed bytes.
        signature: over the pre-authentication encoding of *payload*.
        key_hint: names the public key; None for a certificate.
        certificate: the signer's, DER; None for a key.
    """

    content: bytes = field(repr=False)
    payload: bytes = field(repr=False)
    signature: bytes = field(repr=False)
    key_hint: str | None
    certificate: bytes | None = field(default=None, repr=False)

    @property
    def digest(self) -> str:
        """The SHA-256 of the bundle, hexadecimal."""
        return hashlib.sha256(self.content).hexdigest()

    @property
    def signed(self) -> bytes:
        """The bytes that the signature covers."""
        return pae(self.payload)

    @property
    def statement(self) -> Answer:
        """The statement, whose members are read with their types checked."""
        try:
            return Answer(
                decode(self.payload, unique=True), lambda problem: BadBundleError(f"its statement {problem}")
            )
        except UndecodableError as error:
            raise BadBundleError(f"its statement {error}") from error


def pae(payload: bytes) -> bytes:
    """Return the pre-authentication encoding of an in-toto statement."""
    return b"DSSEv1 %d %s %d %s" % (len(IN_TOTO), IN_TOTO.encode(), len(payload), payload)


def encode_statement(statement: Mapping[str, Any]) -> bytes:
    """Return a statement as the bytes that are signed."""
    return json.dumps(statement, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def key_bundle(payload: bytes, signature: bytes, hint: str) -> bytes:
    """Return the bundle of a signature by a key that *hint* names."""
    bundle = {
        "mediaType": BUNDLE,
        "verificationMaterial": {"publicKey": {"hint": hint}, "tlogEntries": []},
        "dsseEnvelope": {
            "payload": base64.b64encode(payload).decode(),
            "payloadType": IN_TOTO,
            "signatures": [{"sig": base64.b64encode(signature).decode(), "keyid": ""}],
        },
    }
    return json.dumps(bundle, separators=(",", ":")).encode()


def read_bundle(content: bytes) -> Bundle:
    """Parse a bundle; check its form, and no signature.

    Raises:
        BadBundleError: it is no bundle of one signed in-toto statement.
    """
    try:
        document = Answer(decode(content, unique=True), lambda problem: BadBundleError(f"it {problem}"))
    except UndecodableError as error:
        raise BadBundleError(f"it {error}") from error
    if (kind := document.optional_text("mediaType")) != BUNDLE:
        raise BadBundleError(f"its type is {(kind or 'missing')[:100]}, and not {BUNDLE}")
    for place, members in _MEMBERS.items():
        _check_members(document.at(place) if place else document, members)
    envelope = document.at("dsseEnvelope")
    if envelope.optional_text("payloadType") != IN_TOTO:
        raise BadBundleError("it holds no in-toto statement")
    signatures = list(envelope.each("signatures"))
    if len(signatures) != 1:
        raise BadBundleError(f"it has {len(signatures)} signatures, and not one")
    _check_members(signatures[0], _OF_SIGNATURE)
    certificate = document.optional_text("verificationMaterial.certificate.rawBytes")
    hint = document.optional_text("verificationMaterial.publicKey.hint")
    if (certificate is None) == (hint is None):
        raise BadBundleError("it names neither a key nor a certificate, or both")
    material = document.mapping("verificationMaterial")
    if hint is not None and (material.get("tlogEntries") or material.get("timestampVerificationData")):
        raise BadBundleError("it is signed by a key, and has entries of a log, which nothing here checks")
    return Bundle(
        content=content,
        payload=_binary(envelope.text("payload")),
        signature=_binary(signatures[0].text("sig")),
        key_hint=hint,
        certificate=_binary(certificate) if certificate is not None else None,
    )


def _check_members(part: Answer, known: frozenset[str]) -> None:
    """Raise BadBundleError if *part* has members that no signature covers."""
    if unknown := sorted(part.mapping().keys() - known):
        raise BadBundleError(f"it has the member {unknown[0][:40]!r}, which no signature covers")


def _binary(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadBundleError("a part of it is not base64") from error
