"""The base image: which digest its tag means, and what it holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from docker.auth import load_config
from docker.errors import DockerException, ImageNotFound
from requests.utils import should_bypass_proxies

from aml_train.config.sections.image import ImageConfig, PullPolicy
from aml_train.core.docker import read_docker_configuration
from aml_train.core.errors import AmlTrainError, ImageError
from aml_train.core.references import DOCKER_HUB, ImageRef
from aml_train.image.base_files import BaseFiles, ImageSettings, Registries
from aml_train.image.inputs import BaseImage
from aml_train.image.registry.auth import Login, RegistryAuth, is_loopback
from aml_train.image.registry.client import Registry
from aml_train.image.registry.manifest import ManifestHead

if TYPE_CHECKING:
    from docker import DockerClient

# docker.io's interface and the key of its credentials in Docker's configuration file
# (https://docs.docker.com/reference/cli/docker/login/).
_HUB_HOST = "registry-1.docker.io"
_HUB_LOGIN = "https://index.docker.io/v1/"


def resolve_base(
    reference: ImageRef,
    *,
    platform: str,
    engine: DockerClient | None,
    registries: Registries,
    pull: PullPolicy = "check",
    remark: Callable[[str], object] = lambda _text: None,
    where: str = "image.base",
) -> BaseImage:
    """Return the base with its digest.

    A tag may have moved in the registry since the engine pulled it. ``check`` looks with one request, which Docker Hub does not
    count (https://docs.docker.com/docker-hub/usage/pulls/), and uses what the engine has if no answer comes; ``always`` needs the answer; ``missing`` asks only for what the engine does not have. An
    image that is in no registry, one that was imported or built here, is used as it is in the engine.

    Args:
        reference: the base as the user wrote it.
        platform: what is built for; an engine's image for another one does not count.
        engine: the engine that will build; None for a builder that pulls each base from its registry.
        registries: makes a client for the base's registry.
        pull: see above.
        remark: is given a sentence if engine and registry differ, or if the registry's answer is not known.
        where: the place in the user's file, for errors.

    Raises:
        ImageError: if neither engine nor registry has the image, or a needed registry refuses or does not answer.
    """
    found = None if engine is None else _in_engine(reference, platform, engine)
    if found is None:
        return BaseImage(reference=reference, digest=_registrys_digest(reference, registries, where, in_engine=False))
    base, digests = found
    if base.local_only or reference.digest is not None or pull == "missing":
        return base

    def at(digest: str) -> BaseImage:
        """Return the base at *digest*; another one than the engine's has no image id."""
        return BaseImage(reference=reference, digest=digest, image_id=base.image_id if digest in digests else None)

    if pull == "always":
        return at(_registrys_digest(reference, registries, where, in_engine=True))
    name, engines = reference.familiar, _short(base.digest)
    try:
        head = _head(reference, registries, attempts=1)
        why = f"{reference.registry} does not have it any more"
    except AmlTrainError as error:  # of the registry, or of the sign-in to it
        head, why = None, error.message
    if head is None:
        remark(f"{where}: whether {name} has moved is not known ({why}); the engine's {engines} is used.")
        return base
    if head.digest not in digests:
        remark(
            f"{where}: {name} has moved: the registry has {_short(head.digest)}, the engine {engines}. The image is "
            "built from the registry's; `image.pull: missing` keeps the engine's."
        )
    return at(head.digest)


def _registrys_digest(reference: ImageRef, registries: Registries, where: str, *, in_engine: bool) -> str:
    """Return the digest that *reference* has in its registry, which must have it."""
    name = f"{where}: the base {reference.familiar}"
    try:
        head = _head(reference, registries)
    except ImageError as error:
        why = "cannot be looked up, as `image.pull: always` demands:" if in_engine else "is not in the engine, and"
        raise ImageError(f"{name} {why} {error.message}", hint=error.hint) from error
    if head is None:
        place = "is not" if in_engine else "is neither in the engine nor"
        raise ImageError(
            f"{name} {place} in the registry {reference.registry}",
            hint="Check name and tag; your own images must be in the engine (docker image ls) or in a registry.",
        )
    return head.digest


def _head(reference: ImageRef, registries: Registries, **options: int) -> ManifestHead | None:
    with registries(reference.registry, **options) as registry:
        return registry.head_manifest(reference.repository, reference.digest or reference.tag or "latest")


def _short(digest: str | None) -> str:
    return str(digest)[:19]


def _in_engine(reference: ImageRef, platform: str, engine: DockerClient) -> tuple[BaseImage, list[str]] | None:
    """Return the base in the engine, with every digest that the engine knows for it; None if it lacks it.

    One image may be listed by several indexes.
    """

    try:
        attributes: Mapping[str, Any] = engine.images.get(reference.familiar).attrs
    except ImageNotFound:
        return None
    if f"{attributes['Os']}/{attributes['Architecture']}" != platform.rsplit("/v", 1)[0]:
        return None
    image_id = attributes["Id"]
    if reference.digest is not None:
        return BaseImage(reference=reference, digest=reference.digest, image_id=image_id), []
    known = [ImageRef.parse(text) for text in attributes.get("RepoDigests") or ()]
    place = (reference.registry, reference.repository)
    digests = [one.digest for one in known if (one.registry, one.repository) == place and one.digest is not None]
    if not digests:
        return BaseImage(reference=reference, image_id=image_id), []
    return BaseImage(reference=reference, digest=digests[0], image_id=image_id), digests


@dataclass(frozen=True, kw_only=True)
class BaseImages:
    """Looks up base images in the engine and in their registries.

    Attributes:
        where: ``file:line`` of the base, or its key, for messages.
        pull: when the registry is queried.
        logins: gives the credentials for a registry that Docker's configuration lacks, or None.
        remark: receives a sentence for each base that may have moved.
    """

    engine: Callable[[], DockerClient | None]
    environ: Mapping[str, str]
    where: str
    pull: PullPolicy
    logins: Callable[[str], RegistryAuth | Login | None]
    remark: Callable[[str], object]

    def resolve(self, reference: ImageRef, platform: str) -> BaseImage:
        """Return the base that *reference* names for *platform*."""
        return resolve_base(
            reference,
            platform=platform,
            engine=self.engine(),
            registries=docker_registries(self.environ, self.logins),
            pull=self.pull,
            remark=self.remark,
            where=self.where,
        )

    def distribution(self, base: BaseImage, platform: str) -> str:
        """Return the distribution of *base*, such as ``ubuntu22.04``."""
        return self._files(platform).distribution(base)

    def drivers(self, base: BaseImage, platform: str) -> str | None:
        """Return the InfiniBand drivers that *base* brings, or None; for ``ofed: auto``."""
        found = self._files(platform).drivers(base)
        name = base.reference.familiar
        self.remark(
            f"image.ofed: {name} brings no InfiniBand drivers; the distribution's are installed."
            if found is None
            else f"image.ofed: {name} brings {found}; no drivers are installed."
        )
        return found

    def for_image(self, image: ImageConfig) -> BaseImages:
        """Return what looks up the bases of one of ``images``."""
        return replace(self, where=image.where, pull=image.pull)

    def settings(self, base: BaseImage, platform: str) -> ImageSettings:
        """Return the user and the variables that *base* sets."""
        return self._files(platform).settings(base)

    def _files(self, platform: str) -> BaseFiles:
        registries = docker_registries(self.environ, self.logins)
        return BaseFiles(platform=platform, engine=self.engine(), registries=registries)


def docker_registries(
    environ: Mapping[str, str],
    elsewhere: Callable[[str], RegistryAuth | Login | None] = lambda _registry: None,
) -> Registries:
    """Return a maker of clients that use what Docker's users have set up.

    Credentials come from Docker's configuration file and its credential helpers, proxies from ``HTTPS_PROXY`` and
    ``NO_PROXY``, certificates from ``REQUESTS_CA_BUNDLE``, ``CURL_CA_BUNDLE`` or ``SSL_CERT_FILE``: all as *environ* has them.

    Args:
        environ: the process's environment.
        elsewhere: gives the credentials for a registry that Docker's configuration knows nothing of, or None.
    """

    def registry(name: str, *, attempts: int = 6) -> Registry:
        url, verify, proxies = registry_route(_HUB_HOST if name == DOCKER_HUB else name, environ)
        auth = docker_login(name, environ) or elsewhere(name)
        return Registry(url, auth=auth, verify=verify, proxies=proxies, attempts=attempts)

    return registry


def registry_route(host: str, environ: Mapping[str, str]) -> tuple[str, bool | str, dict[str, str]]:
    """Return a registry's address, and *verify* and *proxies* of requests to it.

    The address is https, but for loopback.
    """

    url = f"http://{host}" if is_loopback(host.rsplit(":", 1)[0]) else f"https://{host}"
    proxy = environ.get("HTTPS_PROXY") or environ.get("https_proxy")
    bypass = should_bypass_proxies(url, environ.get("NO_PROXY") or environ.get("no_proxy"))
    names = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")
    bundle = next((environ[name] for name in names if environ.get(name)), None)
    return url, bundle or True, {"https": proxy} if proxy and not bypass else {}


def docker_login(registry: str, environ: Mapping[str, str]) -> RegistryAuth | None:
    """Return what ``docker login`` has kept for *registry*, or None.

    Raises:
        ImageError: if Docker's configuration is damaged, or a credential helper in it fails.
    """

    read_docker_configuration(environ)  # which docker-py reads as well
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
