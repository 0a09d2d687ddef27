"""The job to submit: its document, image, and deterministic name. Pure."""

from __future__ import annotations

import copy
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from aml_train.config.job.model import JobNode, Place, mapping_at
from aml_train.core.errors import InvalidError
from aml_train.core.files import FileSet
from aml_train.core.tags import VALUE_LENGTH, Tag
from aml_train.image.spec import Tested
from aml_train.jobs.data import DataIdentity, identity_marks

SERVERLESS: Final = "serverless"
"""The compute of a job whose nodes AzureML chooses; a job without one is the same."""


@dataclass(frozen=True, kw_only=True)
class TargetNames:
    """A target's names.

    Attributes:
        target: the target's name in the configuration.
        description: a few words for people.
        scope: enters the job's fingerprint: two targets never share a job.
        registry_for_jobs: the registry's name that jobs and records carry.
        registry_for_engine: the registry's name that the engine pushes to.
        compute: the compute that jobs run on unless the configuration says otherwise; None leaves the job's own.
    """

    target: str
    description: str
    scope: str
    registry_for_jobs: str
    registry_for_engine: str
    compute: str | None


#: Part of every job's name, so that a change of what the name covers never attaches to a job of older make.
NAME_FORMAT: Final = 1
_STEM_LENGTH: Final = 40


@dataclass(frozen=True, kw_only=True)
class NodesImage:
    """A further image of a pipeline: its name and its nodes.

    Attributes:
        name: its key below ``images``.
        nodes: the nodes that run in it.
    """

    name: str
    nodes: tuple[JobNode, ...]

    def tag(self, image: Tested) -> str:
        """Return the value of the job's tag: JSON, without its nodes if they have no room."""
        record = image.record.key if image.record else None
        found = {"image": str(image.reference), "tested": record, "nodes": sorted(node.name for node in self.nodes)}
        text = json.dumps(found, separators=(",", ":"))
        return text if len(text) <= VALUE_LENGTH else json.dumps({**found, "nodes": None}, separators=(",", ":"))


