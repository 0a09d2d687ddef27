"""What someone may change who can write everything but cannot sign: one function for each change, with the reason that refuses it.

A key that was stolen, or a wrong use of the right one, is among them where looking again finds it out: see :func:`insider`.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from aml_train.gate.history import MetricPoint
from aml_train.image.records import record_tag
from aml_train.image.registry.referrers import attach_document, fallback_tag, list_referrers
from aml_train.jobs.states import JobStatus
from aml_train.models.passport.envelope import BUNDLE, read_bundle
from aml_train.models.passport.issue import PASSPORT_FILE
from aml_train.models.passport.manifest import SIGNATURE_FILE
from tests.support.passport_bundles import (
    Tampering,
    World,
    in_bundle,
    insider,
    keep,
    restate,
    setting,
)
from tests.support.passport_world import HOST, JOB, KEY, REPOSITORY, SOURCE, new_signer

IN_TOTO = "application/vnd.in-toto+json"


def job_tag(name: str, value: str | None) -> Tampering:
    """Return what changes a tag of the job."""

    def change(world: World) -> None:
        tags = {key: text for key, text in {**world.job.tags, name: value}.items() if text is not None}
        world.job = dataclasses.replace(world.job, tags=tags)

    return change


def _property(world: World) -> None:
    properties = {**world.job.properties, "aml-train.fingerprint": "0" * 64}
    world.job = dataclasses.replace(world.job, properties=properties)


def _files(change: Callable[[dict[str, bytes]], object]) -> Tampering:
    return lambda world: change(world.passports.models[SOURCE])


def _code(change: Callable[[dict[str, bytes]], object]) -> Tampering:
    return lambda world: change(world.passports.code[JOB])


def _rename(old: str, new: str) -> Callable[[dict[str, bytes]], None]:
    return lambda files: files.update({new: files.pop(old)})


def _swapped_names(world: World) -> None:
    """Give two files the names that another signed version has for the same contents, and take its signature."""
    right = world.passports.models[SOURCE]
    world.passports.models[SOURCE] = {"a.json": right["config.json"], "b.bin": right["weights.bin"]}
    world.register("6")
    world.issue(version="6")
    world.passports.kept["digits", "7", SIGNATURE_FILE] = world.passports.kept["digits", "6", SIGNATURE_FILE]


def _other_folder(world: World) -> None:
    world.passports.models["elsewhere"] = {**world.passports.models[SOURCE], "weights.bin": b"other"}
    world.change_model(path="elsewhere")


def _other_image(world: World) -> None:
    """Have the job's environment name another image of the registry."""
    document = dict(world.service.work[JOB].spec.document)
    document["environment"] = {"image": f"{HOST}/{REPOSITORY}@sha256:{'2' * 64}"}
    world.service.work[JOB].spec = dataclasses.replace(world.service.work[JOB].spec, document=document)


def _dig(world: World) -> str:
    return f"dig-{world.image.digest.removeprefix('sha256:')}"


def _move_tag(world: World) -> None:
    with world.registry() as registry:
        other = registry.put_manifest(REPOSITORY, "other", b'{"schemaVersion": 2, "x": 1}', world.image.media_type)
        moved = registry.get_manifest(REPOSITORY, other)
        assert moved is not None
        registry.put_tag(REPOSITORY, _dig(world), moved)


def forget(world: World, *names: str) -> None:
    """Remove manifests from the registry."""
    for name in names:
        del world.server.manifests[REPOSITORY, name]


def _drop(kind: str) -> Tampering:
    def change(world: World) -> None:
        with world.registry() as registry:
            for one in list_referrers(registry, REPOSITORY, world.image.digest, artifact_type=kind):
                forget(world, one.digest)

    return change


def _damage(kind: str) -> Tampering:
    """Replace the contents of a document, whose manifest stays."""

    def change(world: World) -> None:
        with world.registry() as registry:
            for one in list_referrers(registry, REPOSITORY, world.image.digest, artifact_type=kind):
                layer = json.loads(world.server.manifests[REPOSITORY, one.digest][0])["layers"][0]["digest"]
                world.server.blobs[REPOSITORY, layer] = b"{}"

    return change


