"""What the emulator accepts of a job, field by field. Pure.

Fields are those of ``CommandJob`` in AzureML's REST API, 2025-01-01-preview. Whatever is set and not known here is
refused by name: a job never runs with a setting of its author left out in silence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from aml_emulator.durations import seconds_of
from aml_emulator.errors import NotSupportedError, bad_request
from aml_emulator.executor.spec import InputKind
from aml_emulator.expressions import ExpressionError, references

JOB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,254}")

EXECUTED = frozenset(
    {
        "codeId",
        "command",
        "computeId",
        "description",
        "displayName",
        "distribution",
        "environmentId",
        "environmentVariables",
        "experimentName",
        "inputs",
        "isArchived",
        "jobType",
        "limits",
        "outputs",
        "properties",
        "queueSettings",
        "resources",
        "tags",
    }
)
"""Fields that are acted on, below checked further."""

READ_ONLY = frozenset({"parameters", "provisioningState", "status"})
"""Fields that the service fills in and ignores when they are sent."""

INPUT_KINDS: Mapping[str, InputKind] = {
    "literal": "literal",
    "uri_file": "uri_file",
    "uri_folder": "uri_folder",
    "mltable": "mltable",
    "mlflow_model": "mlflow_model",
    "custom_model": "custom_model",
    "triton_model": "triton_model",
}
OUTPUT_KINDS = frozenset(INPUT_KINDS) - {"literal"}
INPUT_MODES = frozenset({"ReadOnlyMount", "ReadWriteMount", "Download"})
OUTPUT_MODES = frozenset({"ReadWriteMount", "Upload"})

_SHM = re.compile(r"(\d+)([bkmg]?)b?", re.IGNORECASE)
_UNITS = {"": 1, "b": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


def check_job(job: Mapping[str, Any]) -> None:
    """Return if a job of these ``properties`` can be run.

    Raises:
        ServiceError: 501 for what is not supported, naming the field; 400 for what AzureML would refuse as well.
    """
    kind = str(job.get("jobType") or "")
    if kind.lower() != "command":
        raise NotSupportedError(f"jobs of type '{kind}' (only 'Command')")
    for name, value in job.items():
        if name not in EXECUTED | READ_ONLY and value not in (None, {}, [], ""):
            raise NotSupportedError(f"the job's field '{name}'")
    if not str(job.get("command") or "").strip():
        raise bad_request("The job has no command.")
    if not job.get("environmentId"):
        raise bad_request("The job has no environment.")
    if not job.get("computeId"):
        raise NotSupportedError("serverless compute (a job without 'computeId')")
    _check_queue(job.get("queueSettings") or {})
    _check_resources(job.get("resources") or {})
    _check_distribution(job.get("distribution") or {})
    _check_places(job)
    _check_command(job)
    timeout_seconds(job)
    shm_bytes(job)


def _check_queue(queue: Mapping[str, Any]) -> None:
    if queue.get("jobTier") not in (None, "Null", "Standard"):
        raise NotSupportedError(f"queueSettings.jobTier '{queue['jobTier']}'")
    if queue.get("priority") not in (None, 0, 1):
        raise NotSupportedError("queueSettings.priority")


def _check_resources(resources: Mapping[str, Any]) -> None:
    if resources.get("instanceCount") not in (None, 1):
        raise NotSupportedError(f"resources.instanceCount {resources['instanceCount']} (only 1)")
    if resources.get("dockerArgs"):
        raise NotSupportedError("resources.dockerArgs")
    if resources.get("dockerArgsList"):
        raise NotSupportedError("resources.dockerArgsList")


def _check_distribution(distribution: Mapping[str, Any]) -> None:
    if not distribution:
        return
    kind = str(distribution.get("distributionType"))
    if kind != "PyTorch":
        raise NotSupportedError(f"distribution of type '{kind}' (only 'PyTorch', with one process)")
    if distribution.get("processCountPerInstance") not in (None, 1):
        raise NotSupportedError("distribution.processCountPerInstance other than 1")


def _check_places(job: Mapping[str, Any]) -> None:
    for name, value in (job.get("inputs") or {}).items():
        kind = str((value or {}).get("jobInputType", "")).lower()
        if kind not in INPUT_KINDS:
            raise NotSupportedError(f"input '{name}' of type '{kind}'")
        if kind != "literal" and value.get("mode") not in (None, *INPUT_MODES):
            raise NotSupportedError(f"mode '{value['mode']}' of input '{name}'")
        if kind != "literal" and not value.get("uri"):
            raise bad_request(f"The input '{name}' has no uri.")
        if value.get("pathOnCompute"):
            raise NotSupportedError(f"pathOnCompute of input '{name}'")
    for name, value in (job.get("outputs") or {}).items():
        kind = str((value or {}).get("jobOutputType", "")).lower()
        if kind not in OUTPUT_KINDS:
            raise NotSupportedError(f"output '{name}' of type '{kind}'")
        if value.get("mode") not in (None, *OUTPUT_MODES):
            raise NotSupportedError(f"mode '{value['mode']}' of output '{name}'")
        for key in ("assetName", "assetVersion", "autoDeleteSetting", "pathOnCompute"):
            if value.get(key):
                raise NotSupportedError(f"{key} of output '{name}'")


def _check_command(job: Mapping[str, Any]) -> None:
    given = {"inputs": given_inputs(job), "outputs": job.get("outputs") or {}}
    try:
        for reference in references(str(job["command"])):
            if reference.name not in given[reference.group] and not (
                reference.optional and reference.group == "inputs"
            ):
                raise bad_request(
                    f"The command refers to ${{{{{reference.group}.{reference.name}}}}}, but the job has no"
                    f" {reference.group[:-1]} of that name."
                )
    except ExpressionError as error:
        raise bad_request(f"The command cannot be resolved: {error}") from error


def given_inputs(job: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the inputs that have a value; a literal of null is an optional one that was not given."""
    return {
        name: value
        for name, value in (job.get("inputs") or {}).items()
        if value and not (str(value.get("jobInputType")).lower() == "literal" and value.get("value") is None)
    }


