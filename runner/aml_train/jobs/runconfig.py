"""The run configuration of a job, with its image and compute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aml_train.core.errors import InvalidError
from aml_train.image.spec import Tested
from aml_train.jobs.spec import JobSpec


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
    values["environment"] = _environment(given, job.image) if isinstance(job.image, Tested) else _given(given, job)
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
