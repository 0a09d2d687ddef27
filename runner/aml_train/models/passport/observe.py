"""Look up the facts of a model that a passport states, where each is kept.

The same facts are gathered when a passport is issued and when it is verified: to verify is to look again and to compare.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from aml_train.core.answers import Answer, UndecodableError, decode, json_number
from aml_train.core.errors import DamagedError, ImageError, InvalidError, ServiceError
from aml_train.core.references import ImageRef, is_digest
from aml_train.core.tags import Tag
from aml_train.image.provenance import IN_TOTO, SLSA_PROVENANCE
from aml_train.image.registry.referrers import list_referrers, read_referrer
from aml_train.jobs.inputs import shown_data
from aml_train.jobs.workspace import JobView, ModelView, Workspace
from aml_train.models.catalogue import PassportStore
from aml_train.models.lineage import LineageStep, Tracer, tests_in
from aml_train.models.passport.manifest import FileManifest, hash_files
from aml_train.models.register import shown_parameters

if TYPE_CHECKING:
    from aml_train.image.registry.client import Registry

#: Tags that change after the registration: stages, promotions, and the passport itself.
_CHANGING: Final = (Tag.STAGE, Tag.PASSPORT, "aml-train.promot", "aml-train.archived", "aml-train.replaced")
_SOURCE: Final = {
    "commit": Tag.COMMIT,
    "repository": Tag.REPOSITORY,
    "branch": Tag.BRANCH,
    "configuration": Tag.CONFIGURATION,
}


@dataclass(frozen=True, kw_only=True)
class Evidence(Tracer):
    """The services by which facts are looked up; *store* has the files of models and code, and the passports."""

    store: PassportStore

    def copied_files(self, model: ModelView) -> LineageStep:
        """See :meth:`aml_train.models.lineage.Tracer.copied_files`; the files are read, and compared with those that were copied."""
        wanted = model.properties.get(Tag.FILES)
        try:
            found = hash_files(self.store.model_files(model)).listing
        except (ServiceError, InvalidError) as error:
            return LineageStep(kind="files", name=model.path, state="unknown", detail=error.message)
        if found != wanted:
            why = f"their digest is {found[:16]}, and those that were copied have {(wanted or 'none')[:16]}"
            return LineageStep(kind="files", name=model.path, state="broken", detail=why)
        return LineageStep(kind="files", name=model.path, state="verified", detail=f"sha256 {found[:16]}, as copied")


@dataclass(frozen=True, kw_only=True)
class Unknown:
    """A fact that could not be looked up, and why.

    Attributes:
        known: the part of it that was looked up.
        damaged: whether it is there, and cannot be what it was.
    """

    reason: str
    known: Mapping[str, Any] = field(default_factory=dict)
    damaged: bool = False


Fact = dict[str, Any] | None | Unknown
"""A fact as plain values; None for one that does not exist."""


@dataclass(frozen=True, kw_only=True)
class Observation:
    """The facts of a model, by their names in a passport.

    Attributes:
        manifest: the digests of the model's files; None if they could not be read.
        facts: the others.
    """

    manifest: FileManifest | None
    facts: Mapping[str, Fact]


def observe(evidence: Evidence, model: ModelView, job: JobView) -> Observation:
    """Look up the facts of *model*, which *job* wrote.

    Facts that cannot be looked up are unknown, and no error.
    """
    manifest, files = _files(evidence, model)
    facts: dict[str, Fact] = {
        "model": {
            "name": model.name,
            "version": model.version,
            "type": model.type,
            "source": model.tags.get(Tag.SOURCE, ""),
            "path": model.path,
        },
        "files": files,
        "job": {"name": job.name, "experiment": job.experiment, "fingerprint": job.properties.get(Tag.FINGERPRINT)},
        "code": _attempt(lambda: _code(evidence, job)),
        "data": shown_data(job),
        "parameters": shown_parameters(job),
        "metrics": _attempt(lambda: metrics_of(evidence.service, job.name)),
        "source": {name: job.tags[tag] for name, tag in _SOURCE.items() if tag in job.tags},
        "workflow": {"run": job.tags.get(Tag.RUN_URL)},
        "tags": fixed_tags(model),
    }
    facts |= _of_image(evidence, job, model.tags.get(Tag.NODE, ""))
    return Observation(manifest=manifest, facts=facts)


def observe_copy(evidence: Evidence, model: ModelView, stated: Answer) -> Observation:
    """Look up the facts of a copy in this workspace and its registry; those of its job are in another one.

    Args:
        stated: the predicate of its passport, which names the version that it is a copy of, and where the image was.
    """
    origin = model.properties.get(Tag.COPY_OF, "")
    manifest, files = _files(evidence, model)
    away = Unknown(reason=f"it is in the workspace {origin.partition('/workspaces/')[2].partition('/')[0]}")
    facts: dict[str, Fact] = dict.fromkeys(
        ("job", "code", "data", "parameters", "metrics", "source", "workflow"), away
    )
    name, _, version = origin.partition("/models/")[2].partition("/versions/")
    tags, before = fixed_tags(model), stated.mapping("tags")
    facts |= {
        "model": {**stated.mapping("model"), "name": name, "version": version, "type": model.type},
        "files": files,
        "tags": {**tags, **{tag: before[tag] for tag in (Tag.IMAGE,) if tag in before}},
    }
    image, digest, key = (model.tags.get(tag, "") for tag in (Tag.IMAGE, Tag.DIGEST, Tag.TESTED))
    names = ("image", "tests", "provenance")
    if not image or not digest:
        return Observation(manifest=manifest, facts=facts | dict.fromkeys(names))
    recorded = stated.mapping("image") if stated.has("image") else {}
    tests = {"key": key} if key and " " not in key else None
    try:
        found = _in_registry(evidence, ImageRef.parse(image), digest, recorded, tests)
        if isinstance(there := found["image"], dict) and there["kept"] == digest:
            there["kept"] = recorded.get("kept")  # every copy is kept by a tag, whether or not the image was
        facts |= found
    except (ImageError, ServiceError, ValueError) as error:
        facts |= dict.fromkeys(names, Unknown(reason=str(error)))
    return Observation(manifest=manifest, facts=facts)


def fixed_tags(model: ModelView) -> dict[str, str]:
    """Return the tags of aml-train that do not change after the registration."""
    return {
        name: value
        for name, value in sorted(model.tags.items())
        if name.startswith("aml-train.") and not name.startswith(_CHANGING)
    }


def metrics_of(service: Workspace, job: str) -> dict[str, Any]:
    """Return a job's last values, as JSON can have them: NaN and infinities are words."""
    found = service.last_metrics(job)
    return {name: json_number(value) for name, value in sorted(found.items())}


