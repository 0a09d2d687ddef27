"""Checks of a job, field by field. Pure.

Fields are those of ``CommandJob`` in AzureML's REST API, 2025-01-01-preview. Whatever is set and not known here is
refused by name: a job never runs with a setting of its author left out in silence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, get_args

from aml_emulator.domain.clusters import seconds_of
from aml_emulator.domain.errors import InvalidError, NotSupportedError
from aml_emulator.domain.jobs.docker_args import docker_options, size_bytes
from aml_emulator.domain.jobs.types import INPUT, JOB_SHAPE, OUTPUT
from aml_emulator.executor.engine import DEFAULT_SHM_BYTES
from aml_emulator.executor.expressions import ExpressionError, expression_references
from aml_emulator.executor.spec import InputKind
from aml_emulator.schema import Fields

READ_ONLY = frozenset({"parameters", "provisioningState", "status"})
"""Fields that the service fills in and ignores when they are sent."""

RESOURCES = frozenset(
    {
        "dockerArgs",
        "dockerArgsList",
        "instanceCount",
        "instanceType",
        "locations",
        "maxInstanceCount",
        "properties",
        "shmSize",
    }
)
MAX_PROCESSES = 64
IDENTITIES = frozenset({"AMLToken", "Managed", "UserIdentity"})
JOB_TIERS = frozenset({"Null", "Spot", "Basic", "Standard", "Premium"})
PRIORITIES = {1: "low", 2: "medium", 3: "high"}


def check_job(job: Mapping[str, Any]) -> None:
    """Return if a job of these ``properties`` can be run.

    Raises:
        NotSupportedError: what is not supported, naming the field.
        InvalidError: what AzureML would refuse as well.
    """
    kind = str(job.get("jobType") or "")
    if kind.lower() != "command":
        raise NotSupportedError(f"jobs of type '{kind}' (only 'Command', 'Pipeline' and 'Sweep')")
    for name, value in job.items():
        if name not in JOB_SHAPE.fields and name not in READ_ONLY and value not in (None, {}, [], ""):
            raise NotSupportedError(f"the job's field '{name}'")
    if not str(job.get("command") or "").strip():
        raise InvalidError("The job has no command.")
    if not job.get("environmentId"):
        raise InvalidError("The job has no environment.")
    _check_identity(job.get("identity") or {})
    _check_queue(job.get("queueSettings") or {})
    _check_resources(job.get("resources") or {})
    _check_distribution(job.get("distribution") or {}, instance_count(job))
    check_inputs(job.get("inputs") or {})
    check_outputs(job.get("outputs") or {})
    _check_command(job)
    timeout_seconds(job)
    shm_bytes(job)


def _check_identity(identity: Mapping[str, Any]) -> None:
    kind = identity.get("identityType")
    if identity and kind not in IDENTITIES:
        raise NotSupportedError(f"identity of type '{kind}'")


def _check_queue(queue: Mapping[str, Any]) -> None:
    if queue.get("jobTier") not in (None, *JOB_TIERS):
        raise NotSupportedError(f"queueSettings.jobTier '{queue['jobTier']}'")
    if queue.get("priority") not in (None, 0, *PRIORITIES):
        raise NotSupportedError(f"queueSettings.priority {queue['priority']}")


def _check_resources(resources: Mapping[str, Any]) -> None:
    for name, value in resources.items():
        if name not in RESOURCES and value not in (None, {}, [], ""):
            raise NotSupportedError(f"resources.{name}")
    count = resources.get("instanceCount")
    if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 1):
        raise InvalidError(f"resources.instanceCount is a number from 1, not {count}")
    if resources.get("maxInstanceCount") not in (None, 1):
        raise NotSupportedError(f"resources.maxInstanceCount {resources['maxInstanceCount']} (only 1)")
    for name in resources.get("properties") or {}:
        # azure-ai-ml's form of `compute: local`.
        local = "compute: local; name a cluster, such as local-cluster, whose jobs run on this machine as well"
        raise NotSupportedError(local if name == "IsLocal" else f"resources.properties.{name}")
    options = docker_options(resources)
    if "shm_size" in options.host and shm_bytes({"resources": resources}) not in (None, options.host["shm_size"]):
        raise InvalidError("resources.shm_size and '--shm-size' of resources.docker_args say different things.")


def _check_distribution(distribution: Mapping[str, Any], nodes: int) -> None:
    if not distribution:
        if nodes > 1:
            raise NotSupportedError(
                f"resources.instanceCount {nodes} of a job without a distribution: give it one of the type pytorch, mpi or"
                " tensorflow, or instance_count: 1"
            )
        return
    kind = str(distribution.get("distributionType"))
    if kind not in ("PyTorch", "Mpi", "TensorFlow"):
        remedy = "; a command that starts Ray itself runs on one node without a distribution" if kind == "Ray" else ""
        raise NotSupportedError(f"distribution of type '{kind}' (only 'PyTorch', 'Mpi' and 'TensorFlow'){remedy}")
    for name, least in (("processCountPerInstance", 1), ("workerCount", 1), ("parameterServerCount", 0)):
        count = distribution.get(name)
        if count is not None and (not isinstance(count, int) or not least <= count <= MAX_PROCESSES):
            raise InvalidError(f"distribution.{name} is a number from {least} to {MAX_PROCESSES}, not {count}")


def _check_command(job: Mapping[str, Any]) -> None:
    given = {"inputs": given_inputs(job), "outputs": job.get("outputs") or {}}
    try:
        for reference in expression_references(str(job["command"])):
            if reference.name not in given[reference.group] and not (
                reference.optional and reference.group == "inputs"
            ):
                raise InvalidError(
                    f"The command refers to ${{{{{reference.group}.{reference.name}}}}}, but the job has no"
                    f" {reference.group[:-1]} of that name."
                )
    except ExpressionError as error:
        raise InvalidError(f"The command cannot be resolved: {error}") from error


def given_inputs(job: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the inputs with a value."""
    return {name: value for name, value in (job.get("inputs") or {}).items() if _is_given(value)}


