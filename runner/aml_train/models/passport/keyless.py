"""Sign and check without keys: Sigstore certifies an identity for ten minutes.

The client is `sigstore` (https://github.com/sigstore/sigstore-python), an extra: with the libraries that it needs it has
about 60 MB. Certificate, log entry and their roots are checked by it; whose identity counts is decided here.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aml_train.core.errors import InvalidError, PassportError, ServiceError
from aml_train.models.passport.envelope import Bundle

if TYPE_CHECKING:
    from sigstore.models import ClientTrustConfig

INSTALL: Final = "pip install 'aml-train[sigstore]'"
#: What Sigstore's public instance expects as the audience of an identity token.
AUDIENCE: Final = "sigstore"
_ISSUER: Final = ("1.3.6.1.4.1.57264.1.8", "1.3.6.1.4.1.57264.1.1")
"""The issuer's extension of a certificate, and its first form (https://github.com/sigstore/fulcio/blob/main/docs/oid-info.md)."""


class UncheckableError(Exception):
    """A certificate cannot be checked here; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Identity:
    """The identity in a certificate."""

    subject: str
    issuer: str


@dataclass(frozen=True, kw_only=True)
class KeylessSigner:
    """Signs with a certificate for the identity of *token*.

    Attributes:
        token: fetches an identity token for an audience.
        trust: the client trust configuration of another instance than the public one.
    """

    token: Callable[[str], str] = field(repr=False)
    trust: Path | None = None

    @property
    def title(self) -> str:
        """See :class:`aml_train.models.passport.envelope.Signer`."""
        return "the identity of this workflow (Sigstore)"

    def check(self) -> None:
        """Raise InvalidError unless `sigstore` is installed; before anything is built."""
        try:
            import sigstore  # noqa: F401
        except ImportError:
            raise InvalidError("`passport.keyless` needs the package sigstore.", hint=INSTALL) from None

    def sign(self, payload: bytes) -> bytes:
        """See :class:`aml_train.models.passport.envelope.Signer`."""
        self.check()
        from sigstore.dsse import Statement
        from sigstore.oidc import IdentityError, IdentityToken
        from sigstore.sign import SigningContext

        try:
            context = SigningContext.from_trust_config(_trust_config(self.trust))
            with context.signer(IdentityToken(self.token(AUDIENCE))) as signer:
                bundle: str = signer.sign_dsse(Statement(payload)).to_json()
                return bundle.encode()
        except IdentityError as error:
            raise PassportError(
                f"Sigstore cannot use this workflow's identity token: {error}",
                hint="The job needs `permissions: {id-token: write}`.",
            ) from error
        except Exception as error:
            if isinstance(error, InvalidError | ServiceError):
                raise
            raise ServiceError(
                f"Sigstore did not sign: {type(error).__name__}: {error}",
                hint="Is it reachable? https://status.sigstore.dev. `aml-train attach` signs later.",
                transient=True,
            ) from error


@dataclass(frozen=True, kw_only=True)
class KeylessVerifier:
    """Checks bundles with a certificate, by the roots of *trust* or the public ones."""

    trust: Path | None = None

    def verify(self, bundle: Bundle) -> Identity | str:
        """Return whose signature it is, proved by certificate and log; else why it is not.

        Raises:
            UncheckableError: `sigstore` is not installed, or its roots cannot be fetched.
        """
        try:
            from sigstore.errors import Error
            from sigstore.models import Bundle as SigstoreBundle
            from sigstore.models import InvalidBundle
            from sigstore.verify import Verifier, policy
        except ImportError:
            raise UncheckableError(f"it has a certificate, and checking that needs: {INSTALL}") from None
        try:
            found = SigstoreBundle.from_json(bundle.content)
            verifier = Verifier(trusted_root=self._roots().trusted_root)
            _, payload = verifier.verify_dsse(found, policy.UnsafeNoOp())
        except (Error, InvalidBundle, ValueError) as error:
            return f"it does not hold: {error}"
        if payload != bundle.payload:
            return "it is a signature of other contents"
        return _identity(found.signing_certificate)

    def _roots(self) -> ClientTrustConfig:
        try:
            return _trust_config(self.trust)
        except InvalidError:
            raise
        except Exception as error:
            raise UncheckableError(f"the roots of Sigstore cannot be fetched: {type(error).__name__}") from error


# The public roots come over the network, and a verification checks several signatures.
@functools.lru_cache(maxsize=1)
def _trust_config(trust: Path | None) -> ClientTrustConfig:
    from sigstore.models import ClientTrustConfig

    if trust is None:
        return ClientTrustConfig.production()
    try:
        return ClientTrustConfig.from_json(trust.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidError(f"The trust configuration {trust} cannot be used: {error}") from error


def _identity(certificate: Any) -> Identity:

    from cryptography.x509 import ExtensionNotFound, ObjectIdentifier, SubjectAlternativeName

    names = certificate.extensions.get_extension_for_class(SubjectAlternativeName).value
    subject = next((str(one.value) for one in names), "")
    for oid in _ISSUER:
        with contextlib.suppress(ExtensionNotFound):
            raw = certificate.extensions.get_extension_for_oid(ObjectIdentifier(oid)).value.value
            return Identity(subject=subject, issuer=_text(raw, is_der=oid == _ISSUER[0]))
    return Identity(subject=subject, issuer="")


def _text(raw: bytes, *, is_der: bool) -> str:
    """Return an extension's text: a DER UTF8String, or the bytes themselves."""
    if not is_der:
        return raw.decode("utf-8", "replace")
    long = raw[1] - 0x80 if raw[1] > 0x80 else 0
    return raw[2 + long :].decode("utf-8", "replace")
