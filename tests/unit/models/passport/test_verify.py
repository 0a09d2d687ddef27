"""Each claim of a verification, its basis, and what a requirement makes of it."""

from __future__ import annotations

import re

import pytest

from aml_train.config.policy import IdentityConfig
from aml_train.config.sections.passport import Requirement
from aml_train.core.errors import ImageError, PassportError, ServiceError
from aml_train.image.registry.client import Registry
from aml_train.models.passport.issue import PASSPORT_FILE
from aml_train.models.passport.keyless import KeylessVerifier, UncheckableError
from aml_train.models.passport.manifest import SIGNATURE_FILE
from aml_train.models.passport.trust import Trust
from tests.support.passport_bundles import in_bundle, insider, setting, statement
from tests.support.passport_world import SOURCE, PassportWorld
from tests.support.tamperings import job_tag

ALL: tuple[Requirement, ...] = ("signature", "provenance", "tests")


def test_what_each_claim_rests_on() -> None:
    bases = {claim.name: claim.basis for claim in PassportWorld().verify().claims}
    assert bases.pop("signature") == bases.pop("source") == bases.pop("workflow") == "signed"
    assert set(bases.values()) == {"recomputed"}
    assert {"files", "image", "tests", "provenance", "code", "gate", "metrics", "data", "referrer"} <= set(bases)


def test_without_a_policy_a_signature_proves_nothing() -> None:
    world = PassportWorld()
    world.trust = None
    found = world.verify()
    bases = {claim.name: claim.basis for claim in found.claims}
    assert (bases["signature"], bases["source"], bases["files"]) == ("unknown", "stated", "recomputed")
    assert found.faults() == ()
    (fault,) = found.faults(["signature"])
    assert "signature is required, and is only unknown" in fault


def test_a_model_without_a_passport() -> None:
    world = PassportWorld()
    world.register("8")
    (fault, *more) = world.verify("8").faults(ALL)
    assert "it has no passport" in fault
    assert [text.partition(" ")[0] for text in more] == list(ALL)


def test_a_registry_that_does_not_answer_leaves_claims_unknown_and_demands_unmet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = PassportWorld()
    monkeypatch.setattr(world, "open", lambda _host: None)
    found = world.verify()
    assert not found.refused
    assert [text.partition(",")[0] for text in found.faults(ALL)] == ["provenance is required", "tests is required"]
    assert {claim.name for claim in found.claims if claim.basis == "unknown"} >= {"provenance", "referrer"}


def test_files_that_cannot_be_read_are_unknown() -> None:
    world = PassportWorld()
    world.passports.fault = ServiceError("the storage does not answer")
    bases = {claim.name: claim.basis for claim in world.verify().claims}
    assert (bases["manifest"], bases["code"]) == ("unknown", "signed")


def test_a_secret_parameter_is_in_no_document() -> None:
    world = PassportWorld()
    for content in (*world.passports.kept.values(), *world.server.blobs.values()):
        assert b"hidden" not in content
    assert statement(world)["predicate"]["parameters"] == {"api_token": "***", "epochs": "2"}


def test_a_signature_proves_nothing_of_files_that_were_not_read() -> None:
    world = PassportWorld()
    world.passports.fault = ServiceError("the storage does not answer")
    (fault,) = world.verify().faults(["signature"])
    assert fault == "signature is required, and the manifest is only unknown: the model's files cannot be read"


@pytest.mark.parametrize("require", ALL)
def test_any_requirement_needs_a_proved_signature(require: Requirement, monkeypatch: pytest.MonkeyPatch) -> None:
    """A forged passport with a certificate is not refused by who cannot check it, and meets no requirement."""
    world = PassportWorld()

    def uncheckable(*_args: object) -> str:
        raise UncheckableError("it has a certificate, and checking that needs a package")

    monkeypatch.setattr(KeylessVerifier, "verify", uncheckable)
    identity = IdentityConfig(issuer="https://i", subject="s")
    world.trust = Trust(identities=(identity,), verifier=KeylessVerifier())
    for name in (PASSPORT_FILE, SIGNATURE_FILE):
        in_bundle(lambda one: one.update(verificationMaterial={"certificate": {"rawBytes": "AAAA"}}), name)(world)
    found = world.verify()
    assert not found.refused
    (fault,) = found.faults([require])
    assert fault.startswith("signature is required, and is only unknown: it has a certificate")


@pytest.mark.parametrize("name", ["tests", "provenance", "referrer"])
def test_an_outage_refuses_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    world = PassportWorld()

    def down(*_args: object, **_options: object) -> bytes:
        raise ImageError("the registry refused to read it: 503")

    monkeypatch.setattr(Registry, "get_blob", down)
    found = world.verify()
    assert not found.refused
    assert next(claim.basis for claim in found.claims if claim.name == name) in ("unknown", "signed")
    assert found.faults(ALL)


def test_without_a_registry_what_the_workspace_knows_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    world = PassportWorld()
    monkeypatch.setattr(world, "open", lambda _host: None)
    job_tag("aml-train.base", "evil:latest")(world)
    (fault,) = world.verify().faults()
    assert fault == "image: base was python:3.11@sha256:1, and is evil:latest"


def test_a_fact_that_is_not_known_here_is_named() -> None:
    world = PassportWorld()
    insider(setting("energy", value={"kWh": 3}))(world)
    found = world.verify()
    assert found.faults(ALL) == ()
    (claim,) = [one for one in found.claims if one.name == "energy"]
    assert (claim.basis, claim.detail) == ("signed", "this version of aml-train cannot look it up")


@pytest.mark.parametrize(
    ("files", "reason"),
    [({}, "cannot be signed: there are none"), ({"../x": b""}, "'../x' is no path below the model's folder")],
)
def test_files_that_cannot_be_signed(files: dict[str, bytes], reason: str) -> None:
    world = PassportWorld()
    world.register("8")
    world.passports.models[SOURCE] = files
    with pytest.raises(PassportError, match=re.escape(reason)):
        world.issue(version="8")
    assert ("digits", "8", PASSPORT_FILE) not in world.passports.kept


def test_more_files_than_can_be_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = PassportWorld()
    world.register("8")
    monkeypatch.setattr("aml_train.models.passport.issue.MOST_BYTES", 100)
    with pytest.raises(PassportError, match="has 2 files, and the list of their digests is too long"):
        world.issue(version="8")