def timeout_seconds(job: Mapping[str, Any]) -> float | None:
    """Return ``limits.timeout`` (an ISO 8601 duration) in seconds, or None.

    Raises:
        ServiceError: 400 for something else than a duration.
    """
    text = (job.get("limits") or {}).get("timeout")
    if text is None:
        return None
    seconds = seconds_of(str(text))
    if seconds is None:
        raise bad_request(f"limits.timeout is not a duration of days, hours, minutes and seconds: '{text}'")
    return seconds


def shm_bytes(job: Mapping[str, Any]) -> int | None:
    """Return ``resources.shmSize`` (a number with b, k, m or g) in bytes, or None.

    Raises:
        ServiceError: 400 for something else.
    """
    text = (job.get("resources") or {}).get("shmSize")
    if text is None:
        return None
    match = _SHM.fullmatch(str(text))
    if match is None or int(match.group(1)) == 0:
        raise bad_request(f"resources.shmSize is not a size such as '2g': '{text}'")
    return int(match.group(1)) * _UNITS[match.group(2).lower()]


def essence(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return what makes two submissions the same job: everything that cannot be changed once it is submitted.

    What the service itself adds to a job that it shows (the default output, where outputs lie, modes) is left out,
    so that a client may send back what it was shown.
    """
    outputs = {
        name: str((value or {}).get("jobOutputType", "")).lower()
        for name, value in (job.get("outputs") or {}).items()
        if name != "default"
    }
    inputs = {
        name: {key: value for key, value in (item or {}).items() if value is not None and key != "description"}
        for name, item in (job.get("inputs") or {}).items()
    }
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
        "shm": shm_bytes(job),
    }
