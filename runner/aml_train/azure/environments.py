"""Environments of a workspace: the image that jobs in one of them run in."""

from __future__ import annotations

from urllib.parse import quote

from aml_train.azure.http import AzureHttp
from aml_train.core.errors import InvalidError

_API = {"api-version": "2023-08-01-preview"}


def find_environment_image(rest: AzureHttp, name: str, version: str | None) -> tuple[str, str]:
    """Return the version of an environment, and the name of its image.

    An environment of an image alone names it. For one with a conda file or a build context, AzureML builds the image, and reports its
    place to azureml-core's ``Environment.get_image_details`` (1.61, ``_restclient/environment_client.py``).

    Args:
        rest: the workspace.
        name: the environment's name.
        version: its version; None for the newest one.

    Raises:
        InvalidError: there is no such environment, or AzureML has not built its image.
        ServiceError: the workspace refuses or does not answer.
    """
    what = f"Looking for the environment {name}" + (f":{version}" if version else "")
    address = rest.arm(f"/environments/{quote(name)}")
    if version is None:
        container = rest.read(address, what, params=_API)
        version = None if container is None else container.optional_text("properties.latestVersion")
    found = None if version is None else rest.read(f"{address}/versions/{quote(version)}", what, params=_API)
    if version is None or found is None:
        raise InvalidError(
            f"{what}: the workspace {rest.workspace.name} has none", hint="List them: az ml environment list"
        )
    image = found.optional_text("properties.image")
    built = found.optional_text("properties.condaFile") or found.optional_text("properties.build.contextUri")
    if image and not built:
        return version, image
    return version, _built_image(rest, name, version)


def _built_image(rest: AzureHttp, name: str, version: str) -> str:
    """Return the name of the image that AzureML built; read no password."""
    what = f"Looking for the image of the environment {name}:{version}"
    found = rest.read(rest.environments(f"/environments/{quote(name)}/versions/{quote(version)}/image"), what)
    if found is None or not found.flag("imageExistsInRegistry"):
        raise InvalidError(
            f"AzureML has not built the image of the environment {name}:{version}",
            hint="Run a job in it, or build it: Environment.build of azureml-core, or its page in the studio.",
        )
    registry, image = found.optional_text("dockerImage.registry.address"), found.text("dockerImage.name")
    return f"{registry}/{image}" if registry else image
