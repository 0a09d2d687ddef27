"""Check a bundle's signature: whose it is, and whether the policy lets it count."""

from __future__ import annotations

import re
from dataclasses import dataclass

from aml_train.config.policy import IdentityConfig, PolicyConfig
from aml_train.models.passport.envelope import Bundle
from aml_train.models.passport.keyless import KeylessVerifier, UncheckableError
from aml_train.models.passport.keys import PublicKey, load_public_key


@dataclass(frozen=True, kw_only=True)
class Signature:
    """The result of checking a signature.

    Attributes:
        signer: who signed, if that was proved and the policy lets it count; else None.
        detail: who, or why not.
        refused: whether the signature is wrong or another's; False if it could not be checked.
    """

    signer: str | None = None
    detail: str
    refused: bool = False


@dataclass(frozen=True, kw_only=True)
class Trust:
    """Whose signatures count; made from a policy by :func:`load_trust`."""

    keys: tuple[PublicKey, ...] = ()
    identities: tuple[IdentityConfig, ...] = ()
    verifier: KeylessVerifier | None = None

    def check(self, bundle: Bundle) -> Signature:
        """Check the signature of *bundle*."""
        return self._by_key(bundle) if bundle.certificate is None else self._by_identity(bundle)

    def _by_key(self, bundle: Bundle) -> Signature:
        for key in self.keys:
            if key.hint == bundle.key_hint:
                if key.verifies(bundle):
                    return Signature(signer=f"the key {key.hint[:16]} ({key.name})", detail=f"by the key {key.name}")
                return Signature(detail=f"it does not fit its contents and the key {key.name}", refused=True)
        detail = f"it names the key {(bundle.key_hint or '')[:16]}, which the policy does not"
        return Signature(detail=detail, refused=True)

    def _by_identity(self, bundle: Bundle) -> Signature:
        if not self.identities:
            return Signature(detail="it has a certificate, and the policy names no identities", refused=True)
        if self.verifier is None:
            raise ValueError("identities need a verifier")
        try:
            found = self.verifier.verify(bundle)
        except UncheckableError as error:
            return Signature(detail=str(error))
        if isinstance(found, str):
            return Signature(detail=found, refused=True)
        for one in self.identities:
            if one.issuer == found.issuer and _matches(one.subject, found.subject):
                return Signature(signer=found.subject, detail=f"by {found.subject}, certified for {found.issuer}")
        detail = f"it is by {found.subject} of {found.issuer}, which the policy does not name"
        return Signature(detail=detail, refused=True)


def load_trust(policy: PolicyConfig) -> Trust:
    """Read the keys of a policy.

    Raises:
        InvalidError: a key cannot be read.
    """
    verifier = KeylessVerifier(trust=policy.trust) if policy.identities else None
    return Trust(
        keys=tuple(load_public_key(file) for file in policy.keys), identities=policy.identities, verifier=verifier
    )


def _matches(pattern: str, subject: str) -> bool:
    """Return whether *subject* is *pattern*, in which ``*`` stands for any characters."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), subject, re.DOTALL) is not None
