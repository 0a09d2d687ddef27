"""Keys in files: sign and check statements offline.

Elliptic curves as OpenSSF Model Signing and cosign take them: P-256, P-384, P-521. A private key is a PEM file (PKCS #8 or
SEC 1), or the text of one in an environment variable; the passphrase is in an environment variable. Neither is ever logged.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePrivateKey, EllipticCurvePublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from aml_train.core.errors import InvalidError
from aml_train.models.passport.envelope import Bundle, key_bundle, pae

_CURVES: Final = ("secp256r1", "secp384r1", "secp521r1")
_MAKE: Final = (
    "Make one: openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -aes-256-cbc -out signing.pem; "
    "its public part: openssl pkey -in signing.pem -pubout -out signing.pub"
)


@dataclass(frozen=True, kw_only=True)
class PublicKey:
    """A key that signatures are checked with; *name* is its file."""

    name: str
    key: EllipticCurvePublicKey = field(repr=False, compare=False)

    @property
    def hint(self) -> str:
        """The name of the key in a bundle: its PEM text's SHA-256 (``model_signing``)."""

        text = self.key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return hashlib.sha256(text).hexdigest()

    def verifies(self, bundle: Bundle) -> bool:
        """Return whether *bundle* was signed with this key."""

        try:
            self.key.verify(bundle.signature, bundle.signed, _algorithm(self.key))
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True, kw_only=True)
class KeySigner:
    """Signs with a private key."""

    name: str
    key: EllipticCurvePrivateKey = field(repr=False)

    @property
    def public(self) -> PublicKey:
        """The key's public part."""
        return PublicKey(name=self.name, key=self.key.public_key())

    @property
    def title(self) -> str:
        """See :class:`aml_train.models.passport.envelope.Signer`."""
        return f"the key {self.public.hint[:16]} ({self.name})"

    def sign(self, payload: bytes) -> bytes:
        """See :class:`aml_train.models.passport.envelope.Signer`."""
        public = self.public
        return key_bundle(payload, self.key.sign(pae(payload), _algorithm(public.key)), public.hint)


def load_signer(
    file: Path | None,
    variable: str | None,
    passphrase: str | None,
    *,
    environ: Mapping[str, str],
) -> KeySigner:
    """Load a private key.

    Args:
        file: the PEM file.
        variable: the environment variable that holds the PEM text, instead of *file*.
        passphrase: the environment variable that holds the passphrase; None for a key without one.

    Raises:
        InvalidError: it is missing, is no such key, or the passphrase is missing or wrong.
    """

    name = f"${variable}" if variable else str(file)
    secret = "" if passphrase is None else _variable(passphrase, environ, f"the passphrase of the signing key {name}")
    text = _read(file) if variable is None else _variable(variable, environ, "the signing key").encode()
    if b"ENCRYPTED SIGSTORE PRIVATE KEY" in text or b"ENCRYPTED COSIGN PRIVATE KEY" in text:
        raise InvalidError(f"The signing key {name} is in cosign's own format, which is not read.", hint=_MAKE)
    try:
        key = load_pem_private_key(text, password=secret.encode() or None)
    except (ValueError, TypeError) as error:
        # The library's words may quote a part of the text.
        why = "its passphrase is missing or wrong" if b"ENCRYPTED" in text else "it is no private key in PEM"
        raise InvalidError(
            f"The signing key {name} cannot be used: {why} ({type(error).__name__}).", hint=_MAKE
        ) from None
    if not isinstance(key, EllipticCurvePrivateKey) or key.curve.name not in _CURVES:
        raise InvalidError(f"The signing key {name} is not of one of the curves {', '.join(_CURVES)}.", hint=_MAKE)
    return KeySigner(name=name, key=key)


def _variable(name: str, environ: Mapping[str, str], what: str) -> str:
    """Return the value of a variable that holds *what*."""
    if not (value := environ.get(name, "")):
        raise InvalidError(
            f"The environment variable {name} is not set: it holds {what}.",
            hint="In a workflow: env: {…: ${{ secrets.… }}}.",
        )
    return value


def load_public_key(file: Path) -> PublicKey:
    """Load a public key (PEM).

    Raises:
        InvalidError: it is missing, or is no such key.
    """

    try:
        key = load_pem_public_key(_read(file))
    except (ValueError, UnsupportedAlgorithm) as error:
        raise InvalidError(f"{file} is no public key in PEM ({type(error).__name__}).", hint=_MAKE) from None
    if not isinstance(key, EllipticCurvePublicKey) or key.curve.name not in _CURVES:
        raise InvalidError(f"The public key {file} is not of one of the curves {', '.join(_CURVES)}.", hint=_MAKE)
    return PublicKey(name=str(file), key=key)


def _read(file: Path | None) -> bytes:
    try:
        return Path(str(file)).read_bytes()
    except OSError as error:
        raise InvalidError(f"The key {file} cannot be read: {error.strerror}.", hint=_MAKE) from error


def _algorithm(key: EllipticCurvePublicKey) -> ECDSA:
    """Return the signature's algorithm: the hash is as long as the curve."""

    long = {"secp384r1": hashes.SHA384, "secp521r1": hashes.SHA512}
    return ECDSA(long.get(key.curve.name, hashes.SHA256)())
