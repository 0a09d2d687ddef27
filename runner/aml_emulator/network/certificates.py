"""The private certificate authority, and the certificate with Azure's host names.

The authority is created once and stored (key mode 0600); clients trust it. The server certificate is issued again
at every start. Extensions are those that RFC 5280 demands and that Python 3.13 checks by default.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from aml_emulator.reading import write_private

CA_LIFETIME = timedelta(days=3650)
SERVER_LIFETIME = timedelta(days=397)
CLOCK_SKEW = timedelta(hours=1)

SERVER_NAMES = (
    "management.azure.com",
    "login.microsoftonline.com",
    "login.windows.net",
    "sts.windows.net",
    "ml.azure.com",
    "*.api.azureml.ms",
    "api.azureml.ms",
    "*.experiments.azureml.net",
    "*.blob.core.windows.net",
    "*.azurecr.io",
    "localhost",
)


@dataclass(frozen=True, kw_only=True)
class Certificates:
    """Paths of the PEM files, and the authority's certificate itself."""

    ca_file: Path
    server_cert: Path
    server_key: Path
    ca_pem: str


def prepare_certificates(folder: Path, *, now: datetime | None = None) -> Certificates:
    """Return certificates in *folder*: the stored authority's, and a new server's.

    The authority is new if absent or near its end.

    Args:
        folder: created if absent, mode 0700.
        now: the present time, aware; the clock's if None.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    moment = now or datetime.now(UTC)
    ca_file, ca_key_file = folder / "ca.pem", folder / "ca.key"
    authority = _load_authority(ca_file, ca_key_file)
    if authority is None or authority[0].not_valid_after_utc - moment < SERVER_LIFETIME:
        authority = _new_authority(moment)
        write_private(ca_key_file, _key_pem(authority[1]))
        ca_file.write_bytes(authority[0].public_bytes(serialization.Encoding.PEM))
    certificate, key = _new_server(authority[0], authority[1], moment)
    server_cert, server_key = folder / "server.pem", folder / "server.key"
    write_private(server_key, _key_pem(key))
    server_cert.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return Certificates(
        ca_file=ca_file,
        server_cert=server_cert,
        server_key=server_key,
        ca_pem=authority[0].public_bytes(serialization.Encoding.PEM).decode("ascii"),
    )


def _load_authority(ca_file: Path, key_file: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey] | None:
    if not (ca_file.exists() and key_file.exists()):
        return None
    key = serialization.load_pem_private_key(key_file.read_bytes(), password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TypeError(f"{key_file} does not hold an elliptic-curve key; remove it to have a new authority made")
    return x509.load_pem_x509_certificate(ca_file.read_bytes()), key


def _new_authority(now: datetime) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Local AzureML emulator CA")])
    certificate = (
        _builder(name, name, key.public_key(), now, CA_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return certificate, key


def _new_server(
    ca: x509.Certificate, ca_key: ec.EllipticCurvePrivateKey, now: datetime
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Local AzureML emulator")])
    names: list[x509.GeneralName] = [x509.DNSName(host) for host in SERVER_NAMES]
    names.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
    certificate = (
        _builder(name, ca.subject, key.public_key(), now, SERVER_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    return certificate, key


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, lifetime: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + lifetime)
    )


def _usage(*, certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=certificates,
        crl_sign=certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
