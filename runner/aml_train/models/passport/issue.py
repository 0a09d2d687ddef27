"""Issue a passport: gather the facts, state them, sign them, and keep them.

The bundle of the model's files and the passport are kept in the workspace's storage with the model, and the passport is a
referrer of the image, too. A tag of the version names the passport's digest.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aml_train.config.sections.gate import GateRule
from aml_train.core.answers import MOST_BYTES, json_number
from aml_train.core.errors import PassportError
from aml_train.core.references import ImageRef
from aml_train.core.tags import Tag
from aml_train.core.version import PRODUCT
from aml_train.gate.decide import Decision
from aml_train.image.registry.referrers import attach_document
from aml_train.jobs.workspace import JobView, ModelView
from aml_train.models.passport.envelope import BUNDLE, Bundle, Signer, encode_statement, read_bundle
from aml_train.models.passport.manifest import SIGNATURE_FILE, STATEMENT
from aml_train.models.passport.observe import Evidence, Observation, Unknown, observe

PASSPORT_TYPE: Final = "https://aml-train.org/passport/v1"
PASSPORT_FILE: Final = "passport.sigstore.json"
#: What a passport must state. The other facts are stated if they exist.
_NEEDED: Final = ("image", "tests", "metrics", "provenance")


@dataclass(frozen=True, kw_only=True)
class Passport:
    """A passport that was issued; *left_out* are reasons why a fact is not in it."""

    bundle: Bundle
    signer: str
    left_out: tuple[str, ...] = ()


def issue_passport(
    evidence: Evidence,
    signer: Signer,
    model: ModelView,
    job: JobView,
    decision: Decision,
    rules: tuple[GateRule, ...] = (),
) -> Passport:
    """State the facts of *model*, sign them, and keep the passport.

    Args:
        evidence: where facts are looked up, and the passport is kept.
        signer: signs.
        model: the registered version.
        job: the job that wrote it.
        decision: the gate's.
        rules: its rules, which name the files that values came from.

    Raises:
        PassportError: a fact that must be stated could not be looked up, or nothing can be signed.
        ServiceError: the workspace or its storage refuses or does not answer.
        ImageError: the registry refuses.
    """
    seen = observe(evidence, model, job)
    if seen.manifest is None:
        why = getattr(seen.facts["files"], "reason", "")
        raise PassportError(f"The files of {_title(model)} cannot be read: {why}")
    if (fault := seen.manifest.fault) is not None:
        raise PassportError(f"The files of {_title(model)} cannot be signed: {fault}.")
    for name in _NEEDED:
        if isinstance(fact := seen.facts[name], Unknown):
            raise PassportError(
                f"The passport of {_title(model)} cannot state its {name}: {fact.reason}",
                hint="The model is registered. `aml-train attach` signs its passport later.",
            )
    statement = make_statement(model, seen, gate_fact(decision, rules))
    signature = signer.sign(encode_statement(seen.manifest.statement(model.name)))
    if len(signature) > MOST_BYTES:
        raise PassportError(
            f"{_title(model)} has {len(seen.manifest.digests)} files, and the list of their digests is too long to be read again.",
            hint="Let the job write fewer files, such as one archive.",
        )
    bundle = read_bundle(signer.sign(encode_statement(statement)))
    _keep(evidence, model, job, signature=signature, bundle=bundle)
    left_out = (f"{name}: {fact.reason}" for name, fact in seen.facts.items() if isinstance(fact, Unknown))
    return Passport(bundle=bundle, signer=signer.title, left_out=tuple(left_out))


def has_passport(evidence: Evidence, model: ModelView) -> bool:
    """Return whether the version has the passport that it names.

    Raises:
        ServiceError: the storage refuses or does not answer.
    """
    named = model.tags.get(Tag.PASSPORT)
    if named is None:
        return False
    content = evidence.store.read(model.name, model.version, PASSPORT_FILE)
    return named == f"sha256:{hashlib.sha256(content).hexdigest()}"


def make_statement(model: ModelView, seen: Observation, gate: Mapping[str, Any]) -> dict[str, Any]:
    """Return the in-toto statement: the model's files and the image are its subjects."""
    facts: dict[str, Any] = {name: None if isinstance(fact, Unknown) else fact for name, fact in seen.facts.items()}
    facts["provenance"] = _chosen(facts["provenance"])
    subjects = [{"name": model.name, "digest": {"sha256": facts["files"]["sha256"]}}]
    if facts["image"] and facts["image"]["digest"]:
        image = ImageRef.parse(facts["image"]["reference"])
        digest = facts["image"]["digest"].removeprefix("sha256:")
        subjects.append({"name": f"{image.registry}/{image.repository}", "digest": {"sha256": digest}})
    issued = {"by": PRODUCT, "at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")}
    return {
        "_type": STATEMENT,
        "subject": subjects,
        "predicateType": PASSPORT_TYPE,
        "predicate": {**facts, "gate": dict(gate), "issued": issued},
    }


def gate_fact(decision: Decision, rules: tuple[GateRule, ...]) -> dict[str, Any]:
    """Return the gate's decision with all that it takes to decide it again."""
    sources = {rule.metric: rule.source for rule in rules if rule.source is not None}
    entries = []
    for rule in decision.rules:
        entry: dict[str, Any] = {
            "metric": rule.metric,
            "rule": rule.rule,
            "value": json_number(rule.value),
            "limit": json_number(rule.limit),
            "verdict": rule.verdict,
            "reason": rule.reason,
            "where": rule.where,
        }
        if (source := sources.get(rule.metric)) is not None:
            entry["file"] = dataclasses.asdict(source)
        entries.append(entry)
    return {"word": decision.word, "rules": entries}


def _keep(evidence: Evidence, model: ModelView, job: JobView, *, signature: bytes, bundle: Bundle) -> None:
    """Keep both bundles with the model, the passport also with the image; tag it."""
    evidence.store.write(model.name, model.version, SIGNATURE_FILE, signature)
    evidence.store.write(model.name, model.version, PASSPORT_FILE, bundle.content)
    _attach(evidence, model, job, bundle)
    evidence.catalogue.change_tags(
        model.name, model.version, {Tag.PASSPORT: f"sha256:{bundle.digest}"}, guard=lambda: None
    )


def _attach(evidence: Evidence, model: ModelView, job: JobView, bundle: Bundle) -> None:

    image, digest = job.tags.get(Tag.IMAGE), job.tags.get(Tag.DIGEST)
    if image is None or digest is None:
        return
    reference = ImageRef.parse(image)
    with evidence.open(reference.registry) as registry:
        manifest = registry.get_manifest(reference.repository, digest)
        if manifest is None:
            raise PassportError(f"The image {image} of {_title(model)} is not in its registry any more.")
        # As cosign writes them: https://github.com/sigstore/cosign/blob/main/specs/BUNDLE_SPEC.md
        annotations = {
            "dev.sigstore.bundle.content": "dsse-envelope",
            "dev.sigstore.bundle.predicateType": PASSPORT_TYPE,
            "org.aml-train.model": f"{model.name}:{model.version}",
        }
        attach_document(
            registry,
            reference.repository,
            manifest,
            artifact_type=BUNDLE,
            content=bundle.content,
            annotations=annotations,
        )


def _chosen(found: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return one provenance without a fault: a passport names it by its digest."""
    good = sorted(manifest for manifest, fact in (found or {}).items() if "fault" not in fact)
    return {"manifest": good[0], **(found or {})[good[0]]} if good else None


def _title(model: ModelView) -> str:
    return f"{model.name} version {model.version}"