def record_digest(record: object) -> str:
    """Return the SHA-256 of a test record's facts, in any layout of its JSON."""
    facts = dataclasses.asdict(record)  # type: ignore[call-overload]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _attempt(look: Callable[[], Fact]) -> Fact:
    try:
        return look()
    except (ServiceError, ImageError, InvalidError) as error:
        return Unknown(reason=error.message)


def _files(evidence: Evidence, model: ModelView) -> tuple[FileManifest | None, Fact]:
    try:
        manifest = hash_files(evidence.store.model_files(model))
    except (ServiceError, InvalidError) as error:
        return None, Unknown(reason=error.message)
    return manifest, {"listing": manifest.listing, **_sums(manifest, manifest.root)}


def _sums(manifest: FileManifest, digest: str) -> dict[str, Any]:
    return {"sha256": digest, "files": len(manifest.digests), "bytes": manifest.size}


def _code(evidence: Evidence, job: JobView) -> Fact:
    files = evidence.store.code_files(job.name)
    if files is None:
        return None
    manifest = hash_files(files)
    return _sums(manifest, manifest.listing)


def _of_image(evidence: Evidence, job: JobView, node: str) -> dict[str, Fact]:
    """Return the facts of the image that the job ran in, of its tests and its provenance.

    The workspace's part of these facts does not depend on the registry's answer.
    """
    image, digest = job.tags.get(Tag.IMAGE), job.tags.get(Tag.DIGEST)
    if image is None or digest is None:
        return dict.fromkeys(("image", "tests", "provenance"))
    try:
        environment = evidence.catalogue.environment_image(job.name, node)
    except ServiceError as error:
        return dict.fromkeys(("image", "tests", "provenance"), Unknown(reason=error.message))
    tags = {"address": job.tags.get(Tag.ADDRESS), "base": job.tags.get(Tag.BASE)}
    recorded = {"reference": image, "environment": environment, **tags}
    key = job.tags.get(Tag.TESTED, "")
    tests = {"key": key} if key and " " not in key else None
    try:
        return _in_registry(evidence, ImageRef.parse(image), digest, recorded, tests)
    except ValueError as error:
        return {
            "image": {**recorded, "digest": None, "fault": str(error)},
            "tests": tests,
            "provenance": None,
        }
    except (ImageError, ServiceError) as error:
        reason = error.message
        return {
            "image": Unknown(reason=reason, known=recorded),
            "tests": tests and Unknown(reason=reason, known=tests),
            "provenance": Unknown(reason=reason),
        }


