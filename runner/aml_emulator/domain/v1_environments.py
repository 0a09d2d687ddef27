"""Environments as azureml-core defines them: kept as the same assets that azure-ai-ml sees."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from typing import Any

import yaml

from aml_emulator.api.bodies import BodyError, check
from aml_emulator.context import Services
from aml_emulator.domain.jobs.types import ENVIRONMENT
from aml_emulator.errors import NotSupportedError, bad_request
from aml_emulator.store.assets import AssetVersion

DEFINITIONS = "v1-environments"
"""The kind under which definitions are kept as they came, by name and version of the environment."""

DOCKERFILES = "EnvironmentDockerfiles"
"""The folder of the default datastore that holds base Dockerfiles."""


def lowered(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a definition with the first letter of each top-level name small, as the service answers it, and no password.

    Images of other registries are pulled with what the engine is signed in with.
    """
    found = {key[:1].lower() + key[1:]: item for key, item in value.items()}
    docker = found.get("docker")
    registry = docker.get("baseImageRegistry") if isinstance(docker, Mapping) else None
    if isinstance(docker, Mapping) and isinstance(registry, Mapping) and registry.get("password"):
        found["docker"] = {**docker, "baseImageRegistry": {**registry, "password": None}}
    return found


def asset_properties(services: Services, definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a definition makes of an environment asset: an image, or how one is built.

    Raises:
        ServiceError: 501 for a part of it that cannot be played; 400 for one without any image.
    """
    docker, python = definition.get("docker") or {}, definition.get("python") or {}
    if docker.get("buildContext"):
        raise NotSupportedError("environments of a Docker build context in azureml-core (docker.build_context)")
    if definition.get("r"):
        raise NotSupportedError("environments with an R section")
    found: dict[str, Any] = {"osType": "Linux", "tags": {}, "properties": {}}
    dockerfile, image = docker.get("baseDockerfile"), docker.get("baseImage")
    if dockerfile:
        found["build"] = {"contextUri": _context(services, str(dockerfile)), "dockerfilePath": "Dockerfile"}
    elif image:
        address = (docker.get("baseImageRegistry") or {}).get("address")
        prefixed = f"{address}/{image}" if address and not str(image).startswith(f"{address}/") else str(image)
        found["image"] = prefixed
    else:
        raise bad_request(
            f"The environment '{definition.get('name')}' has neither a base image nor a base Dockerfile."
        )
    conda = python.get("condaDependencies")
    if conda and not python.get("userManagedDependencies"):
        found["condaFile"] = yaml.safe_dump(conda, sort_keys=False)
    return found


def _context(services: Services, dockerfile: str) -> str:
    """Return the address of a build context that holds this Dockerfile alone."""
    data = dockerfile.encode()
    prefix = f"{DOCKERFILES}/{hashlib.sha256(data).hexdigest()[:40]}"
    container = services.identity.blob_container
    if services.blobs.size(container, f"{prefix}/Dockerfile") is None:
        services.blobs.write(container, f"{prefix}/Dockerfile", io.BytesIO(data), len(data))
    return f"azureml://datastores/workspaceblobstore/paths/{prefix}/"


def _checked(given: dict[str, Any]) -> dict[str, Any]:
    """Return a definition whose fields have the types of azureml-core; raises ServiceError for another one."""
    try:
        check(ENVIRONMENT, given)
    except BodyError as error:
        raise bad_request(f"The environment's {error}") from error
    return given


def register(services: Services, name: str, version: str | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """Keep a version of an environment and return its definition as the service answers it.

    The same definition again is the same version; without *version*, another one is the next.

    Raises:
        ServiceError: as `asset_properties`; 400 for a version that is there with another definition.
    """
    definition = {**_checked(lowered(given)), "name": name}
    definition.pop("version", None)
    properties = asset_properties(services, definition)
    assets = services.store.assets
    with services.store.transaction():
        for known in assets.versions("environments", name):
            anonymous = bool(known.properties.get("isAnonymous"))
            if not anonymous and version in (None, known.version) and _kept(services, known) == definition:
                return {**definition, "version": known.version}
            if version == known.version:
                raise bad_request(f"The environment '{name}:{version}' exists already and cannot be changed.")
        chosen = version or assets.next_version("environments", name)
        assets.put("environments", name, chosen, properties)
        assets.put_container(DEFINITIONS, f"{name}:{chosen}", definition)
    return {**definition, "version": chosen}


def for_run(services: Services, given: Mapping[str, Any]) -> str:
    """Return the ARM id of the environment that a run configuration holds whole, kept if it is new.

    One that was registered just so is that version; any other is kept under a version that tells what it is made of.
    """
    given = _checked(lowered(given))
    name = str(given.get("name") or "Experiment environment").replace(" ", "-")
    curated = services.environments.image_of(name, given.get("version")) if _is_curated(name) else None
    definition = {key: value for key, value in given.items() if key not in ("version", "assetId", "databricks")}
    definition["name"] = name
    if curated is not None:
        definition["docker"] = {**(definition.get("docker") or {}), "baseImage": curated, "baseDockerfile": None}
        definition["python"] = {**(definition.get("python") or {}), "userManagedDependencies": True}
    properties = asset_properties(services, definition)
    assets, version = services.store.assets, str(given.get("version") or "")
    with services.store.transaction():
        known = assets.version("environments", name, version)
        if known is None or _made_of(known.properties) != _made_of(properties):
            digest = hashlib.sha256(json.dumps(_made_of(properties), sort_keys=True).encode()).hexdigest()
            version = f"Autosave_{digest[:16]}"
            if assets.version("environments", name, version) is None:
                assets.put("environments", name, version, {**properties, "isAnonymous": True})
                assets.put_container(DEFINITIONS, f"{name}:{version}", definition)
    return f"{services.identity.workspace_arm_id}/environments/{name}/versions/{version}"


def definition_of(services: Services, asset: AssetVersion) -> dict[str, Any]:
    """Return an environment as azureml-core reads it, whichever SDK registered it.

    Raises:
        ServiceError: 501 for one that azureml-core has no words for.
    """
    kept = _kept(services, asset)
    if kept is not None:
        return {**kept, "version": asset.version}
    image, conda = asset.properties.get("image"), asset.properties.get("condaFile")
    if not image:
        raise NotSupportedError(
            f"the environment '{asset.name}:{asset.version}' in azureml-core: it is a build context"
        )
    return plain_definition(asset.name, asset.version, str(image), conda_of(str(conda)) if conda else None)


def conda_of(text: str) -> Any:
    """Return what a conda file says, as JSON can hold it: a date, which YAML knows, is text.

    Raises:
        ServiceError: 400 for a text that is no YAML.
    """
    try:
        return json.loads(json.dumps(yaml.safe_load(text), default=str))
    except (yaml.YAMLError, TypeError, ValueError, RecursionError) as error:
        raise bad_request("The environment's conda file is not YAML that JSON could hold.") from error


def plain_definition(name: str, version: str | None, image: str, conda: Any = None) -> dict[str, Any]:
    """Return the definition of an environment that is an image, with a conda file over it or without."""
    return {
        "name": name,
        "version": version,
        "python": {
            "userManagedDependencies": conda is None,
            "interpreterPath": "python",
            "condaDependenciesFile": None,
            "baseCondaEnvironment": None,
            "condaDependencies": conda,
        },
        "environmentVariables": {},
        "docker": {
            "baseImage": image,
            "baseDockerfile": None,
            "buildContext": None,
            "platform": {"os": "Linux", "architecture": "amd64"},
            "baseImageRegistry": {"address": None, "username": None, "password": None, "registryIdentity": None},
            "enabled": False,
            "sharedVolumes": True,
            "shmSize": None,
            "arguments": [],
        },
        "spark": {"repositories": [], "packages": [], "precachePackages": True},
        "inferencingStackVersion": None,
        "r": None,
    }


def _kept(services: Services, asset: AssetVersion) -> dict[str, Any] | None:
    container = services.store.assets.container(DEFINITIONS, f"{asset.name}:{asset.version}")
    return None if container is None else dict(container.properties)


def _made_of(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {key: properties.get(key) for key in ("image", "build", "condaFile")}


def _is_curated(name: str) -> bool:
    return name.lower().startswith("azureml-")
