"""Resolve the base image: which manifest does its name mean now, and does the engine have it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from aml_train.errors import ImageError
from aml_train.image.registry import Registry
from aml_train.image.registry_auth import Login, RegistryAuth, is_loopback
from aml_train.image.spec import BaseImage
from aml_train.references import DOCKER_HUB, ImageRef

if TYPE_CHECKING:
    from docker import DockerClient

Registries = Callable[[str], Registry]
"""Makes a client for a registry's name, such as ``docker.io`` or ``nvcr.io``."""

# docker.io's interface and the key of its credentials in Docker's configuration file
# (https://docs.docker.com/reference/cli/docker/login/).
_HUB_HOST = "registry-1.docker.io"
_HUB_LOGIN = "https://index.docker.io/v1/"


def resolve_base(
    reference: ImageRef,
    *,
    platform: str,
    engine: DockerClient,
    registries: Registries,
    pull: Literal["missing", "always"] = "missing",
    where: str = "image.base",
) -> BaseImage:
    """Return the base with its digest.

    What the engine has counts, so that nothing is asked of a network that need not be there; ``always`` asks the registry
    first. An image that is in no registry, one that was imported or built here, is used as the engine has it.

    Args:
        reference: the base as the user wrote it.
        platform: what is built for; an engine's image for another one does not count.
        engine: the engine that will build.
        registries: makes a client for the base's registry.
        pull: ``missing`` or ``always``.
        where: the place in the user's file, for errors.

    Raises:
        ImageError: if neither engine nor registry has it, or the registry refuses or does not answer.
    """
    found = _in_engine(reference, platform, engine)
    if found is not None and (pull == "missing" or found.local_only):
        return found
    image_id = found.image_id if found is not None else None
    if reference.digest is not None and found is not None:
        return found
    try:
        with registries(reference.registry) as registry:
            head = registry.head_manifest(reference.repository, reference.digest or reference.tag or "latest")
    except ImageError as error:
        raise ImageError(
            f"{where}: the base {reference.familiar} is not in the engine, and {error.message}", hint=error.hint
        ) from error
    if head is None:
        raise ImageError(
            f"{where}: the base {reference.familiar} is neither in the engine nor in the registry {reference.registry}",
            hint="Check name and tag; an image of your own must be in the engine (docker image ls) or in a registry.",
        )
    same = found is not None and found.digest == head.digest
    return BaseImage(reference=reference, digest=head.digest, image_id=image_id if same else None)


def _in_engine(reference: ImageRef, platform: str, engine: DockerClient) -> BaseImage | None:
    """Return the base as the engine has it, or None."""
    from docker.errors import ImageNotFound

    try:
        attributes: Mapping[str, Any] = engine.images.get(reference.familiar).attrs
    except ImageNotFound:
        return None
    if f"{attributes['Os']}/{attributes['Architecture']}" != platform.rsplit("/v", 1)[0]:
        return None
    if reference.digest is not None:
        return BaseImage(reference=reference, digest=reference.digest, image_id=attributes["Id"])
    for text in attributes.get("RepoDigests") or ():
        known = ImageRef.parse(text)
        if (known.registry, known.repository) == (reference.registry, reference.repository):
            return BaseImage(reference=reference, digest=known.digest, image_id=attributes["Id"])
    return BaseImage(reference=reference, image_id=attributes["Id"], local_only=True)


def docker_registries(
    environ: Mapping[str, str], elsewhere: Callable[[str], RegistryAuth | Login | None] = lambda _registry: None
) -> Registries:
    """Return a maker of clients that use what Docker's users have set up.

    Credentials come from Docker's configuration file and its credential helpers, proxies from ``HTTPS_PROXY`` and
    ``NO_PROXY``, certificates from ``REQUESTS_CA_BUNDLE``, ``CURL_CA_BUNDLE`` or ``SSL_CERT_FILE``: all as *environ* has them.

    Args:
        environ: the process's environment.
        elsewhere: gives the credentials for a registry that Docker's configuration knows nothing of, or None.
    """

    def registry(name: str) -> Registry:
        host = _HUB_HOST if name == DOCKER_HUB else name
        url = registry_url(host)
        verify, proxies = network(url, environ)
        return Registry(url, auth=docker_login(name, environ) or elsewhere(name), verify=verify, proxies=proxies)

    return registry


def registry_url(host: str) -> str:
    """Return the address of the interface of the registry *host*: https, but for loopback."""
    return f"http://{host}" if is_loopback(host.rsplit(":", 1)[0]) else f"https://{host}"


def network(url: str, environ: Mapping[str, str]) -> tuple[bool | str, dict[str, str]]:
    """Return how to reach *url*, in requests' words *verify* and *proxies*, from the variables in *environ*."""
    from requests.utils import should_bypass_proxies

    proxy = environ.get("HTTPS_PROXY") or environ.get("https_proxy")
    bypass = should_bypass_proxies(url, environ.get("NO_PROXY") or environ.get("no_proxy"))
    names = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")
    bundle = next((environ[name] for name in names if environ.get(name)), None)
    return bundle or True, {"https": proxy} if proxy and not bypass else {}


def docker_login(registry: str, environ: Mapping[str, str]) -> RegistryAuth | None:
    """Return what ``docker login`` has kept for *registry*, or None.

    Raises:
        ImageError: if a configured credential helper fails.
    """
    from docker.auth import load_config
    from docker.errors import DockerException

    folder = environ.get("DOCKER_CONFIG") or (f"{environ['HOME']}/.docker" if environ.get("HOME") else None)
    try:
        config = load_config(f"{folder}/config.json" if folder else None, credstore_env=dict(environ))
        found = config.resolve_authconfig(_HUB_LOGIN if registry == DOCKER_HUB else registry)
    except DockerException as error:
        raise ImageError(
            f"the credentials for {registry} in Docker's configuration cannot be read: {error}",
            hint=f"Sign in again: docker login {registry}",
        ) from error
    if not found:
        return None
    return RegistryAuth(
        username=found.get("username") or found.get("Username") or "",
        password=found.get("password") or found.get("Password") or "",
        identity_token=found.get("identitytoken") or found.get("IdentityToken") or None,
    )