def _claim_other_provenance(world: World) -> None:
    """Name another document of the image as its provenance, by the right key."""
    with world.registry() as registry:
        note = attach_document(registry, REPOSITORY, world.image, artifact_type=IN_TOTO, content=b'{"subject": []}')
    content = {"manifest": note.digest, "sha256": hashlib.sha256(b'{"subject": []}').hexdigest(), "type": IN_TOTO}
    insider(setting("provenance", value=content))(world)


def _no_list(world: World) -> None:
    """Have something else where a registry without referrers keeps their list."""
    world.server.referrers = False
    name = fallback_tag(world.image.digest)
    world.server.manifests[REPOSITORY, name] = (b'{"schemaVersion": 2}', world.image.media_type)


def _forget_image(world: World) -> None:
    forget(world, world.image.digest, "latest", _dig(world))


def _metric(name: str, values: list[float]) -> Tampering:
    def change(world: World) -> None:
        world.service.work[JOB].metrics[name] = [
            MetricPoint(step=step, value=value, timestamp=step) for step, value in enumerate(values)
        ]

    return change


def _parameters(**given: str) -> Tampering:
    def change(world: World) -> None:
        world.job = dataclasses.replace(world.job, parameters={**world.job.parameters, **given})

    return change


def _registered_again(world: World) -> None:
    """Delete the version, and register another model by the same number."""
    world.service.registered.remove(world.current())
    passport = f"sha256:{hashlib.sha256(world.passports.kept['digits', '7', PASSPORT_FILE]).hexdigest()}"
    world.register("7")
    world.passports.models["other"] = {"weights.bin": b"other"}
    world.change_model(path="other", type="mlflow_model")
    world.retag(passport=passport)


def _old_passport(world: World) -> None:
    """Put the passport of an earlier version, which is signed well, in the place of this one's."""
    world.register("6")
    world.issue(version="6")
    keep(world, world.passports.kept["digits", "6", PASSPORT_FILE])


def _no_passport(world: World) -> None:
    del world.passports.kept["digits", "7", PASSPORT_FILE]
    world.retag(passport=None)


def _other_model(world: World) -> None:
    """Put the passport of another model of the same job in the place of this one's."""
    other = dataclasses.replace(world.current(), name="letters")
    world.service.registered.append(other)
    from aml_train.models.passport.issue import issue_passport

    issue_passport(world.evidence, world.signer, other, world.job, world.decision, tuple(world.shape.gate))
    keep(world, world.passports.kept["letters", "7", PASSPORT_FILE])


def _write(content: Callable[[World], bytes], name: str = PASSPORT_FILE) -> Tampering:
    return lambda world: keep(world, content(world), name)


def _twice(world: World) -> bytes:
    """Return the passport with a second payload in front of the signed one."""
    evil = base64.b64encode(b'{"evil": true}').decode()
    text = world.passports.kept["digits", "7", PASSPORT_FILE].decode()
    return text.replace('"payload":', f'"payload":"{evil}","payload":', 1).encode()


def _signature(value: bytes) -> Tampering:
    text = base64.b64encode(value).decode()
    return in_bundle(lambda bundle: bundle["dsseEnvelope"]["signatures"][0].update(sig=text))


def _resources(change: Callable[[list[dict[str, str]]], object]) -> Tampering:
    """Change the list of the files, with the digest that fits, by the right key."""

    def tamper(stated: dict[str, Any]) -> None:
        change(stated["predicate"]["resources"])
        whole = hashlib.sha256()
        for one in stated["predicate"]["resources"]:
            whole.update(bytes.fromhex(one["digest"]))
        stated["subject"][0]["digest"]["sha256"] = whole.hexdigest()

    return insider(tamper, SIGNATURE_FILE)


def _serialization(**given: Any) -> Tampering:
    return insider(lambda stated: stated["predicate"]["serialization"].update(given), SIGNATURE_FILE)


def _files_by_another(world: World) -> None:
    payload = read_bundle(world.passports.kept["digits", "7", SIGNATURE_FILE]).payload
    keep(world, new_signer().sign(payload), SIGNATURE_FILE)


def _rule(**given: Any) -> Tampering:
    return insider(lambda stated: stated["predicate"]["gate"]["rules"][0].update(given))


def _no_rules(stated: dict[str, Any]) -> None:
    stated["predicate"]["gate"] = {"word": "none", "rules": []}


