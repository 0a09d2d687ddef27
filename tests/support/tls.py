"""Certificates of a server and its clients, by an authority that exists for one test."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAY: Final = datetime.timedelta(days=1)


class Authority:
    """Issues certificates."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named("the test's authority")
        self.certificate = (
            _builder(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self._key, hashes.SHA256())
        )

    def write(self, folder: Path, *, address: str | None = None) -> None:
        """Write ca.pem, cert.pem and key.pem, by Docker's names.

        Args:
            folder: is made.
            address: of a server; None for a client.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        usage = ExtendedKeyUsageOID.CLIENT_AUTH if address is None else ExtendedKeyUsageOID.SERVER_AUTH
        made = _builder(_named("client" if address is None else "server"), self._name, key.public_key())
        made = made.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if address is not None:
            names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
            made = made.add_extension(names, critical=False)
        certificate = made.sign(self._key, hashes.SHA256())
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "ca.pem").write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))
        (folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        (folder / "key.pem").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )


def _named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + _DAY)
    )
