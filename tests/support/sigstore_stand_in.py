"""Sigstore in memory: Fulcio, its certificate log, and Rekor, behind requests' transport.

Certificates, their time stamps and log entries are made as the services make them, with keys that a client trust configuration of
this stand-in names. The client is the unmodified `sigstore`, which verifies all of it.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import io
import json
import struct
import time
from pathlib import Path
from typing import Any, Final

import requests
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

URL: Final = "https://sigstore.test"
ISSUER: Final = "https://token.actions.githubusercontent.com"
SUBJECT: Final = "https://github.com/o/r/.github/workflows/train.yml@refs/heads/main"
_SCTS: Final = x509.ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")
_ISSUER_OLD: Final = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.1")
_ISSUER_NEW: Final = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.8")
_START: Final = "2020-01-01T00:00:00Z"


def identity_token(subject: str = SUBJECT, audience: str = "sigstore") -> str:
    """Return an identity token, as GitHub issues them; its signature is the service's to check."""
    now = int(time.time())
    claims = {
        "iss": ISSUER,
        "sub": "repo:o/r",
        "aud": audience,
        "iat": now,
        "exp": now + 600,
        "job_workflow_ref": subject,
    }
    parts = [{"alg": "RS256", "typ": "JWT"}, claims]
    return ".".join([*(_url64(json.dumps(part).encode()) for part in parts), _url64(b"signature")])


