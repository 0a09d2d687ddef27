"""A project whose models are signed with a key of its own."""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    PublicFormat,
)


def write_signing_project(folder: Path, configuration: str) -> None:
    """Write a project with code, a key with the password ``sesame``, and a policy that trusts it alone."""
    key = ec.generate_private_key(ec.SECP256R1())
    secret = BestAvailableEncryption(b"sesame")
    (folder / "signing.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, secret))
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (folder / "signing.pub").write_bytes(public)
    (folder / "policy.yml").write_text("keys: [signing.pub]\nrequire: [signature, provenance, tests]\n")
    (folder / "aml-train.yml").write_text(configuration)
    (folder / "code").mkdir()
    (folder / "code" / "train.py").write_text("print('training')\n")
