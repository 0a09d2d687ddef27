"""The environment of a run configuration → that of a command job: what its images are made of, or its name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from aml_train.config.yaml.nodes import Faults, MapNode, ScalarNode, find, place, shown
from aml_train.config.yaml.source import kind_of
from aml_train.core.boundary import why_not_sent

DEFAULT_IMAGE: Final = "mcr.microsoft.com/azureml/openmpi4.1.0-ubuntu22.04"
"""What azureml-core takes where an environment names no image (``DEFAULT_CPU_IMAGE``), without its tag of a date."""

_CONDA: Final = ("environment", "python", "condaDependenciesFile")
_PASSWORD: Final = ("environment", "docker", "baseImageRegistry", "password")


def environment_of(tree: MapNode, values: Mapping[str, Any], directory: Path, faults: Faults) -> Any:
    """Return the environment as a command job says it; None after a complaint.

    Args:
        tree: the run configuration.
        values: what it says, checked.
        directory: what paths in it start from.
        faults: takes what a command job cannot have.
    """
    given = values.get("environment") or {}
    docker, python = given.get("docker") or {}, given.get("python") or {}
    for key in ("baseDockerfile", "buildContext"):
        if docker.get(key):
            remedy = "write `image: {dockerfile: Dockerfile}` in aml-train.yml: it is built, tested and recorded"
            _fault(tree, faults, "is not built", "environment", "docker", key, remedy=remedy)
            return None
    conda = python.get("condaDependenciesFile") or python.get("condaDependencies")
    if not docker.get("baseImage") and not conda:
        if given.get("name") and not python.get("userManagedDependencies"):
            version = given.get("version")
            return f"azureml:{given['name']}" + (f":{version}" if version else "@latest")
        remedy = "write `image: {base: …}` in aml-train.yml, or `environment.docker.baseImage`"
        faults.add(place(tree, "environment"), "nothing says which image the job runs in", remedy=remedy)
        return None
    registry = docker.get("baseImageRegistry") or {}
    if registry.get("password"):
        why = "a password does not belong in a file"
        remedy = "delete it; let the compute's identity pull (AcrPull), or make a connection of the workspace"
        _fault(tree, faults, "is not sent", *_PASSWORD, why=why, remedy=remedy)
    image = docker.get("baseImage") or DEFAULT_IMAGE
    found = {"image": f"{registry['address']}/{image}" if registry.get("address") else image}
    if python.get("userManagedDependencies") or not conda:
        return found
    if isinstance(conda, str):
        why = "it is no file there" if kind_of(directory / conda)[0] != "file" else ""
        why = why or why_not_sent(directory, conda, directory)
        remedy = "write a path relative to the source directory"
        if why:
            _fault(tree, faults, f"names `{shown(conda)}`", *_CONDA, why=why, remedy=remedy)
    return {**found, "conda_file": conda}


def _fault(tree: MapNode, faults: Faults, what: str, *keys: str, why: str = "", remedy: str = "") -> None:
    node = find(tree, *keys)
    mark = node.mark if isinstance(node, ScalarNode) else place(tree, *keys)
    faults.add(mark, f"`{'.'.join(keys)}` {what}", why=why, remedy=remedy)
