"""Untouched models are verified, and each of many tamperings is refused with its reason, by `verify` and by `promote`."""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest

from aml_train.config import Requirement
from aml_train.core.errors import GateFailedError, ServiceError
from aml_train.gate.history import MetricPoint
from aml_train.image.records import record_tag
from aml_train.image.registry.referrers import list_referrers
from aml_train.jobs.states import JobStatus
from aml_train.models.passport.envelope import encode_statement, read_bundle
from aml_train.models.passport.issue import PASSPORT_FILE
from aml_train.models.passport.manifest import SIGNATURE_FILE
from tests.support.passport_world import HOST, JOB, KEY, REPOSITORY, SOURCE, PassportWorld, new_signer

ALL: tuple[Requirement, ...] = ("signature", "provenance", "tests")
World = PassportWorld
Tampering = Callable[[World], object]


def _flip(world: World) -> None:
    files = world.papers.models[SOURCE]
    files["weights.bin"] = files["weights.bin"][:-1] + b"?"


def _kept(world: World, name: str = PASSPORT_FILE) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(world.papers.kept["digits", "7", name])
    return found


def _keep(world: World, bundle: bytes, name: str = PASSPORT_FILE, *, tag: bool = True) -> None:
    world.papers.kept["digits", "7", name] = bundle
    if tag and name == PASSPORT_FILE:
        world.retag(passport=f"sha256:{read_bundle(bundle).digest}")


def _statement(world: World) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(base64.b64decode(_kept(world)["dsseEnvelope"]["payload"]))
    return found


def _restate(world: World, change: Callable[[dict[str, Any]], object], *, resign: bool = False) -> None:
    """Change the statement, and keep the old signature or sign with another key."""
    statement = _statement(world)
    change(statement)
    payload = encode_statement(statement)
    if resign:
        _keep(world, new_signer().sign(payload))
        return
    bundle = _kept(world)
    bundle["dsseEnvelope"]["payload"] = base64.b64encode(payload).decode()
    _keep(world, json.dumps(bundle).encode())


