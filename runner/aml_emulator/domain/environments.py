"""Environments: their images and builds, and azureml-core's definitions of them."""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from aml_emulator.domain.curated import curated_image, is_curated
from aml_emulator.domain.errors import DomainError, InvalidError, NotSupportedError
from aml_emulator.domain.locations import AssetId, parse_location
from aml_emulator.domain.workspace import Workspace
from aml_emulator.executor.spec import BuildSpec
from aml_emulator.reading import read_yaml
from aml_emulator.schema import FLAG, OBJECT, TEXT, WORD, WORDS, BodyError, Fields, ListOf, check
from aml_emulator.store.assets import AssetVersion

DOCKER = Fields(
    {
        "arguments": ListOf(WORD),
        "shmSize": WORD,
        "baseImage": TEXT,
        "baseDockerfile": TEXT,
        "baseImageRegistry": Fields({"address": TEXT}),
    }
)
"""The section of an environment and of a run configuration that Docker reads."""

ENVIRONMENT = Fields(
    {
        "name": TEXT,
        "version": WORD,
        "docker": DOCKER,
        "python": Fields({"interpreterPath": TEXT, "userManagedDependencies": FLAG, "condaDependencies": OBJECT}),
        "environmentVariables": WORDS,
    }
)
"""An environment of azureml-core, the first letters of whose names are small."""

DEFINITIONS = "v1-environments"
"""The kind under which definitions are kept as they came, by name and version of the environment."""

DOCKERFILES = "EnvironmentDockerfiles"
"""The folder of the default datastore that holds base Dockerfiles."""

DEFAULT_DOCKERFILE = "Dockerfile"