def _in_registry(
    evidence: Evidence, reference: ImageRef, digest: str, recorded: Mapping[str, Any], tests: Mapping[str, str] | None
) -> dict[str, Fact]:
    """Return the facts of an image whose registry answers.

    Raises:
        ImageError: it refuses or does not answer.
        ServiceError: it cannot be reached.
        ValueError: the digest is none.
    """
    if not is_digest(digest):
        raise ValueError(f"{digest[:80]!r} is no digest")
    with evidence.open(reference.registry) as registry:
        there = registry.head_manifest(reference.repository, digest)
        image: dict[str, Any] = {
            **recorded,
            "digest": digest if there is not None else None,
            "kept": registry.head_manifest(reference.repository, f"dig-{digest.removeprefix('sha256:')}"),
        }
        return {
            "image": image,
            "tests": _tests(registry, reference.repository, digest, tests),
            "provenance": _provenance(registry, reference.repository, digest),
        }


def _tests(registry: Registry, repository: str, digest: str, tests: Mapping[str, str] | None) -> Fact:

    if tests is None:
        return None
    key = tests["key"]
    record = tests_in(registry, repository, digest, key)
    if isinstance(record, str):
        return {"key": key, "fault": record}
    return {
        "key": key,
        "command": record.command,
        "passed": record.passed,
        "skipped": record.skipped,
        "at": record.at,
        "sha256": record_digest(record),
    }


def _provenance(registry: Registry, repository: str, digest: str) -> Fact:
    """Return every provenance of the image, by the digest of its manifest."""

    found: dict[str, Any] = {}
    try:
        listed = list_referrers(registry, repository, digest, artifact_type=IN_TOTO)
    except DamagedError as error:
        return Unknown(reason=error.message, damaged=True)
    for one in listed:
        try:
            content = read_referrer(registry, repository, one)
        except DamagedError as error:
            found[one.digest] = {"fault": error.message}
            continue
        fault = fault_of_provenance(content, digest)
        found[one.digest] = {"type": one.artifact_type, "sha256": hashlib.sha256(content).hexdigest()}
        found[one.digest] |= {"fault": fault} if fault else {}
    return found


def fault_of_provenance(content: bytes, digest: str) -> str | None:
    """Return why a provenance is not one of the image *digest*; None if it is."""

    try:
        document = Answer(decode(content), ValueError)
        if document.optional_text("predicateType") != SLSA_PROVENANCE:
            return f"its predicate is not {SLSA_PROVENANCE}"
        subjects = [one.optional_text("digest.sha256") for one in document.each("subject")]
    except (UndecodableError, ValueError) as error:
        return f"it {error}"
    if digest.removeprefix("sha256:") not in subjects:
        return "it is about another image"
    return None