@dataclass(frozen=True, kw_only=True)
class JobTemplate:
    """A job that lacks only its image and its attempt.

    Attributes:
        document: the command job (CLI v2 grammar), with compute and ``type`` filled in.
        directory: what the document's relative paths start from.
        code: the files of the code snapshot, or None where the code is no local folder.
        code_digest: digest of the code snapshot's files, or None where no local code is sent.
        local_digests: digest of every other local path that the document sends: its place in the document → digest.
        data: what the data of its inputs are: place of the input in the document → identity; empty until it is read.
        scope: where the job is submitted, as text (target, subscription, resource group, workspace).
        stem: the readable beginning of the name.
        tags: tags to add.
        runconfig: the run configuration that the SDK v1 submits, in camelCase; None for a job of the SDK v2.
        places: the keys of each mapping of the document whose ``environment`` is the image: the document itself for a
            command job, else mappings of nodes or of the trial.
        folders: the keys of a node's mapping with ``code`` → the files of that code.
        nodes: the nodes of a pipeline or the trial of a sweep; none for a command job.
        images: further images of a pipeline.
        properties: properties to add, which the name does not cover.
    """

    document: Mapping[str, Any]
    directory: Path
    code: FileSet | None = None
    code_digest: str | None
    local_digests: Mapping[str, str] = field(default_factory=dict)
    data: Mapping[str, DataIdentity] = field(default_factory=dict)
    scope: str
    stem: str
    tags: Mapping[str, str] = field(default_factory=dict)
    runconfig: Mapping[str, Any] | None = None
    places: tuple[Place, ...] = ((),)
    folders: Mapping[Place, FileSet] = field(default_factory=dict)
    nodes: tuple[JobNode, ...] = ()
    images: tuple[NodesImage, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def contents(self) -> dict[str, str]:
        """Digests of what the job reads besides its code: place in the document → digest.

        Of data that are not identified, the address in the document counts alone.
        """
        return {**self.local_digests, **{place: one.mark for place, one in self.data.items() if one.mark}}


@dataclass(frozen=True, kw_only=True)
class JobSpec:
    """A job to submit, by the SDK v1 if it has a *runconfig*, else by the SDK v2.

    The attributes are those of :class:`JobTemplate`, and the computed ones; *images* are that of the job, under the empty name, and
    those of nodes by their names. A job that brings its own environment has none.
    """

    name: str
    document: Mapping[str, Any]
    directory: Path
    code: FileSet | None
    images: Mapping[str, Tested]
    fingerprint: str
    runconfig: Mapping[str, Any] | None = None
    folders: Mapping[Place, FileSet] = field(default_factory=dict)
    data: Mapping[str, DataIdentity] = field(default_factory=dict)


def with_input(document: Mapping[str, Any], name: str, value: object) -> dict[str, Any]:
    """Return *document* with another literal value of an input."""
    return {**document, "inputs": {**(document.get("inputs") or {}), name: value}}


COMPUTED_NAME: Final = re.compile(r"(.*-[0-9a-f]{12})-([1-9]\d{0,5})")
RETRIED_NAME: Final = re.compile(r"(.*)-retry([1-9]\d{0,5})", re.DOTALL)
#: Where the files of a job's outputs/ are: https://learn.microsoft.com/azure/machine-learning/how-to-train-scikit-learn and others
#: mount ``azureml://datastores/workspaceartifactstore/paths/ExperimentRun/dcid.RUN/…``.
_ARTIFACTS: Final = "azureml://datastores/workspaceartifactstore/paths/ExperimentRun/dcid."


def earlier_names(name: str) -> list[str]:
    """Return the names that the attempts before the job *name* have, the first one first."""
    if match := COMPUTED_NAME.fullmatch(name):
        return [f"{match[1]}-{number}" for number in range(1, int(match[2]))]
    if match := RETRIED_NAME.fullmatch(name):
        return [match[1], *(f"{match[1]}-retry{number}" for number in range(1, int(match[2])))]
    return []


def artifacts_at(name: str, path: str) -> str:
    """Return the address of the folder *path* among the artefacts of the job *name*, as an input has it."""
    return f"{_ARTIFACTS}{name}/{path}"


def job_of_artifacts(address: str) -> str | None:
    """Return whose artefacts are at *address*, short or with the workspace in it; None for another address."""
    place = re.sub(r"^azureml://.*/datastores/", "azureml://datastores/", address)
    return place.removeprefix(_ARTIFACTS).partition("/")[0] if place.startswith(_ARTIFACTS) else None


def stem_of(text: str) -> str:
    """Return *text* as the beginning of a job's name.

    It has letters, digits, ``-`` and ``_``, and starts with a letter or digit.

    AzureML's rule for names: 1 to 255 letters, digits, underscores and dashes (azure-ai-ml, ``_schema/core/fields.py``).
    """
    words = re.sub(r"[^a-z0-9_]+", "-", text.lower()).strip("-_")
    return words[:_STEM_LENGTH].rstrip("-_") or "job"


def fingerprint(template: JobTemplate, images: Mapping[str, Tested]) -> str:
    """Return the SHA-256 (hexadecimal) of everything that decides the result.

    The job's own name, and the tags with the commit, are left out: they change nothing of the result.
    """
    content = {
        "format": NAME_FORMAT,
        "document": _counted(template),
        "code": template.code_digest,
        "local": template.contents,
        "image": _identity(images[""]) if images else "given",
        "scope": template.scope,
    }
    if template.runconfig is not None:
        content["runconfig"] = dict(template.runconfig)
    if template.places != ((),):
        content["places"] = [".".join(place) for place in template.places]
    if template.images:
        content["images"] = [
            [_identity(images[one.name]), [".".join(node.place) for node in one.nodes]] for one in template.images
        ]
    text = json.dumps(content, sort_keys=True, default=str, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _counted(template: JobTemplate) -> dict[str, Any]:
    """Return what of the document counts for the fingerprint."""
    return {key: value for key, value in template.document.items() if key not in ("name", "tags", "display_name")}


def _identity(image: Tested) -> str:
    """Return what of an image counts: builds of one address are the same work."""
    return f"{image.reference.repository}:{image.address}"


def job_name(template: JobTemplate, images: Mapping[str, Tested], attempt: int) -> str:
    """Return the name of the job's *attempt* (one-based): ``stem-hash-attempt``."""
    return f"{template.stem}-{fingerprint(template, images)[:12]}-{attempt}"


def make_job(template: JobTemplate, images: Mapping[str, Tested], attempt: int) -> JobSpec:
    """Fill *template* with its images, none for a job that brings its own environment, and with its name."""
    document = copy.deepcopy(dict(template.document))
    mark = fingerprint(template, images)
    tags = {
        **{str(k): str(v) for k, v in (document.get("tags") or {}).items()},
        **template.tags,
        Tag.FINGERPRINT: mark,
        Tag.TESTED: "given, not tested",
    }
    if images:
        image = images[""]
        tags |= {Tag.IMAGE: str(image.reference), Tag.DIGEST: image.digest, Tag.ADDRESS: image.address}
        tags[Tag.TESTED] = image.record.key if image.record else "no tests configured"
        tags |= {Tag.IMAGES + one.name: one.tag(images[one.name]) for one in template.images}
        places = [("", place) for place in template.places]
        places += [(one.name, node.place) for one in template.images for node in one.nodes]
        for name, place in places:
            mapping_at(document, place)["environment"] = {"image": str(images[name].reference)}
    name = job_name(template, images, attempt)
    document["name"] = name
    document["tags"] = tags
    given = {str(k): str(v) for k, v in (document.get("properties") or {}).items()}
    given |= {Tag.FINGERPRINT: mark, **identity_marks(template.data), **template.properties}
    document["properties"] = given
    return JobSpec(
        name=name,
        document=document,
        directory=template.directory,
        code=template.code,
        images=images,
        fingerprint=mark,
        runconfig=template.runconfig,
        folders=template.folders,
        data=template.data,
    )


def in_images(job: JobSpec, template: JobTemplate, images: Mapping[str, Tested]) -> JobSpec:
    """Return *job*, which was made from *template*, in other builds of its images."""
    made = make_job(template, images, 1)
    tags = {**job.document["tags"], **made.document["tags"]}
    kept = {key: job.document[key] for key in ("properties", "inputs") if key in job.document}
    document = {**made.document, "name": job.name, "tags": tags, **kept}
    return replace(job, document=document, images=images)


def run_configuration(job: JobSpec) -> dict[str, Any]:
    """Return the run configuration for this target and image, in azureml-core's keys.

    Raises:
        InvalidError: nothing says which compute it runs on.
    """
    values = dict(job.runconfig or {})
    compute = str(job.document.get("compute") or "")
    if compute.removeprefix("azureml:").lower() in ("", "local"):  # azureml-core would run it on this machine
        raise InvalidError(
            f"The run configuration of {job.name} names no compute of the workspace.",
            hint="Write `target: NAME` into it, or `compute` into the target of aml-train.yml.",
        )
    values["target"] = compute.removeprefix("azureml:").rpartition("/")[2]
    nodes = int((job.document.get("resources") or {}).get("instance_count") or 1)
    if nodes > 1:
        # A file may say it under `mpi` or `pytorch` alone, and azureml-core does not carry it over.
        values["nodeCount"] = nodes
    # Without this key azureml-core takes it for a configuration of the first kind, and forgets the others.
    given = dict(values.get("environment") or {})
    values["environment"] = _environment(given, job.images[""]) if job.images else _given(given, job)
    return values


def _environment(given: Mapping[str, Any], image: Tested) -> dict[str, Any]:
    """Return the environment of *image*, with the given one's variables and container."""
    python, docker = given.get("python") or {}, given.get("docker") or {}
    reference = image.reference
    kept = {key: docker[key] for key in ("sharedVolumes", "shmSize", "arguments") if docker.get(key) is not None}
    interpreter = python.get("interpreterPath") if python.get("userManagedDependencies") else None
    return {
        "name": f"aml-train-{image.address[:20]}",
        "environmentVariables": dict(given.get("environmentVariables") or {}),
        "python": {"userManagedDependencies": True, "interpreterPath": interpreter or "python"},
        "docker": {**kept, "baseImage": str(reference)},
    }


def _given(given: dict[str, Any], job: JobSpec) -> dict[str, Any]:
    """Return the given environment, with its conda file relative to the project."""
    python = dict(given.get("python") or {})
    if python.get("condaDependenciesFile"):
        python["condaDependenciesFile"] = str(job.directory / python["condaDependenciesFile"])
    return {"name": "aml-train-given", **given, **({"python": python} if python else {})}
