"""Register the model that a job wrote, once, with its lineage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from aml_train._version import __version__
from aml_train.errors import JobFailedError
from aml_train.gate.decide import Decision
from aml_train.jobs.job import (
    TAG_ADDRESS,
    TAG_COMMIT,
    TAG_DIGEST,
    TAG_GATE,
    TAG_IMAGE,
    TAG_STAGE,
    TAG_TESTED,
    TAG_VERSION,
)
from aml_train.jobs.service import JobService, ModelView, NewModel

TAG_JOB: Final = "aml-train.job"
#: Where the model lies, in our words: the service rewrites a model's own path into one of a datastore.
TAG_SOURCE: Final = "aml-train.model-source"
TAG_METRIC: Final = "aml-train.metric."
_FROM_JOB: Final = (TAG_COMMIT, TAG_IMAGE, TAG_DIGEST, TAG_ADDRESS, TAG_TESTED)


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """What is registered after the gate.

    Attributes:
        name: the model's name.
        artifact: a path among the job's artefacts; or None.
        output: a named output of the job; or None.
        type: ``custom_model``, ``mlflow_model`` or ``triton_model``.
        stage: the stage that a new version is in at first; None for none. A version that exists keeps its own.
    """

    name: str
    artifact: str | None
    output: str | None
    type: str
    stage: str | None = None
    description: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)

    def uri(self, job: str) -> str:
        """Return where the model lies in *job*, in the form that azure-ai-ml documents for ``Model.path``."""
        if self.output:
            return f"azureml://jobs/{job}/outputs/{self.output}"
        return f"azureml://jobs/{job}/outputs/artifacts/paths/{(self.artifact or '').strip('/')}"


def lineage(job: Mapping[str, str], *, metrics: Mapping[str, float], decision: Decision) -> dict[str, str]:
    """Return the tags that tell what a model was trained in, from which commit, and how the gate judged it.

    Args:
        job: the tags of the job, which tell what it was submitted from, whoever attaches to it later.
        metrics: the job's.
        decision: the gate's.
    """
    tags = {TAG_VERSION: __version__} | {name: job[name] for name in _FROM_JOB if name in job}
    tags[TAG_GATE] = "passed" if decision.rules else "none"
    return tags | {f"{TAG_METRIC}{name}": repr(float(value)) for name, value in sorted(metrics.items())}


def next_version(versions: list[str]) -> str:
    """Return the number after the highest one among *versions*; other words among them are passed over."""
    return str(max((int(version) for version in versions if version.isdecimal()), default=0) + 1)


def check_written(service: JobService, spec: ModelSpec, job: str) -> None:
    """Look whether *job* wrote the model.

    Raises:
        JobFailedError: it wrote nothing at the model's path.
        ServiceError: the service does not answer.
    """
    if spec.artifact and not service.has_artifact(job, spec.artifact):
        raise JobFailedError(
            f"The job {job} completed, but wrote nothing at {spec.artifact!r}: there is no model to register.",
            hint="Let the job write its model there, or correct model.path; only outputs/ and logs/ are kept.",
        )


def register(service: JobService, spec: ModelSpec, *, job: str, tags: Mapping[str, str]) -> tuple[ModelView, bool]:
    """Register the model that *job* wrote, unless an earlier run has done so.

    Args:
        tags: added to the model's own and to those that name the job and the model's place in it.

    Returns:
        the model's version, and whether it had been registered before.

    Raises:
        JobFailedError: if the job wrote nothing at the model's path.
        ServiceError: if the service refuses or does not answer.
    """
    versions = service.models(spec.name)
    uri = spec.uri(job)
    for version in versions:
        if version.tags.get(TAG_JOB) == job and version.tags.get(TAG_SOURCE) == uri:
            return version, True
    check_written(service, spec, job)
    stage = {TAG_STAGE: spec.stage} if spec.stage else {}
    model = NewModel(
        name=spec.name,
        version=next_version([version.version for version in versions]),
        path=uri,
        type=spec.type,
        description=spec.description,
        tags={**spec.tags, **tags, **stage, TAG_JOB: job, TAG_SOURCE: uri},
        properties={TAG_JOB: job},
    )
    return service.register(model), False