def _is_given(value: Mapping[str, Any] | None) -> bool:
    """Return whether an input has a value; an optional one that has none was left out."""
    kind = str((value or {}).get("jobInputType") or "").lower()
    if not value or (kind == "literal" and value.get("value") is None):
        return False
    return bool(kind or value.get("uri") or value.get("value") is not None)


def instance_count(job: Mapping[str, Any]) -> int:
    """Return on how many nodes a job runs."""
    return int((job.get("resources") or {}).get("instanceCount") or 1)


def timeout_seconds(job: Mapping[str, Any]) -> float | None:
    """Return ``limits.timeout`` (an ISO 8601 duration) in seconds, or None.

    Raises:
        InvalidError: something else than a duration.
    """
    text = (job.get("limits") or {}).get("timeout")
    if text is None:
        return None
    seconds = seconds_of(str(text))
    if seconds is None:
        raise InvalidError(f"limits.timeout is not a duration of days, hours, minutes and seconds: '{text}'")
    return seconds


def shm_bytes(job: Mapping[str, Any]) -> int | None:
    """Return ``resources.shmSize`` (a number with b, k, m or g) in bytes, or None.

    Raises:
        InvalidError: something else.
    """
    text = (job.get("resources") or {}).get("shmSize")
    return None if text is None else size_bytes(str(text), "resources.shmSize")


NOT_SENT_BACK = frozenset({"docker arguments", "parent job"})
"""Parts of a job's essence that azure-ai-ml does not send back when it changes a job that it was shown."""


def changed(known: Mapping[str, Any], sent: Mapping[str, Any]) -> list[str]:
    """Return the fields of a job that differ in another submission of its name."""
    before, after = essence(known), essence(sent)
    return [
        part
        for part, value in before.items()
        if after[part] != value and (part not in NOT_SENT_BACK or any(after[part]))
    ]


