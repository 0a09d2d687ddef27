"""The base image: which digest its tag means, and what it holds."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from docker.auth import load_config
from docker.errors import DockerException, ImageNotFound
from requests.utils import should_bypass_proxies

from aml_train.config.sections.image import ImageConfig, PullPolicy
from aml_train.core.docker import TooLargeError, fetch_file, read_docker_configuration, remove_container
from aml_train.core.errors import AmlTrainError, ImageError
from aml_train.core.references import DOCKER_HUB, ImageRef
from aml_train.core.threads import temporary
from aml_train.image.base_files import (
    DPKG,
    DPKG_LIMIT,
    LIMIT,
    OS_RELEASE,
    ImageSettings,
    find_in_layer,
    installed_drivers,
    named_drivers,
    parse_os_release,
)
from aml_train.image.inputs import BaseImage
from aml_train.image.leftovers import container_labels
from aml_train.image.registry.auth import Login, RegistryAuth, is_loopback
from aml_train.image.registry.client import Registry
from aml_train.image.registry.manifest import Manifest

if TYPE_CHECKING:
    from docker import DockerClient

_LAYERS_LIMIT: Final = 1 << 30
"""How much of a base's layers is read for its list of packages; NVIDIA's larger images name their drivers in the environment."""

Registries = Callable[..., Registry]
"""Makes a client for a registry's name, such as ``docker.io`` or ``nvcr.io``, perhaps one with other ``attempts``."""


