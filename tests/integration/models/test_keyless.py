"""Signatures without keys: by the unmodified client of Sigstore, against a stand-in of its services."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import requests

from aml_train.config.policy import IdentityConfig, PolicyConfig
from aml_train.core.errors import InvalidError, PassportError, ServiceError
from aml_train.models.passport.issue import PASSPORT_FILE
from aml_train.models.passport.keyless import KeylessSigner
from aml_train.models.passport.trust import load_trust
from tests.support.passport_world import PassportWorld
from tests.support.sigstore_stand_in import ISSUER, SUBJECT, SigstoreStandIn, identity_token

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def sigstore(monkeypatch: pytest.MonkeyPatch) -> SigstoreStandIn:
    stand_in = SigstoreStandIn()
    monkeypatch.setattr(requests.adapters.HTTPAdapter, "send", lambda *args, **more: stand_in.send(*args, **more))
    return stand_in


def signer(sigstore: SigstoreStandIn, folder: Path, subject: str = SUBJECT) -> KeylessSigner:
    return KeylessSigner(
        token=lambda audience: identity_token(subject, audience), trust=sigstore.trust_config(folder)
    )


def world(sigstore: SigstoreStandIn, folder: Path, subject: str = SUBJECT, issuer: str = ISSUER) -> PassportWorld:
    """Return a world whose model was signed by the identity of main's workflow; *subject* and *issuer* count."""
    found = PassportWorld()
    found.sign_by(signer(sigstore, folder))
    policy = PolicyConfig(
        identities=(IdentityConfig(issuer=issuer, subject=subject),), trust=sigstore.trust_config(folder)
    )
    found.trust = load_trust(policy)
    return found


@pytest.mark.parametrize("subject", [SUBJECT, "https://github.com/o/r/*@refs/heads/main"])
def test_an_identity_of_the_policy_counts(sigstore: SigstoreStandIn, tmp_path: Path, subject: str) -> None:
    found = world(sigstore, tmp_path, subject).verify()
    assert found.faults(("signature", "provenance", "tests")) == ()
    assert found.signer == SUBJECT
    assert sigstore.requests.count("/api/v2/signingCert") == 2  # for the files, and for the passport


@pytest.mark.parametrize(
    ("subject", "issuer"),
    [
        ("https://github.com/o/r/.github/workflows/train.yml@refs/heads/evil", ISSUER),
        (SUBJECT, "https://accounts.test"),
    ],
)
def test_another_identity_is_refused(sigstore: SigstoreStandIn, tmp_path: Path, subject: str, issuer: str) -> None:
    (fault, *_) = world(sigstore, tmp_path, subject, issuer).verify().faults()
    assert fault == f"signature: it is by {SUBJECT} of {ISSUER}, which the policy does not name"


def test_a_certificate_of_other_services_is_refused(
    sigstore: SigstoreStandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = world(sigstore, tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    policy = PolicyConfig(
        identities=(IdentityConfig(issuer=ISSUER, subject=SUBJECT),), trust=SigstoreStandIn().trust_config(other)
    )
    found.trust = load_trust(policy)
    (fault, *_) = found.verify().faults()
    assert fault.startswith("signature: it does not hold: ")


def test_contents_that_were_changed_are_refused(sigstore: SigstoreStandIn, tmp_path: Path) -> None:
    from tests.support.passport_bundles import restate, setting

    found = world(sigstore, tmp_path)
    restate(found, setting("source", "branch", value="evil"))
    (fault, *_) = found.verify().faults()
    assert fault.startswith("signature: it does not hold: ")


def test_a_key_is_no_identity_and_an_identity_no_key(sigstore: SigstoreStandIn, tmp_path: Path) -> None:
    found = world(sigstore, tmp_path)
    by_identity = found.trust
    found.trust = load_trust(found.policy_file(tmp_path))
    assert "it has a certificate, and the policy names no identities" in found.verify().faults()[0]
    found.issue()
    found.trust = by_identity
    assert "which the policy does not" in found.verify().faults()[0]


def test_without_the_extra_the_command_that_installs_it_is_named(
    sigstore: SigstoreStandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = world(sigstore, tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == "sigstore"]:
        monkeypatch.setitem(sys.modules, name, None)
    (fault, *_) = found.verify().faults(("signature",))
    assert "signature is required, and is only unknown" in fault
    assert "pip install 'aml-train[sigstore]'" in fault
    with pytest.raises(InvalidError, match="needs the package sigstore"):
        signer(sigstore, tmp_path).check()


@pytest.mark.parametrize("service", ["signingCert", "log/entries"])
def test_a_service_that_does_not_answer(sigstore: SigstoreStandIn, tmp_path: Path, service: str) -> None:
    sigstore.down = service
    with pytest.raises(ServiceError, match="Sigstore did not sign") as error:
        signer(sigstore, tmp_path).sign(b'{"_type": "https://in-toto.io/Statement/v1"}')
    assert error.value.transient
    assert identity_token().partition(".")[0] not in str(error.value)


def test_a_token_that_is_none(sigstore: SigstoreStandIn, tmp_path: Path) -> None:
    with pytest.raises(PassportError, match="cannot use this workflow's identity token"):
        KeylessSigner(token=lambda _audience: "x.y.z", trust=sigstore.trust_config(tmp_path)).sign(b"{}")
    assert PASSPORT_FILE.endswith(".sigstore.json")
