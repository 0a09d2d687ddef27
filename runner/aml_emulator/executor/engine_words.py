"""What is said to the engine and of it: the labels of everything that is made, its patience, its faults."""

from __future__ import annotations

from docker.errors import APIError, DockerException
from requests.exceptions import RequestException

INSTANCE_LABEL = "org.aml-train.emulator.instance"
RUN_LABEL = "org.aml-train.emulator.run"
NODE_LABEL = "org.aml-train.emulator.node"

ENGINE_SECONDS = 600
"""Patience with one call to the engine: extracting a large input into a container takes its time."""

PING_SECONDS = 30

EngineFault = (DockerException, RequestException)
"""What docker-py raises when the engine refuses or does not answer."""


def labels(instance: str, run_id: str) -> dict[str, str]:
    """Return the labels of everything that belongs to a run."""
    return {INSTANCE_LABEL: instance, RUN_LABEL: run_id}


def fault_text(error: Exception) -> str:
    """Return what the engine said, without the addresses that docker-py wraps around it."""
    return str(error.explanation) if isinstance(error, APIError) and error.explanation else str(error)