@dataclass(frozen=True, kw_only=True)
class BaseImages:
    """Looks up base images in the engine and in their registries, and reads their files.

    Attributes:
        engine: gives the engine that will build; None for a builder that pulls each base from its registry.
        registries: makes a client for a base's registry.
        where: ``file:line`` of the base, or its key, for messages.
        pull: when the registry is queried.
        remark: receives a sentence for each base that may have moved, and on the drivers of ``ofed: auto``.
    """

    engine: Callable[[], DockerClient | None]
    registries: Registries
    where: str = "image.base"
    pull: PullPolicy = "check"
    remark: Callable[[str], object] = lambda _text: None

    def for_image(self, image: ImageConfig) -> BaseImages:
        """Return what looks up the bases of one of ``images``."""
        return replace(self, where=image.where, pull=image.pull)

    def resolve(self, reference: ImageRef, platform: str) -> BaseImage:
        """Return the base that *reference* names for *platform*, with its digest.

        A tag may have moved in the registry since the engine pulled it. ``check`` looks with one request, which Docker Hub does not
        count (https://docs.docker.com/docker-hub/usage/pulls/), and uses what the engine has if no answer comes; ``always`` needs the answer; ``missing`` asks only for what the engine does not have. An
        image that is in no registry, one that was imported or built here, is used as it is in the engine.

        Raises:
            ImageError: if neither engine nor registry has the image, or a needed registry refuses or does not answer.
        """
        engine = self.engine()
        found = None if engine is None else _in_engine(reference, platform, engine)
        if found is None:
            return BaseImage(reference=reference, digest=self._registrys_digest(reference, in_engine=False))
        base, digests = found
        if base.local_only or reference.digest is not None or self.pull == "missing":
            return base

        def at(digest: str) -> BaseImage:
            """Return the base at *digest*; another one than the engine's has no image id."""
            return replace(base, digest=digest, image_id=base.image_id if digest in digests else None)

        if self.pull == "always":
            return at(self._registrys_digest(reference, in_engine=True))
        name, engines = reference.familiar, str(base.digest)[:19]
        try:
            head = self._head(reference, attempts=1)
            why = f"{reference.registry} does not have it any more"
        except AmlTrainError as error:  # of the registry, or of the sign-in to it
            head, why = None, error.message
        if head is None:
            self.remark(
                f"{self.where}: whether {name} has moved is not known ({why}); the engine's {engines} is used."
            )
            return base
        if head not in digests:
            self.remark(
                f"{self.where}: {name} has moved: the registry has {head[:19]}, the engine {engines}. The image is "
                "built from the registry's; `image.pull: missing` keeps the engine's."
            )
        return at(head)

    def _registrys_digest(self, reference: ImageRef, *, in_engine: bool) -> str:
        """Return the digest that *reference* has in its registry, which must have it."""
        name = f"{self.where}: the base {reference.familiar}"
        try:
            head = self._head(reference)
        except ImageError as error:
            why = (
                "cannot be looked up, as `image.pull: always` demands:" if in_engine else "is not in the engine, and"
            )
            raise ImageError(f"{name} {why} {error.message}", hint=error.hint) from error
        if head is None:
            place = "is not" if in_engine else "is neither in the engine nor"
            raise ImageError(
                f"{name} {place} in the registry {reference.registry}",
                hint="Check name and tag; your own images must be in the engine (docker image ls) or in a registry.",
            )
        return head

    def _head(self, reference: ImageRef, **options: int) -> str | None:
        with self.registries(reference.registry, **options) as registry:
            return registry.head_manifest(reference.repository, reference.digest or reference.tag or "latest")

    def distribution(self, base: BaseImage, platform: str) -> str:
        """Return the distribution of *base*, such as ``ubuntu22.04``.

        If the engine has the base, a container of it is made, never started, and its file read. Otherwise the base's first
        layer is read from its registry, up to the file: it is the distribution's own, and later layers update it in place.

        Raises:
            ImageError: if the base has no os-release, or it says no distribution; the hint names the key to give instead.
        """
        name = base.reference.familiar
        text = self._read(base, OS_RELEASE, LIMIT)
        if text is None and base.digest is not None:
            with self._in_registry(base, platform) as (registry, manifest):
                repository, layers = base.reference.repository, manifest.blobs[1:]
                text = find_in_layer(registry.stream_blob(repository, layers[0])) if layers else None
        found = parse_os_release(text) if text is not None else None
        if found is None:
            what = "has no /etc/os-release" if text is None else "has an /etc/os-release without ID and VERSION_ID"
            raise ImageError(
                f"the base {name} {what}, so its distribution is not known",
                hint="Give it: image.ofed.os, such as ubuntu22.04.",
            )
        return found

    def drivers(self, base: BaseImage, platform: str) -> str | None:
        """Return the InfiniBand drivers that *base* brings, or None, and report it; for ``ofed: auto``.

        Its variables name them (``RDMACORE_VERSION``, ``MOFED_VERSION``), or its list of packages has them. If the engine lacks
        the base, the list is read from its registry, in the latest layer that has one.

        Raises:
            ImageError: if that list cannot be found or read: "no drivers" would then be a guess.
        """
        name = base.reference.familiar
        found = named_drivers(self.settings(base, platform).variables)
        found = found or installed_drivers(self._packages(base, platform))
        self.remark(
            f"image.ofed: {name} brings no InfiniBand drivers; the distribution's are installed."
            if found is None
            else f"image.ofed: {name} brings {found}; no drivers are installed."
        )
        return found

    def _packages(self, base: BaseImage, platform: str) -> str:
        """Return dpkg's list of a base."""
        if self.engine() is not None and base.image_id is not None:
            status = self._read(base, DPKG, DPKG_LIMIT)
        else:
            with self._in_registry(base, platform) as (registry, manifest):
                status = _dpkg_status(registry, base.reference.repository, manifest)
        if status is None:
            raise ImageError(
                f"the drivers of the base {base.reference.familiar} are not known: its variables name none, and its list of "
                "packages cannot be read",
                hint="Pull it first (docker pull), or write `ofed: none` or `ofed: distro`.",
            )
        return status

    def settings(self, base: BaseImage, platform: str) -> ImageSettings:
        """Return what the configuration of *base* sets, from the engine or the registry."""
        engine = self.engine()
        if engine is not None and base.image_id is not None:
            config: Mapping[str, Any] = engine.images.get(base.image_id).attrs["Config"]
            return ImageSettings.of(config.get("User"), config.get("Env") or ())
        with self._in_registry(base, platform) as (registry, manifest):
            found = registry.image_config(base.reference.repository, manifest, platform)
        return ImageSettings.of(found.optional_text("config.User"), found.list_of_texts("config.Env"))

    def _read(self, base: BaseImage, paths: Collection[str], limit: int) -> str | None:
        """Return the first of *paths* that the base in the engine has; None for none."""
        engine = self.engine()
        if engine is None or base.image_id is None:
            return None
        create = partial(
            engine.containers.create,
            base.image_id,
            command=["true"],
            labels=container_labels(engine, "base-files", 120.0),
            network_mode="none",
        )
        with temporary(create, remove_container) as container:
            for path in paths:
                with contextlib.suppress(TooLargeError, ValueError):  # a link
                    if (content := fetch_file(container, path)) is not None:
                        return content[:limit].decode(errors="replace")
        return None

    @contextlib.contextmanager
    def _in_registry(self, base: BaseImage, platform: str) -> Iterator[tuple[Registry, Manifest]]:
        """Open the base's registry, with the manifest of the platform's image."""
        repository, digest = base.reference.repository, str(base.digest)
        with self.registries(base.reference.registry) as registry:
            manifest = registry.get_manifest(repository, digest)
            if manifest is not None and manifest.is_index:
                try:
                    child = manifest.child_for(platform)
                except ImageError as error:
                    what = f"the base {repository}@{digest} is not made for {platform}"
                    raise ImageError(what, hint="Give image.platform.") from error
                manifest = registry.get_manifest(repository, child)
            if manifest is None:
                raise ImageError(f"the base {repository}@{digest} is not in the registry {base.reference.registry}")
            yield registry, manifest


def _dpkg_status(registry: Registry, repository: str, manifest: Manifest) -> str | None:
    """Return dpkg's list in the latest layer that has one; None if unknown."""
    compressed = (one.optional_text("mediaType") or "" for one in manifest.answer.each("layers"))
    if sum(manifest.layer_sizes) > _LAYERS_LIMIT or any("zstd" in kind for kind in compressed):
        return None
    for layer in reversed(manifest.blobs[1:]):
        text = find_in_layer(registry.stream_blob(repository, layer), DPKG, DPKG_LIMIT)
        if text is not None:
            return text
    return None


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
        url, verify, proxies = registry_route("registry-1.docker.io" if name == DOCKER_HUB else name, environ)
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
        # Docker Hub's key in the file: https://docs.docker.com/reference/cli/docker/login/
        found = config.resolve_authconfig("https://index.docker.io/v1/" if registry == DOCKER_HUB else registry)
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