def essence(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the unchangeable fields of a job, by which submissions are compared.

    The service's additions to a job that it shows (the default output, places of outputs, modes) are left out,
    so that a client may send back what it was shown.
    """
    outputs = {
        name: [str((value or {}).get(key) or "").lower() for key in ("jobOutputType", "assetName", "assetVersion")]
        for name, value in (job.get("outputs") or {}).items()
        if name != "default"
    }
    resources = job.get("resources") or {}
    inputs = {name: _input_essence(item or {}) for name, item in (job.get("inputs") or {}).items()}
    return {
        "command": job.get("command"),
        "code": str(job.get("codeId") or "").lower(),
        "environment": str(job.get("environmentId") or "").lower(),
        "compute": str(job.get("computeId") or "").lower(),
        "experiment": job.get("experimentName") or "Default",
        "environmentVariables": job.get("environmentVariables") or {},
        "inputs": inputs,
        "outputs": outputs,
        "timeout": timeout_seconds(job),
        "shm": shm_bytes(job) or DEFAULT_SHM_BYTES,
        "docker arguments": [resources.get("dockerArgs") or "", resources.get("dockerArgsList") or []],
        "instance count": instance_count(job),
        "distribution": {key: value for key, value in (job.get("distribution") or {}).items() if value is not None},
        "parent job": job.get("parentJobName") or "",
    }


def _input_essence(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return an input's essence; the mode that the service fills in is left out."""
    left = {key: value for key, value in given.items() if value is not None and key != "description"}
    if left.get("mode") == "ReadOnlyMount":
        del left["mode"]
    return left


INPUT_KINDS: Mapping[str, InputKind] = {kind: kind for kind in get_args(InputKind)}
OUTPUT_KINDS = frozenset(INPUT_KINDS) - {"literal"}
INPUT_MODES = frozenset({"ReadOnlyMount", "ReadWriteMount", "Download", "Direct"})
OUTPUT_MODES = frozenset({"ReadWriteMount", "Upload", "Direct"})

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INPUT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")
"""With a point for each group that the input is in."""
_ASSET_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,254}")
_MODES_OF_TABLES = ("EvalMount", "EvalDownload")


def check_inputs(inputs: Mapping[str, Any]) -> None:
    """Return if the emulator can give a job these inputs; raise DomainError otherwise."""
    for name, value in inputs.items():
        if not _INPUT_NAME.fullmatch(name):
            raise InvalidError(f"The name of the input '{name}' consists of letters, digits and '_' only.")
        kind = str((value or {}).get("jobInputType", "")).lower()
        if not _is_given(value):
            continue
        if kind not in INPUT_KINDS:
            raise NotSupportedError(f"input '{name}' of type '{kind}'")
        _check_fields("input", name, value, INPUT)
        if kind == "literal":
            continue
        if value.get("mode") in _MODES_OF_TABLES:
            raise NotSupportedError(
                f"mode '{value['mode']}' of input '{name}': tables are not evaluated; use ro_mount or download, and"
                " load the MLTable file in the job"
            )
        if value.get("mode") not in (None, *INPUT_MODES):
            raise NotSupportedError(f"mode '{value['mode']}' of input '{name}'")
        if not value.get("uri"):
            raise InvalidError(f"The input '{name}' has no uri.")


def check_outputs(outputs: Mapping[str, Any]) -> None:
    """Return if the emulator can keep these outputs; raise DomainError otherwise."""
    for name, value in outputs.items():
        if name == "default":
            continue
        if not _NAME.fullmatch(name):
            raise InvalidError(f"The name of the output '{name}' consists of letters, digits and '_' only.")
        kind = str((value or {}).get("jobOutputType", "")).lower()
        if kind not in OUTPUT_KINDS:
            raise NotSupportedError(f"output '{name}' of type '{kind}'")
        _check_fields("output", name, value, OUTPUT)
        if value.get("mode") not in (None, *OUTPUT_MODES):
            raise NotSupportedError(f"mode '{value['mode']}' of output '{name}'")
        asset = value.get("assetName")
        if asset and not _ASSET_NAME.fullmatch(str(asset)):
            raise InvalidError(f"The output '{name}' cannot be registered under the name '{asset}'.")
        if value.get("assetVersion") and not asset:
            raise InvalidError(f"The output '{name}' has a version to be registered under, and no name.")


def _check_fields(what: str, name: str, value: Mapping[str, Any], shape: Fields) -> None:
    for key, content in value.items():
        if key not in shape.fields and content not in (None, "", {}, []):
            raise NotSupportedError(f"{key} of {what} '{name}'")