class SigstoreStandIn:
    """The services; *down* is the service that answers with 503."""

    def __init__(self) -> None:
        self.ca, self.ct, self.rekor = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
        self.root = self._root()
        self.down = ""
        self.requests: list[str] = []

    def send(self, _adapter: object, request: requests.PreparedRequest, **_options: Any) -> requests.Response:
        """Answer a request in place of :meth:`requests.adapters.HTTPAdapter.send`."""
        path = str(request.url).removeprefix(URL)
        self.requests.append(path)
        body = json.loads(request.body or b"{}")
        response = requests.Response()
        response.request, response.url = request, str(request.url)
        response.status_code = 503 if self.down and self.down in path else 201
        if path == "/api/v2/signingCert":
            answer = self._certificate(body, request.headers["Authorization"].removeprefix("Bearer "))
        else:
            assert path == "/api/v1/log/entries", path
            answer = self._entry(body)
        response.raw = io.BytesIO(json.dumps(answer).encode())
        return response

    def trust_config(self, folder: Path) -> Path:
        """Write the client trust configuration; return its file."""

        def log(key: ec.EllipticCurvePrivateKey) -> dict[str, Any]:
            public = {
                "rawBytes": _64(_spki(key)),
                "keyDetails": "PKIX_ECDSA_P256_SHA_256",
                "validFor": {"start": _START},
            }
            key_id = {"keyId": _64(hashlib.sha256(_spki(key)).digest())}
            return {"baseUrl": URL, "hashAlgorithm": "SHA2_256", "publicKey": public, "logId": key_id}

        def service(version: int) -> list[dict[str, Any]]:
            return [{"url": URL, "majorApiVersion": version, "validFor": {"start": _START}, "operator": "test"}]

        authority = {
            "subject": {"organization": "test", "commonName": "test"},
            "uri": URL,
            "certChain": {"certificates": [{"rawBytes": _64(self.root.public_bytes(Encoding.DER))}]},
            "validFor": {"start": _START},
        }
        config = {
            "mediaType": "application/vnd.dev.sigstore.clienttrustconfig.v0.1+json",
            "trustedRoot": {
                "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
                "tlogs": [log(self.rekor)],
                "certificateAuthorities": [authority],
                "ctlogs": [log(self.ct)],
                "timestampAuthorities": [],
            },
            "signingConfig": {
                "mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json",
                "caUrls": service(1),
                "oidcUrls": service(1),
                "rekorTlogUrls": service(1),
                "rekorTlogConfig": {"selector": "ANY"},
                "tsaUrls": [],
                "tsaConfig": {"selector": "ANY"},
            },
        }
        file = folder / "trust.json"
        file.write_text(json.dumps(config))
        return file

    def _root(self) -> x509.Certificate:
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "stand-in")])
        now = datetime.datetime.now(datetime.UTC)
        key = self.ca.public_key()
        return (
            x509.CertificateBuilder(name, name, key, x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(sign_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .sign(self.ca, hashes.SHA256())
        )

    def _certificate(self, body: dict[str, Any], token: str) -> dict[str, Any]:
        """Certify the identity of *token*, with the time stamp of the certificate log."""
        claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
        request = x509.load_pem_x509_csr(base64.b64decode(body["certificateSigningRequest"]))
        key = request.public_key()
        assert isinstance(key, ec.EllipticCurvePublicKey)
        now = datetime.datetime.now(datetime.UTC)
        name = x509.UniformResourceIdentifier(claims["job_workflow_ref"])
        issuer = claims["iss"].encode()
        builder = (
            x509.CertificateBuilder(self.root.subject, x509.Name([]), key, x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(seconds=30))
            .not_valid_after(now + datetime.timedelta(minutes=10))
            .add_extension(x509.SubjectAlternativeName([name]), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]), critical=False)
            .add_extension(_usage(sign_certificates=False), critical=True)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.ca.public_key()), critical=False)
            .add_extension(x509.UnrecognizedExtension(_ISSUER_OLD, issuer), critical=False)
            .add_extension(
                x509.UnrecognizedExtension(_ISSUER_NEW, bytes([0x0C, len(issuer)]) + issuer), critical=False
            )
        )
        before = builder.sign(self.ca, hashes.SHA256())
        scts = x509.UnrecognizedExtension(_SCTS, self._time_stamps(before.tbs_certificate_bytes))
        leaf = builder.add_extension(scts, critical=False).sign(self.ca, hashes.SHA256())
        chain = [one.public_bytes(Encoding.PEM).decode() for one in (leaf, self.root)]
        return {"signedCertificateEmbeddedSct": {"chain": {"certificates": chain}}}

    def _time_stamps(self, tbs: bytes) -> bytes:
        """Return the list of one signed time stamp (RFC 6962, 3.2 and 3.3), as an extension's value."""
        at = int(time.time() * 1000)
        entry = hashlib.sha256(_spki(self.ca)).digest() + struct.pack("!I", len(tbs))[1:] + tbs
        signed = struct.pack("!BBQH", 0, 0, at, 1) + entry + struct.pack("!H", 0)
        signature = self.ct.sign(signed, ec.ECDSA(hashes.SHA256()))
        log = hashlib.sha256(_spki(self.ct)).digest()
        stamp = b"\0" + log + struct.pack("!QH", at, 0) + struct.pack("!BBH", 4, 3, len(signature)) + signature
        stamps = struct.pack("!HH", len(stamp) + 2, len(stamp)) + stamp
        return bytes([0x04, len(stamps)]) + stamps

    def _entry(self, body: dict[str, Any]) -> dict[str, Any]:
        """Enter a DSSE envelope into a log of one entry (https://github.com/sigstore/rekor, types/dsse, 0.0.1)."""
        proposed = body["spec"]["proposedContent"]
        envelope = json.loads(proposed["envelope"])
        entry = {
            "apiVersion": "0.0.1",
            "kind": "dsse",
            "spec": {
                "envelopeHash": _sha256(proposed["envelope"].encode()),
                "payloadHash": _sha256(base64.b64decode(envelope["payload"])),
                "signatures": [
                    {"signature": one["sig"], "verifier": proposed["verifiers"][0]} for one in envelope["signatures"]
                ],
            },
        }
        content = _canonical(entry)
        at, log = int(time.time()), hashlib.sha256(_spki(self.rekor)).digest()
        root = hashlib.sha256(b"\0" + content).digest()
        note = f"stand-in\n1\n{_64(root)}\n"
        signature = log[:4] + self.rekor.sign(note.encode(), ec.ECDSA(hashes.SHA256()))
        promise = _canonical({"body": _64(content), "integratedTime": at, "logID": log.hex(), "logIndex": 0})
        proof = {
            "logIndex": 0,
            "rootHash": root.hex(),
            "treeSize": 1,
            "hashes": [],
            "checkpoint": f"{note}\n\u2014 stand-in {_64(signature)}\n",
        }
        verification = {
            "inclusionProof": proof,
            "signedEntryTimestamp": _64(self.rekor.sign(promise, ec.ECDSA(hashes.SHA256()))),
        }
        found = {
            "body": _64(content),
            "integratedTime": at,
            "logID": log.hex(),
            "logIndex": 0,
            "verification": verification,
        }
        return {root.hex(): found}


def _usage(*, sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not sign_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=sign_certificates,
        crl_sign=sign_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _spki(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _sha256(content: bytes) -> dict[str, str]:
    return {"algorithm": "sha256", "value": hashlib.sha256(content).hexdigest()}


def _64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _url64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