TAMPERINGS: Mapping[str, tuple[Tampering, str]] = {
    # The model's files.
    "a byte of a file": (
        _files(lambda f: f.update({"weights.bin": f["weights.bin"][:-1] + b"?"})),
        "changed: weights.bin",
    ),
    "a file more": (_files(lambda f: f.update(backdoor=b"x")), "not signed: backdoor"),
    "a file renamed": (_files(_rename("weights.bin", "w.bin")), "missing: weights.bin; not signed: w.bin"),
    "names of another version": (_swapped_names, "model.sig is about other files than the passport"),
    "another folder": (_other_folder, "model: path was"),
    "another type": (lambda w: w.change_model(type="mlflow_model"), "type was custom_model, and is mlflow_model"),
    "the version registered again": (_registered_again, "and is other; type was custom_model"),
    # The image, its tests and its attestations.
    "another image": (_other_image, "the job's environment has"),
    "another registry": (
        job_tag("aml-train.image", f"evil.test/digits@sha256:{'1' * 64}"),
        "image: reference was amllocal.azurecr.io",
    ),
    "another digest": (job_tag("aml-train.image-digest", "sha256:x"), "its tag aml-train.image-digest is sha256:x"),
    "the image is gone": (_forget_image, "does not have it any more"),
    "a moved tag": (_move_tag, "image: kept was sha256:"),
    "no tag": (lambda w: forget(w, _dig(w)), "and is missing"),
    "a forged record": (lambda w: w.push_record(passed=300), "passed was 3, and is 300"),
    "a record of failures": (lambda w: w.push_record(failed=2), "it records 2 failed tests"),
    "no record": (lambda w: forget(w, record_tag(w.image.digest, KEY)), "no record of these tests"),
    "tests of another key": (job_tag("aml-train.tested", "m" * 40), f"key was {KEY}, and is {'m' * 40}"),
    "no provenance": (_drop(IN_TOTO), "the image has no provenance"),
    "a forged provenance": (_damage(IN_TOTO), "provenance: the blob digits@"),
    "a note as provenance": (
        _claim_other_provenance,
        "provenance: its predicate is not https://slsa.dev/provenance/v1",
    ),
    "no passport with the image": (_drop(BUNDLE), "has no referrer that is this passport"),
    "no list of referrers": (_no_list, "is not a list of referrers"),
    # The code, the data and what was logged.
    "other code": (_code(lambda f: f.update({"train.py": b"print(23)\n"})), "code: bytes was 15, and is 16"),
    "no code": (lambda w: w.passports.code.pop(JOB), "bytes was 15, and is missing"),
    "other data": (job_tag("aml-train.data.train", "images:3"), "train was images:4, and is images:3"),
    "data that is gone": (lambda w: setattr(w.catalogue, "data", []), "there is no such data asset any more"),
    "other parameters": (_parameters(epochs="3"), "epochs was 2, and is 3"),
    "a better metric": (_metric("accuracy", [0.8, 0.99]), "the value was 0.95, and the job's metrics give 0.99"),
    "a metric that is gone": (lambda w: w.service.work[JOB].metrics.pop("loss"), "loss was 0.3, and is missing"),
    "another value on the way": (_metric("loss", [0.1, 0.3]), "the value was 0.3, and the job's metrics give 0.1"),
    # The gate.
    "a replaced rule": (_rule(rule=">= 0.99"), "the limit was 0.9, and the rule gives 0.99"),
    "a gate that was not met": (_rule(rule=">= 0.99", limit=0.99), "it was recorded as met, and is not met"),
    "another word": (insider(setting("gate", "word", value="skipped")), "it is recorded as skipped"),
    "no rules": (insider(_no_rules), "the version's tag says passed"),
    "no gate": (insider(lambda s: s["predicate"].pop("gate")), "it is recorded as missing"),
    "the word in the tags": (lambda w: w.retag(gate="none"), "aml-train.gate was passed, and is none"),
    # The job, the version and its tags.
    "another job": (lambda w: w.retag(job="other-1"), "its tag aml-train.job was changed"),
    "a job that failed": (
        lambda w: setattr(w, "job", dataclasses.replace(w.job, status=JobStatus.FAILED)),
        "it is Failed, and not Completed",
    ),
    "no job": (lambda w: w.service.jobs.pop(JOB), "there is no such job any more"),
    "another fingerprint": (_property, "fingerprint was"),
    "another commit": (job_tag("aml-train.commit", "badbad"), "aml-train.commit is badbad"),
    "a metric in the tags": (lambda w: w.retag(metric__accuracy="0.99"), "aml-train.metric.accuracy was 0.95"),
    # The passport.
    "no passport": (
        lambda w: w.passports.kept.pop(("digits", "7", PASSPORT_FILE)),
        "is gone from the workspace's storage",
    ),
    "neither passport nor tag": (_no_passport, "it has no passport"),
    "a passport that is not named": (lambda w: w.retag(passport=None), "names the passport no passport"),
    "an old passport": (_old_passport, "version was 6, and is 7"),
    "the passport of another model": (_other_model, "name was letters, and is digits"),
    "another key": (lambda w: w.issue(new_signer()), "which the policy does not"),
    "another branch stated": (
        lambda w: restate(w, setting("source", "branch", value="x")),
        "does not fit its contents",
    ),
    "signed again by another": (
        lambda w: restate(w, setting("source", "branch", value="evil"), resign=True),
        "signature: it names the key",
    ),
    "a signature of nothing": (_signature(b"\x30\x06\x02\x01\x01\x02\x01\x01"), "signature: it does not fit"),
    "no signature": (
        in_bundle(lambda b: b["dsseEnvelope"]["signatures"][0].update(sig="")),
        "an empty text where a text",
    ),
    "two signatures": (
        in_bundle(lambda b: b["dsseEnvelope"].update(signatures=b["dsseEnvelope"]["signatures"] * 2)),
        "it has 2 signatures",
    ),
    "the name of another key": (
        in_bundle(lambda b: b["verificationMaterial"]["publicKey"].update(hint=new_signer().public.hint)),
        "signature: it names the key",
    ),
    "a certificate in place of the key": (
        in_bundle(lambda b: b.update(verificationMaterial={"certificate": {"rawBytes": "AAAA"}})),
        "it has a certificate, and the policy names no identities",
    ),
    "a certificate beside the key": (
        in_bundle(lambda b: b["verificationMaterial"].update(certificate={"rawBytes": "AAAA"})),
        "neither a key nor a certificate, or both",
    ),
    "a log that nothing checks": (
        in_bundle(lambda b: b["verificationMaterial"].update(tlogEntries=[{"logIndex": "1"}])),
        "has entries of a log, which nothing here checks",
    ),
    "a claim that is not signed": (in_bundle(lambda b: b.update(reviewed="by all")), "has the member 'reviewed'"),
    "a payload twice": (_write(_twice), "has the member 'payload' twice"),
    "the signature of the files as passport": (
        _write(lambda w: w.passports.kept["digits", "7", SIGNATURE_FILE]),
        "its statement is a https://model_signing/signature/v1.0",
    ),
    "subjects of another model": (
        insider(lambda s: s["subject"][0]["digest"].update(sha256="0" * 64)),
        "its subjects are not the model and the image",
    ),
    "a lower version of the statement": (
        insider(lambda s: s.update(predicateType="https://aml-train.org/passport/v0")),
        "its statement is a https://aml-train.org/passport/v0",
    ),
    "facts left out": (insider(lambda s: s["predicate"].pop("parameters")), "epochs was missing, and is 2"),
    # The signature of the files.
    "no signature of the files": (
        lambda w: w.passports.kept.pop(("digits", "7", SIGNATURE_FILE)),
        "the signature of the files, model.sig, is gone",
    ),
    "files signed by another": (_files_by_another, "does not count"),
    "a signature of fewer files": (_resources(lambda r: r.pop()), "model.sig is about other files"),
    "a file twice": (_resources(lambda r: r.append(dict(r[0]))), "it has two digests of 'config.json'"),
    "a digest cut in two": (
        _resources(lambda r: r[0].update(digest=r[0]["digest"] + r.pop()["digest"])),
        "has not 64 hexadecimal digits",
    ),
    "files left out": (_serialization(ignore_paths=["weights.bin"]), "another ignore_paths: files could be left out"),
    "another model's files": (
        insider(lambda s: s["subject"][0].update(name="letters"), SIGNATURE_FILE),
        "it is about the model 'letters'",
    ),
}