_REGISTRY = re.compile(
    r"azureml://registries/(?P<registry>[^/]+)/environments/(?P<name>[^/]+)(?:/(?:versions|labels)/(?P<version>[^/]+))?",
    re.IGNORECASE,
)
_CURATED = re.compile(r"(?:azureml:)?(?P<name>AzureML-[^/:@]+)(?:[:@](?P<version>[^/:@]+))?", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class JobImage:
    """The image of a job; *build* makes it where it is not an image already."""

    name: str
    build: BuildSpec | None = None


def image_of_environment(workspace: Workspace, environment_id: str) -> JobImage:
    """Return the image of an environment.

    Raises:
        NotFoundError: if it is not there.
        NotSupportedError: one of a registry that no image was named for.
    """
    environment = _shared(workspace, environment_id)
    if environment is None:
        curated = _REGISTRY.fullmatch(environment_id) or _CURATED.fullmatch(environment_id)
        if curated is not None:
            return JobImage(name=_curated(workspace, curated, environment_id))
    location = parse_location(environment_id, what="The job's environment")
    if not isinstance(location, AssetId) or location.kind not in ("", "environments"):
        raise InvalidError(f"The job's environment is not one: '{environment_id}'")
    environment = environment or workspace.store.assets.version("environments", location.name, location.version)
    # The version of an anonymous environment is a hash of 64 digits.
    title = f"{location.name}:{location.version[:12]}"
    if environment is None:
        raise InvalidError(f"The environment '{title}' was not found.")
    given = environment.properties
    if given.get("autoRebuild") not in (None, "Disabled"):
        raise NotSupportedError(f"autoRebuild '{given['autoRebuild']}' (environment '{title}')")
    context, image, conda_file = given.get("build") or {}, given.get("image"), given.get("condaFile")
    if context:
        return _from_context(workspace, title, context, conda_file)
    if not image:
        raise InvalidError(f"The environment '{title}' has no image.")
    if conda_file:
        tag = _tag(workspace, {"image": str(image), "conda": str(conda_file)})
        return JobImage(name=tag, build=BuildSpec(tag=tag, title=title, base=str(image), conda=str(conda_file)))
    return JobImage(name=str(image))


def _shared(workspace: Workspace, environment_id: str) -> AssetVersion | None:
    """Return an environment of a registry that was made here, None for any other."""
    if _REGISTRY.fullmatch(environment_id) is None:
        return None
    location = parse_location(environment_id)
    return workspace.asset_version(location, "environments") if isinstance(location, AssetId) else None


def _from_context(workspace: Workspace, title: str, context: Mapping[str, object], conda: object) -> JobImage:
    uri = str(context.get("contextUri") or "")
    dockerfile = str(context.get("dockerfilePath") or DEFAULT_DOCKERFILE).strip("/")
    if uri.startswith("git") or ".git" in uri.partition("#")[0].rpartition("/")[2]:
        raise NotSupportedError(f"build contexts from git (environment '{title}')")
    folder = workspace.folder(uri)
    tag = _tag(workspace, {"container": folder.container, "prefix": folder.prefix, "dockerfile": dockerfile})
    build = BuildSpec(tag=tag, title=title, context=folder, dockerfile=dockerfile)
    if conda:
        # azureml-core alone has such environments: a base Dockerfile and conda dependencies.
        over = _tag(workspace, {"image": tag, "conda": str(conda)})
        build = replace(build, tag=over, base=tag, conda=str(conda))
    return JobImage(name=build.tag, build=build)


def context_as_known(workspace: Workspace, known: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return *given* with the known build context if its files are the same.

    A client that uploads the same files again names another folder. See azure-sdk-for-python,
    sdk/ml/azure-ai-ml/tests/environment/e2etests, test_environment_create_or_update_docker_context.
    """
    before, now = known.get("build"), given.get("build")
    if not isinstance(before, Mapping) or not isinstance(now, Mapping) or before == now:
        return dict(given)
    paths = [str(one.get("dockerfilePath") or DEFAULT_DOCKERFILE) for one in (before, now)]
    files = _files(workspace, now) if paths[0] == paths[1] else {}
    if not files or files != _files(workspace, before):
        return dict(given)
    return {**given, "build": before}


def _files(workspace: Workspace, context: Mapping[str, Any]) -> dict[str, str]:
    """Return the digest of each file of a build context in the workspace's storage."""
    try:
        folder = workspace.folder(str(context.get("contextUri") or ""))
    except DomainError:
        return {}
    found = {}
    for entry in workspace.blobs.walk(folder.container, folder.prefix):
        digest = hashlib.sha256()
        for chunk in workspace.blobs.read(folder.container, folder.name_of(entry.name)):
            digest.update(chunk)
        found[entry.name] = digest.hexdigest()
    return found


def _tag(workspace: Workspace, made_of: Mapping[str, str]) -> str:
    """Return the name of the image of this content, the same for equal versions.

    As on Azure, a version of an environment is built once: its address is not read again.
    """
    digest = hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()
    return f"aml-environment-{workspace.identity.instance[:8].lower()}:{digest[:40]}"


def _curated(workspace: Workspace, named: re.Match[str], environment_id: str) -> str:
    """Return the local image that plays a curated environment."""
    name, version = str(named["name"]), named["version"]
    image = curated_image(workspace, name, version)
    if image is not None:
        return image
    example = f"{name.rpartition('-')[0] or name}*" if "-" in name else name
    raise NotSupportedError(
        f"the curated environment '{environment_id}' without an image of this machine to play it: name one with"
        f" aml-train emulator environment add '{example}' IMAGE (aml-emulator serve --environment '{example}=IMAGE'),"
        " or in aml-train.yml under targets.local.environments"
    )


def lower_field_names(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a definition with small first letters of its fields, and no password.

    Images of other registries are pulled with the engine's credentials.
    """
    found = {key[:1].lower() + key[1:]: item for key, item in value.items()}
    docker = found.get("docker")
    registry = docker.get("baseImageRegistry") if isinstance(docker, Mapping) else None
    if isinstance(docker, Mapping) and isinstance(registry, Mapping) and registry.get("password"):
        found["docker"] = {**docker, "baseImageRegistry": {**registry, "password": None}}
    return found


def asset_properties(workspace: Workspace, definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties of a definition's asset: an image, or its build.

    Raises:
        NotSupportedError: a part of it that cannot be played.
        InvalidError: one without any image.
    """
    docker, python = definition.get("docker") or {}, definition.get("python") or {}
    if docker.get("buildContext"):
        raise NotSupportedError("environments of a Docker build context in azureml-core (docker.build_context)")
    if definition.get("r"):
        raise NotSupportedError("environments with an R section")
    found: dict[str, Any] = {"osType": "Linux", "tags": {}, "properties": {}}
    dockerfile, image = docker.get("baseDockerfile"), docker.get("baseImage")
    if dockerfile:
        found["build"] = {"contextUri": _context(workspace, str(dockerfile)), "dockerfilePath": "Dockerfile"}
    elif image:
        address = (docker.get("baseImageRegistry") or {}).get("address")
        prefixed = f"{address}/{image}" if address and not str(image).startswith(f"{address}/") else str(image)
        found["image"] = prefixed
    else:
        raise InvalidError(
            f"The environment '{definition.get('name')}' has neither a base image nor a base Dockerfile."
        )
    conda = python.get("condaDependencies")
    if conda and not python.get("userManagedDependencies"):
        found["condaFile"] = json.dumps(conda, indent=2)
    return found


def _context(workspace: Workspace, dockerfile: str) -> str:
    """Return the address of a build context that holds this Dockerfile alone."""
    data = dockerfile.encode()
    prefix = f"{DOCKERFILES}/{hashlib.sha256(data).hexdigest()[:40]}"
    container = workspace.identity.blob_container
    if workspace.blobs.size(container, f"{prefix}/Dockerfile") is None:
        workspace.blobs.write(container, f"{prefix}/Dockerfile", io.BytesIO(data), len(data))
    return f"azureml://datastores/workspaceblobstore/paths/{prefix}/"


def _checked(given: dict[str, Any]) -> dict[str, Any]:
    """Return a definition whose fields have the right types; raise InvalidError."""
    try:
        check(ENVIRONMENT, given)
    except BodyError as error:
        raise InvalidError(f"The environment's {error}") from error
    return given


def register_environment(
    workspace: Workspace, name: str, version: str | None, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Store a version of an environment; return its definition as the service does.

    The same definition again is the same version; without *version*, another one is the next.

    Raises:
        DomainError: as `asset_properties`; 400 for a version that is there with another definition.
    """
    definition = {**_checked(lower_field_names(given)), "name": name}
    definition.pop("version", None)
    properties = asset_properties(workspace, definition)
    assets = workspace.store.assets
    with workspace.store.transaction():
        for known in assets.versions("environments", name):
            anonymous = bool(known.properties.get("isAnonymous"))
            if not anonymous and version in (None, known.version) and _kept(workspace, known) == definition:
                return {**definition, "version": known.version}
            if version == known.version:
                raise InvalidError(f"The environment '{name}:{version}' exists already and cannot be changed.")
        chosen = version or assets.next_version("environments", name)
        assets.put("environments", name, chosen, properties)
        assets.put_container(DEFINITIONS, f"{name}:{chosen}", definition)
    return {**definition, "version": chosen}


def environment_of_run(workspace: Workspace, given: Mapping[str, Any]) -> str:
    """Return the ARM id of a run configuration's environment, stored if it is new.

    One that was registered with this content is that version; any other is stored under a hash of its content.
    """
    given = _checked(lower_field_names(given))
    name = str(given.get("name") or "Experiment environment").replace(" ", "-")
    curated = workspace.environments.image_of(name, given.get("version")) if is_curated(name) else None
    definition = {key: value for key, value in given.items() if key not in ("version", "assetId", "databricks")}
    definition["name"] = name
    if curated is not None:
        definition["docker"] = {**(definition.get("docker") or {}), "baseImage": curated, "baseDockerfile": None}
        definition["python"] = {**(definition.get("python") or {}), "userManagedDependencies": True}
    properties = asset_properties(workspace, definition)
    assets, version = workspace.store.assets, str(given.get("version") or "")
    with workspace.store.transaction():
        known = assets.version("environments", name, version)
        if known is None or _made_of(known.properties) != _made_of(properties):
            digest = hashlib.sha256(json.dumps(_made_of(properties), sort_keys=True).encode()).hexdigest()
            version = f"Autosave_{digest[:16]}"
            if assets.version("environments", name, version) is None:
                assets.put("environments", name, version, {**properties, "isAnonymous": True})
                assets.put_container(DEFINITIONS, f"{name}:{version}", definition)
    return f"{workspace.identity.workspace_arm_id}/environments/{name}/versions/{version}"


def environment_definition(workspace: Workspace, asset: AssetVersion) -> dict[str, Any]:
    """Return an environment as azureml-core reads it, whichever SDK registered it."""
    kept = _kept(workspace, asset)
    if kept is not None:
        return {**kept, "version": asset.version}
    image, conda = asset.properties.get("image"), asset.properties.get("condaFile")
    found = plain_definition(asset.name, asset.version, image, conda_of(str(conda)) if conda else None)
    if build := asset.properties.get("build"):
        found["docker"]["buildContext"] = {
            "locationType": "storageAccount",
            "location": build.get("contextUri"),
            "dockerfilePath": build.get("dockerfilePath") or "Dockerfile",
        }
    return found


def conda_of(text: str) -> Any:
    """Return a conda file's content as JSON: YAML's dates become text.

    Raises:
        InvalidError: a text that is no YAML.
    """
    try:
        return json.loads(json.dumps(read_yaml(text), default=str))
    except (TypeError, ValueError) as error:
        raise InvalidError(f"The environment's conda file is not YAML that JSON could hold: {error}.") from error


def plain_definition(name: str, version: str | None, image: str | None, conda: Any = None) -> dict[str, Any]:
    """Return the definition of an image as an environment, with or without conda.

    *image* is None for a build context.
    """
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


def _kept(workspace: Workspace, asset: AssetVersion) -> dict[str, Any] | None:
    container = workspace.store.assets.container(DEFINITIONS, f"{asset.name}:{asset.version}")
    return None if container is None else dict(container.properties)


def _made_of(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {key: properties.get(key) for key in ("image", "build", "condaFile")}
