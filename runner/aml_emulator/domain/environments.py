"""From the environment that a job names to the image it runs in, and how that image is made where it has to be."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from aml_emulator.context import Services
from aml_emulator.domain.locations import AssetId, LocationError, parse
from aml_emulator.errors import NotSupportedError, bad_request
from aml_emulator.executor.spec import BuildSpec

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


def image_for(services: Services, environment_id: str) -> JobImage:
    """Return the image of an environment.

    Raises:
        ServiceError: 404 if it is not there; 501 for one of a registry that no image was named for.
    """
    curated = _REGISTRY.fullmatch(environment_id) or _CURATED.fullmatch(environment_id)
    if curated is not None:
        return JobImage(name=_curated(services, curated, environment_id))
    try:
        location = parse(environment_id)
    except LocationError as error:
        raise bad_request(f"The job's environment: {error}") from error
    if not isinstance(location, AssetId) or location.kind not in ("", "environments"):
        raise bad_request(f"The job's environment is not one: '{environment_id}'")
    environment = services.store.assets.version("environments", location.name, location.version)
    # The version of an anonymous environment is a hash of 64 digits.
    title = f"{location.name}:{location.version[:12]}"
    if environment is None:
        raise bad_request(f"The environment '{title}' was not found.")
    given = environment.properties
    if given.get("autoRebuild") not in (None, "Disabled"):
        raise NotSupportedError(f"autoRebuild '{given['autoRebuild']}' (environment '{title}')")
    context, image, conda_file = given.get("build") or {}, given.get("image"), given.get("condaFile")
    if context:
        return _from_context(services, title, context, conda_file)
    if not image:
        raise bad_request(f"The environment '{title}' has no image.")
    if conda_file:
        tag = _tag(services, {"image": str(image), "conda": str(conda_file)})
        return JobImage(name=tag, build=BuildSpec(tag=tag, title=title, base=str(image), conda=str(conda_file)))
    return JobImage(name=str(image))


def _from_context(services: Services, title: str, context: Mapping[str, object], conda: object) -> JobImage:
    uri = str(context.get("contextUri") or "")
    dockerfile = str(context.get("dockerfilePath") or DEFAULT_DOCKERFILE).strip("/")
    if uri.startswith("git") or ".git" in uri.partition("#")[0].rpartition("/")[2]:
        raise NotSupportedError(f"build contexts from git (environment '{title}')")
    folder = services.folder(uri)
    tag = _tag(services, {"container": folder.container, "prefix": folder.prefix, "dockerfile": dockerfile})
    build = BuildSpec(tag=tag, title=title, context=folder, dockerfile=dockerfile)
    if conda:
        # azureml-core alone has such environments: a base Dockerfile and conda dependencies.
        over = _tag(services, {"image": tag, "conda": str(conda)})
        build = replace(build, tag=over, base=tag, conda=str(conda))
    return JobImage(name=build.tag, build=build)


def _tag(services: Services, made_of: Mapping[str, str]) -> str:
    """Return the name of the image that is made of this, the same for each version of an environment that is.

    As on Azure, a version of an environment is built once: what lies at its address is not looked at again.
    """
    digest = hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()
    return f"aml-environment-{services.identity.instance[:8].lower()}:{digest[:40]}"


def _curated(services: Services, named: re.Match[str], environment_id: str) -> str:
    """Return the local image that plays a curated environment."""
    name, version = str(named["name"]), named["version"]
    image = services.environments.image_of(name, version)
    if image is not None:
        return image
    example = f"{name.rpartition('-')[0] or name}*" if "-" in name else name
    raise NotSupportedError(
        f"the curated environment '{environment_id}' without an image of this machine to play it: name one with"
        f" aml-train emulator start --environment '{example}=IMAGE' (aml-emulator serve: the same), or in aml-train.yml"
        f" under targets.local.environments"
    )
