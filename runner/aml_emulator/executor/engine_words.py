"""Labels of everything on the engine, time-outs of calls, and the engine's faults."""

from __future__ import annotations

from docker.errors import APIError, DockerException
from requests.exceptions import RequestException

INSTANCE_LABEL = "org.aml-train.emulator.instance"
RUN_LABEL = "org.aml-train.emulator.run"
NODE_LABEL = "org.aml-train.emulator.node"

ENGINE_SECONDS = 600
"""Time-out of one call to the engine: extracting a large input into a container is slow."""

PING_SECONDS = 30

EngineFault = (DockerException, RequestException)
"""docker-py's errors if the engine refuses or does not answer."""


def labels(instance: str, run_id: str) -> dict[str, str]:
    """Return the labels of everything that belongs to a run."""
    return {INSTANCE_LABEL: instance, RUN_LABEL: run_id}


def fault_text(error: Exception) -> str:
    """Return the engine's message without docker-py's addresses around it."""
    return str(error.explanation) if isinstance(error, APIError) and error.explanation else str(error)
