"""Verify a passport: look its facts up again, compare, and name each basis."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from aml_train.config.sections.gate import JsonValue
from aml_train.core.answers import Answer
from aml_train.core.errors import DamagedError, ImageError, ServiceError
from aml_train.core.events import RuleVerdict, Verdict
from aml_train.core.references import ImageRef
from aml_train.core.tags import Tag
from aml_train.gate.decide import Decision
from aml_train.gate.recompute import over_replicates
from aml_train.image.registry.referrers import list_referrers, read_referrer
from aml_train.jobs.metrics import fault_of_rules
from aml_train.jobs.workspace import ModelView, Workspace
from aml_train.models.passport.envelope import BUNDLE, BadBundleError, Bundle, read_bundle
from aml_train.models.passport.issue import PASSPORT_FILE, PASSPORT_TYPE
from aml_train.models.passport.manifest import SIGNATURE_FILE, STATEMENT, FileManifest, read_manifest
from aml_train.models.passport.observe import Evidence, Fact, Observation, Unknown, observe, observe_copy
from aml_train.models.passport.trust import Trust
from aml_train.models.passport.values import Basis, Claim, Verification

if TYPE_CHECKING:
    from aml_train.image.registry.client import Registry


_NO_PASSPORT: Final = (
    "it has no passport: neither its storage nor its tags have one. Sign models with `passport` in aml-train.yml"
)


@dataclass(frozen=True, kw_only=True)
class Verifier:
    """Verifies passports.

    Attributes:
        evidence: where facts are looked up.
        trust: whose signatures count; None if no policy says so.
    """

    evidence: Evidence
    trust: Trust | None = None

    def verify(self, model: ModelView) -> Verification:
        """Verify the passport of *model*.

        Raises:
            ServiceError: the workspace or its storage refuses or does not answer.
        """
        title = f"{model.name}:{model.version}"
        content = self.evidence.store.read(model.name, model.version, PASSPORT_FILE)
        if not content:
            tagged = model.tags.get(Tag.PASSPORT)
            why = f"its passport {tagged} is gone from the workspace's storage" if tagged else _NO_PASSPORT
            return Verification(model=title, claims=(_refused("passport", why),))
        try:
            bundle = read_bundle(content)
            statement = bundle.statement
            signature = self._signature(bundle)
            claims = [signature, *_passport(model, bundle, statement)]
            claims += self._facts(
                model, bundle, statement.at("predicate"), weak="signed" if signature.by else "stated"
            )
        except BadBundleError as error:
            return Verification(model=title, claims=(_refused("passport", f"it cannot be used: {error}"),))
        return Verification(model=title, claims=tuple(claims), signer=signature.by, statement=statement.value)

    def _signature(self, bundle: Bundle) -> Claim:
        if self.trust is None:
            who = f"a key {bundle.key_hint[:16]}" if bundle.key_hint else "a certificate"
            detail = f"it names {who}; no policy says whose signatures count, so that it is not checked"
            return Claim(name="signature", basis="unknown", detail=detail)
        found = self.trust.check(bundle)
        basis: Basis = "signed" if found.signer else "refused" if found.refused else "unknown"
        return Claim(name="signature", basis=basis, detail=found.detail, by=found.signer)

    def _facts(self, model: ModelView, bundle: Bundle, stated: Answer, *, weak: Basis) -> Iterator[Claim]:
        """Compare each fact with the present, if the job is still there.

        Args:
            weak: what facts rest on that cannot be compared.
        """
        lineage = self.evidence.trace(model)
        if lineage.broken:
            yield _refused("lineage", "; ".join(lineage.broken))
        else:
            yield Claim(name="lineage", basis="recomputed", detail=lineage.summary)
        if Tag.COPY_OF in model.properties:
            seen = observe_copy(self.evidence, model, stated)
            yield from compare_facts(stated, seen.facts, weak)
            yield from self._manifest(model, seen, stated)
            yield Claim(name="gate", basis=weak, detail="it was decided in the workspace of the job")
            yield self._referrer(model.tags, bundle)
            return
        job = self.evidence.service.find(model.origin or "")
        if job is None:
            yield _refused("job", f"the job {model.origin} is not in the workspace any more")
            return
        seen = observe(self.evidence, model, job)
        yield from compare_facts(stated, seen.facts, weak)
        yield from self._manifest(model, seen, stated)
        yield gate_claim(self.evidence.service, job.name, stated.at("gate"), model.tags.get(Tag.GATE))
        yield self._referrer(job.tags, bundle)

    def _manifest(self, model: ModelView, seen: Observation, stated: Answer) -> Iterator[Claim]:
        """Check the bundle of the files: another tool verifies the model with it."""
        content = self.evidence.store.read(model.name, model.version, SIGNATURE_FILE)
        if not content:
            yield _refused("manifest", f"the signature of the files, {SIGNATURE_FILE}, is gone from the storage")
            return
        try:
            bundle = read_bundle(content)
            signed = read_manifest(bundle.statement, model.name)
        except (BadBundleError, ValueError) as error:
            yield _refused("manifest", f"{SIGNATURE_FILE} cannot be used: {error}")
            return
        yield self._compare_manifest(bundle, signed, seen.manifest, stated)

    def _compare_manifest(
        self, bundle: Bundle, signed: FileManifest, present: FileManifest | None, stated: Answer
    ) -> Claim:
        if self.trust is not None and (found := self.trust.check(bundle)).refused:
            return _refused("manifest", f"the signature of {SIGNATURE_FILE} does not count: {found.detail}")
        if [signed.root, signed.listing] != [stated.optional_text(f"files.{key}") for key in ("sha256", "listing")]:
            return _refused("manifest", f"{SIGNATURE_FILE} is about other files than the passport")
        if present is None:
            return Claim(name="manifest", basis="unknown", detail="the model's files cannot be read")
        if different := signed.difference(present):
            return _refused("manifest", f"the model's files are not those that were signed: {different}")
        count = len(signed.digests)
        detail = f"the digests of {count} {'file' if count == 1 else 'files'}, sha256 {signed.root[:16]}"
        return Claim(name="manifest", basis="recomputed", detail=detail)

    def _referrer(self, tags: Mapping[str, str], bundle: Bundle) -> Claim:
        """Check that the referrers of the image that *tags* name have this passport."""
        image, digest = tags.get(Tag.IMAGE), tags.get(Tag.DIGEST)
        if image is None or digest is None:
            return Claim(name="referrer", basis="stated", detail="the job ran in an image that was given")
        try:
            reference = ImageRef.parse(image)
            with self.evidence.open(reference.registry) as registry:
                return _find_referrer(registry, reference.repository, digest, bundle)
        except (DamagedError, ValueError) as error:
            return _refused("referrer", str(error))
        except (ImageError, ServiceError) as error:
            return Claim(name="referrer", basis="unknown", detail=error.message)


def _find_referrer(registry: Registry, repository: str, digest: str, bundle: Bundle) -> Claim:
    """Return the claim that the referrers have *bundle*; others may be damaged."""

    why = [f"the image {digest[:19]} has no referrer that is this passport"]
    for one in list_referrers(registry, repository, digest, artifact_type=BUNDLE):
        try:
            content = read_referrer(registry, repository, one)
        except DamagedError as error:
            why.append(error.message)
            continue
        if content == bundle.content:
            return Claim(name="referrer", basis="recomputed", detail=f"{repository}@{one.digest}")
    return _refused("referrer", "; ".join(why[:3]))


def _passport(model: ModelView, bundle: Bundle, statement: Answer) -> Iterator[Claim]:
    """Check that the bundle is a passport, and the one that the version names."""
    kind, predicate = statement.optional_text("_type"), statement.optional_text("predicateType")
    if (kind, predicate) != (STATEMENT, PASSPORT_TYPE):
        yield _refused("passport", f"its statement is a {predicate}, and not a {PASSPORT_TYPE}")
        return
    named = model.tags.get(Tag.PASSPORT)
    if named != f"sha256:{bundle.digest}":
        yield _refused("passport", f"the version names the passport {named or 'no passport'}, and it is another one")
        return
    wanted = {statement.optional_text("predicate.files.sha256")}
    if image := statement.optional_text("predicate.image.digest"):
        wanted.add(image.removeprefix("sha256:"))
    if {one.optional_text("digest.sha256") for one in statement.each("subject")} != wanted:
        yield _refused("passport", "its subjects are not the model and the image that it is about")
        return
    yield Claim(name="passport", basis="recomputed", detail=f"sha256 {bundle.digest[:16]}, as the version names it")


def _refused(name: str, detail: str) -> Claim:
    return Claim(name=name, basis="refused", detail=detail)


_MOST_SHOWN: Final = 80
#: Facts that the workflow stated when it submitted the job: nothing but the job's tags has them.
_STATED: Final = ("source", "workflow")
#: Members of a passport that are verified elsewhere, and when it was issued.
_ELSEWHERE: Final = ("gate", "issued")


def compare_facts(stated: Answer, present: Mapping[str, Fact], weak: Basis) -> Iterator[Claim]:
    """Yield a claim for each fact.

    Args:
        stated: the predicate of a passport.
        present: the facts as they are now.
        weak: the basis of what nothing can confirm: ``signed``, or ``stated`` without a proved signature.
    """
    for name, fact in present.items():
        given = stated.mapping(name) if stated.has(name) else None
        if name == "provenance":
            yield _provenance(given, fact)
        elif isinstance(fact, Unknown):
            yield _unknown(name, given, fact, weak)
        elif different := _difference(given, fact):
            fault = [str(fact["fault"])] if fact and "fault" in fact else []
            yield Claim(name=name, basis="refused", detail="; ".join([*fault, different]))
        elif name in _STATED:
            yield Claim(name=name, basis=weak, detail=_shown(given))
        else:
            yield _equal(name, given, fact)
    for name in stated.mapping().keys() - {*present, *_ELSEWHERE}:
        yield Claim(name=name, basis=weak, detail="this version of aml-train cannot look it up")


def _unknown(name: str, given: Mapping[str, Any] | None, fact: Unknown, weak: Basis) -> Claim:
    """Return the claim of a fact that was looked up in part, or not at all."""
    if different := _difference({key: (given or {}).get(key) for key in fact.known}, fact.known):
        return Claim(name=name, basis="refused", detail=different)
    basis: Basis = weak if given is not None else "unknown"
    return Claim(name=name, basis=basis, detail=f"it cannot be looked up: {fact.reason}")


def _equal(name: str, given: Mapping[str, Any] | None, fact: Fact) -> Claim:
    """Return the claim of an unchanged fact; some must also hold by themselves."""
    if not given:
        return Claim(name=name, basis="stated", detail="there is none")
    fault = given.get("fault") or (_fault_of_image(given) if name == "image" else None)
    if fault is not None:
        return Claim(name=name, basis="refused", detail=str(fault))
    return Claim(name=name, basis="recomputed", detail=_shown(given))


def _provenance(given: Mapping[str, Any] | None, fact: Fact) -> Claim:
    """Compare the one provenance that a passport names with all that the image has."""
    name = "provenance"
    if given is None:
        return Claim(name=name, basis="stated", detail="the passport states none")
    if isinstance(fact, Unknown):
        basis: Basis = "refused" if fact.damaged else "unknown"
        return Claim(name=name, basis=basis, detail=f"it cannot be looked up: {fact.reason}")
    found = (fact or {}).get(str(given.get("manifest")))
    if found is None:
        detail = f"the image has no {name} {str(given.get('manifest'))[:19]} any more"
    elif "fault" in found:
        detail = str(found["fault"])
    elif different := _difference({key: given.get(key) for key in found}, found):
        detail = different
    else:
        return Claim(name=name, basis="recomputed", detail=f"{given.get('manifest')}")
    return Claim(name=name, basis="refused", detail=detail)


def _fault_of_image(fact: Mapping[str, Any]) -> str | None:
    digest = fact.get("digest")
    if not digest:
        return "the registry did not have the image when the passport was issued"
    if not str(fact.get("environment")).endswith(f"@{digest}"):
        return f"the job's environment is {fact.get('environment')}, and not {digest}"
    if fact.get("kept") not in (None, digest):
        return f"the tag of the image leads to {fact.get('kept')}"
    return None


def _difference(given: Mapping[str, Any] | None, fact: Mapping[str, Any] | None) -> str:
    """Return in words what of a fact changed; empty if nothing did."""
    before, now = dict(given or {}), dict(fact or {})
    changed = [key for key in {**before, **now} if before.get(key) != now.get(key)]
    words = [f"{key} was {_value(before.get(key))}, and is {_value(now.get(key))}" for key in changed[:4]]
    more = [f"and {len(changed) - 4} more"] if len(changed) > 4 else []
    return "; ".join([*words, *more])


def _value(value: object) -> str:
    text = "missing" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def _shown(given: Mapping[str, Any] | None) -> str:
    known = {key: value for key, value in (given or {}).items() if value is not None}
    words = ", ".join(f"{key} {_value(value)}" for key, value in list(known.items())[:4])
    return words + (f" and {len(known) - 4} more" if len(known) > 4 else "")


def gate_claim(service: Workspace, job: str, stated: Answer, tagged: str | None) -> Claim:
    """Return the claim of the gate: does its record follow from the job's metrics?

    Args:
        tagged: the gate's word in the version's tags; None without.

    Raises:
        ServiceError: the workspace refuses or does not answer.
    """
    rules = tuple(_recorded(one) for one in stated.each("rules"))
    word = stated.optional_text("word") or ""
    if (right := Decision(rules=rules).word) != word:
        return _refused("gate", f"it is recorded as {word or 'missing'}, and its rules give {right}")
    if tagged not in (None, word):
        return _refused("gate", f"it is recorded as {word}, and the version's tag says {tagged}")
    if word == "failed":
        return _refused("gate", "the gate was not met")
    files = {
        one.text("metric"): JsonValue(file=one.text("file.file"), pointer=one.text("file.pointer"))
        for one in stated.each("rules")
        if one.has("file")
    }
    if fault := fault_of_rules(service, job, rules, files):
        return _refused("gate", fault)
    shown = ", ".join(f"{rule.metric} {rule.rule}: {rule.verdict}" for rule in rules[:4])
    more = f" and {len(rules) - 4} more" if len(rules) > 4 else ""
    alone = not any(over_replicates(rule.rule)[1] for rule in rules)  # other jobs' metrics are not read here
    return Claim(
        name="gate",
        basis="recomputed" if alone else "stated",
        detail=f"{word}; {shown}{more}" if rules else "no rules were given",
    )


def _recorded(entry: Answer) -> RuleVerdict:
    return RuleVerdict(
        metric=entry.text("metric"),
        rule=entry.text("rule"),
        value=entry.number("value") if entry.has("value") else None,
        limit=entry.number("limit") if entry.has("limit") else None,
        verdict=cast(Verdict, entry.text("verdict")),  # any word, which fault_of_rules checks
    )