def _set(*path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(statement: dict[str, Any]) -> None:
        place = statement["predicate"]
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value

    return change


def _insider(world: World, change: Callable[[dict[str, Any]], object]) -> None:
    """State something else with the right key: only looking again can find it."""
    statement = _statement(world)
    change(statement)
    _keep(world, world.signer.sign(encode_statement(statement)))


def _job_tag(name: str, value: str) -> Tampering:
    def change(world: World) -> None:
        world.job = dataclasses.replace(world.job, tags={**world.job.tags, name: value})

    return change


def _other_image(world: World) -> None:
    """Have the job's environment name another image of the registry."""
    document = dict(world.service.work[JOB].spec.document)
    document["environment"] = {"image": f"{HOST}/{REPOSITORY}@sha256:{'2' * 64}"}
    world.service.work[JOB].spec = dataclasses.replace(world.service.work[JOB].spec, document=document)


def _move_tag(world: World) -> None:
    with world.open(HOST) as registry:
        other = registry.put_manifest(REPOSITORY, "other", b'{"schemaVersion": 2, "x": 1}', world.image.media_type)
        moved = registry.get_manifest(REPOSITORY, other)
        assert moved is not None
        registry.put_tag(REPOSITORY, f"dig-{world.image.digest.removeprefix('sha256:')}", moved)


def _forget(world: World, *names: str) -> None:
    for name in names:
        del world.server.manifests[REPOSITORY, name]


def _forget_image(world: World) -> None:
    digest = world.image.digest
    _forget(world, digest, "latest", f"dig-{digest.removeprefix('sha256:')}")


def _drop_referrer(kind: str) -> Tampering:
    def change(world: World) -> None:
        with world.open(HOST) as registry:
            for one in list_referrers(registry, REPOSITORY, world.image.digest, artifact_type=kind):
                _forget(world, one.digest)

    return change


def _damage_paper(kind: str) -> Tampering:
    def change(world: World) -> None:
        with world.open(HOST) as registry:
            for one in list_referrers(registry, REPOSITORY, world.image.digest, artifact_type=kind):
                layer = json.loads(world.server.manifests[REPOSITORY, one.digest][0])["layers"][0]["digest"]
                world.server.blobs[REPOSITORY, layer] = b"{}"

    return change


def _old_passport(world: World) -> None:
    """Put the passport of an earlier version, which is signed well, in the place of this one's."""
    world.register("6")
    world.issue(version="6")
    _keep(world, world.papers.kept["digits", "6", PASSPORT_FILE])


def _metric(name: str, values: list[float]) -> Tampering:
    def change(world: World) -> None:
        world.service.work[JOB].metrics[name] = [
            MetricPoint(step=step, value=value, timestamp=step) for step, value in enumerate(values)
        ]

    return change


def _other_files(world: World) -> None:
    """Have the version name another folder of the job."""
    world.papers.models["elsewhere"] = {**world.papers.models[SOURCE], "weights.bin": b"other"}
    world.change_model(path="elsewhere")


TAMPERINGS: dict[str, tuple[Tampering, str]] = {
    # The model's files.
    "a byte of a model file": (_flip, "changed: weights.bin"),
    "a file more": (lambda w: w.papers.models[SOURCE].update(backdoor=b"x"), "not signed: backdoor"),
    "a file less": (lambda w: w.papers.models[SOURCE].pop("config.json"), "missing: config.json"),
    "a file renamed": (
        lambda w: w.papers.models[SOURCE].update({"w.bin": w.papers.models[SOURCE].pop("weights.bin")}),
        "missing: weights.bin; not signed: w.bin",
    ),
    "another folder": (_other_files, "path was"),
    # The image, its tests and its papers.
    "another image": (_other_image, "environment"),
    "the image is gone": (_forget_image, "does not have it any more"),
    "a moved tag": (_move_tag, "kept was"),
    "a forged record": (lambda w: w.push_record(passed=300), "passed was 3, and is 300"),
    "a record of other tests": (lambda w: w.push_record(command="true"), "command was pytest -q, and is true"),
    "no record": (lambda w: _forget(w, record_tag(w.image.digest, KEY)), "no record of these tests"),
    "no provenance": (_drop_referrer("application/vnd.in-toto+json"), "provenance: "),
    "a forged provenance": (_damage_paper("application/vnd.in-toto+json"), "contents have another digest"),
    "a forged list of packages": (_damage_paper("application/spdx+json"), "contents have another digest"),
    "no passport with the image": (
        _drop_referrer("application/vnd.dev.sigstore.bundle.v0.3+json"),
        "no referrer that is this passport",
    ),
    # The code, the data and what was logged.
    "other code": (lambda w: w.papers.code[JOB].update({"train.py": b"print(2)\n"}), "code: sha256 was"),
    "code renamed": (
        lambda w: w.papers.code[JOB].update({"lib/x.py": w.papers.code[JOB].pop("lib/net.py")}),
        "code: sha256 was",
    ),
    "no code": (lambda w: w.papers.code.pop(JOB), "code: bytes was 15, and is missing"),
    "other data": (_job_tag("aml-train.data.train", "images:3"), "train was images:4, and is images:3"),
    "data that is gone": (lambda w: setattr(w.catalogue, "data", []), "there is no such data asset any more"),
    "other parameters": (
        lambda w: setattr(w, "job", dataclasses.replace(w.job, parameters={"epochs": "3", "api_token": "x"})),
        "epochs was 2, and is 3",
    ),
    "a better metric": (_metric("accuracy", [0.8, 0.99]), "the value was 0.95, and the job's metrics give 0.99"),
    "a metric that is gone": (lambda w: w.service.work[JOB].metrics.pop("loss"), "loss was 0.3, and is missing"),
    "another value on the way": (_metric("loss", [0.1, 0.3]), "the value was 0.3, and the job's metrics give 0.1"),
    # The gate.
    "a replaced gate": (
        lambda w: _insider(w, lambda s: s["predicate"]["gate"]["rules"][0].update(rule=">= 0.99")),
        "the limit was 0.9, and the rule gives 0.99",
    ),
    "a gate that was not met": (
        lambda w: _insider(w, lambda s: s["predicate"]["gate"]["rules"][0].update(rule=">= 0.99", limit=0.99)),
        "it was recorded as met, and is not met",
    ),
    "another word": (lambda w: _insider(w, _set("gate", "word", value="skipped")), "its rules give passed"),
    "the word in the tags": (lambda w: w.retag(gate="none"), "aml-train.gate was passed, and is none"),
    # The job, the version and its tags.
    "another job": (lambda w: w.retag(job="other-1"), "its tag aml-train.job was changed"),
    "a job that failed": (
        lambda w: setattr(w, "job", dataclasses.replace(w.job, status=JobStatus.FAILED)),
        "it is Failed, and not Completed",
    ),
    "no job": (lambda w: w.service.jobs.pop(JOB), "there is no such job any more"),
    "another commit": (_job_tag("aml-train.commit", "badbad"), "aml-train.commit is badbad"),
    "another run": (_job_tag("aml-train.run-url", "https://x"), "workflow: run was"),
    "a metric in the tags": (lambda w: w.retag(metric__accuracy="0.99"), "aml-train.metric.accuracy was 0.95"),
    # The passport.
    "no passport": (
        lambda w: w.papers.kept.pop(("digits", "7", PASSPORT_FILE)),
        "is gone from the workspace's storage",
    ),
    "a passport that was not named": (lambda w: w.retag(passport=None), "names the passport no passport"),
    "an old signature": (_old_passport, "version was 6, and is 7"),
    "another key": (lambda w: w.issue(new_signer()), "which the policy does not"),
    "a changed statement": (
        lambda w: _restate(w, _set("source", "branch", value="evil")),
        "does not fit its contents",
    ),
    "a statement signed by another": (
        lambda w: _restate(w, _set("source", "branch", value="evil"), resign=True),
        "which the policy does not",
    ),
    "subjects of another model": (
        lambda w: _insider(w, lambda s: s["subject"][0]["digest"].update(sha256="0" * 64)),
        "its subjects are not the model and the image",
    ),
    "another kind of statement": (
        lambda w: _insider(w, lambda s: s.update(predicateType="https://example.org/x")),
        "its statement is a https://example.org/x",
    ),
    "no JSON": (lambda w: _write(w, b"-----"), "it cannot be used: it is not JSON"),
    "two signatures": (lambda w: _two_signatures(w), "it has 2 signatures"),
    "no signature of the files": (
        lambda w: w.papers.kept.pop(("digits", "7", SIGNATURE_FILE)),
        "is gone from the storage",
    ),
    "files signed by another": (
        lambda w: _keep(
            w, new_signer().sign(read_bundle(w.papers.kept["digits", "7", SIGNATURE_FILE]).payload), SIGNATURE_FILE
        ),
        "does not count",
    ),
    "a signature of other files": (lambda w: _other_manifest(w), "is about other files than the passport"),
}


def _write(world: World, content: bytes) -> None:
    world.papers.kept["digits", "7", PASSPORT_FILE] = content


def _two_signatures(world: World) -> None:
    bundle = _kept(world)
    bundle["dsseEnvelope"]["signatures"] *= 2
    _write(world, json.dumps(bundle).encode())


def _other_manifest(world: World) -> None:
    statement = json.loads(read_bundle(world.papers.kept["digits", "7", SIGNATURE_FILE]).payload)
    statement["predicate"]["resources"].pop()
    import hashlib

    whole = hashlib.sha256()
    for one in statement["predicate"]["resources"]:
        whole.update(bytes.fromhex(one["digest"]))
    statement["subject"][0]["digest"]["sha256"] = whole.hexdigest()
    _keep(world, world.signer.sign(encode_statement(statement)), SIGNATURE_FILE)


@pytest.mark.parametrize("name", TAMPERINGS)
def test_a_tampering_is_refused_with_its_reason(name: str) -> None:
    world = PassportWorld()
    tamper, reason = TAMPERINGS[name]
    tamper(world)
    found = world.verify()
    assert reason in "\n".join(found.faults(ALL))
    assert found.refused


@pytest.mark.parametrize("name", TAMPERINGS)
def test_a_demanding_stage_refuses_it_and_changes_nothing(name: str) -> None:
    world = PassportWorld()
    TAMPERINGS[name][0](world)
    before = world.current().tags
    with pytest.raises(GateFailedError, match=r"passport of digits version 7 does not show|The lineage of") as error:
        world.promote()
    assert error.value.exit_code == 6
    assert world.current().tags == before


def _untouched() -> list[tuple[str, Callable[[World], object]]]:
    """Thirty models without tampering, in all ways they may be used after their registration."""
    signed: list[tuple[str, Callable[[World], object]]] = [
        ("as issued", lambda w: None),
        ("issued twice", lambda w: w.issue()),
        (
            "promoted and archived",
            lambda w: w.retag(stage="archived", promoted_at="x", promotion="y", replaced_by="8"),
        ),
        ("a user's tag", lambda w: w.catalogue.change_tags("digits", "7", {"owner": "ann"}, guard=lambda: None)),
        ("a later version", lambda w: (w.register("8"), w.issue(version="8"))),
        ("another version without passport", lambda w: w.register("8")),
        ("the address tag moved on", lambda w: _retag_address(w)),
        ("another document of the image", lambda w: _attach_other(w)),
        ("a second provenance", lambda w: _second_provenance(w)),
        ("a verdict on the job", _job_tag("aml-train.verdict.main", "passed")),
        ("files in another order", lambda w: _reorder(w)),
        ("a description", lambda w: w.change_model(description="night images")),
        ("a log that grew", lambda w: w.service.work[JOB].say("late")),
        ("a list of the referrers' copies", lambda w: _attach_again(w)),
        ("a version of another model", lambda w: _other_model(w)),
    ]
    return signed


@pytest.mark.parametrize("referrers", [True, False], ids=["interface", "fall-back"])
@pytest.mark.parametrize("name", [name for name, _ in _untouched()])
def test_an_untouched_model_is_verified_and_promoted(name: str, referrers: bool) -> None:
    world = PassportWorld(referrers=referrers)
    dict(_untouched())[name](world)
    found = world.verify()
    assert found.faults(ALL) == ()
    assert {claim.basis for claim in found.claims} <= {"recomputed", "signed"}
    assert world.promote().status == "changed"
    assert world.verify().faults(ALL) == ()


def _retag_address(world: World) -> None:
    with world.open(HOST) as registry:
        registry.put_manifest(REPOSITORY, "latest", b'{"schemaVersion": 2, "y": 1}', world.image.media_type)


def _attach_other(world: World) -> None:
    from aml_train.image.registry.referrers import attach_document

    with world.open(HOST) as registry:
        attach_document(registry, REPOSITORY, world.image, artifact_type="text/plain", content=b"a note")


def _reorder(world: World) -> None:
    files = world.papers.models[SOURCE]
    world.papers.models[SOURCE] = dict(reversed(files.items()))


def _attach_again(world: World) -> None:
    """Attach the passport's bundle a second time, with other annotations."""
    from aml_train.image.registry.referrers import attach_document
    from aml_train.models.passport.envelope import BUNDLE

    content = world.papers.kept["digits", "7", PASSPORT_FILE]
    with world.open(HOST) as registry:
        attach_document(registry, REPOSITORY, world.image, artifact_type=BUNDLE, content=content)


def _other_model(world: World) -> None:
    world.service.registered.append(dataclasses.replace(world.current(), name="letters"))


def _second_provenance(world: World) -> None:
    with world.open(HOST) as registry:
        world.attach_provenance(world.image, registry, predicate={"runDetails": {}})


def test_what_each_claim_rests_on() -> None:
    bases = {claim.name: claim.basis for claim in PassportWorld().verify().claims}
    assert bases.pop("signature") == bases.pop("source") == bases.pop("workflow") == "signed"
    assert set(bases.values()) == {"recomputed"}
    assert {"files", "image", "tests", "provenance", "sbom", "code", "gate", "metrics", "data", "referrer"} <= set(
        bases
    )


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
    world.papers.fault = ServiceError("the storage does not answer")
    bases = {claim.name: claim.basis for claim in world.verify().claims}
    assert (bases["manifest"], bases["code"]) == ("unknown", "signed")


def test_a_secret_parameter_is_in_no_document() -> None:
    world = PassportWorld()
    for content in (*world.papers.kept.values(), *world.server.blobs.values()):
        assert b"hidden" not in content
    assert _statement(world)["predicate"]["parameters"] == {"api_token": "***", "epochs": "2"}
