"""Publish images to a container registry, byte for byte."""

from __future__ import annotations

from collections.abc import Mapping

from aml_train.image.base import docker_login, registry_route
from aml_train.image.registry.client import Registry
from scripts.release.commands import ReleaseError
from scripts.release.layout import MANIFEST_TYPE, Layout


def open_registry(host: str, environ: Mapping[str, str], *, login: str | None = None) -> Registry:
    """Return a client of the registry *host*, signed in as ``docker login`` is.

    Args:
        host: host and port.
        environ: the process's environment: credentials, proxies, certificates.
        login: the name of the credentials, if it is not *host*.
    """
    url, verify, proxies = registry_route(host, environ)
    return Registry(url, auth=docker_login(login or host, environ), verify=verify, proxies=proxies)


def push_layout(registry: Registry, repository: str, layout: Layout, *, tag: str) -> None:
    """Push an image by its digest; then let *tag* name it.

    Raises:
        ReleaseError: *tag* names another image already; a release never moves a version's tag.
        ImageError: the registry refuses.
    """
    present = registry.head_manifest(repository, tag)
    if present is not None and present != layout.digest:
        raise ReleaseError(
            f"{registry.host}/{repository}:{tag} is {present} already, and this build is {layout.digest}. "
            "Release another version."
        )
    for blob in layout.blobs:
        registry.upload_blob(repository, layout.read(blob))
    registry.put_manifest(repository, layout.digest, layout.manifest, MANIFEST_TYPE)
    if present is None:
        registry.put_manifest(repository, tag, layout.manifest, MANIFEST_TYPE)


def check_image(registry: Registry, repository: str, layout: Layout, *, tag: str) -> None:
    """Raise unless the registry has every byte of *layout*, and *tag* names it.

    Raises:
        ReleaseError: something is missing or has other bytes.
        ImageError: the registry refuses, or the manifest or configuration has another digest.
    """
    name = f"{registry.host}/{repository}"
    manifest = registry.get_manifest(repository, layout.digest)
    if manifest is None or manifest.content != layout.manifest:
        raise ReleaseError(f"{name} has no image {layout.digest}. Publish it: python -m scripts.release publish")
    for blob in layout.blobs:
        content = b"".join(registry.stream_blob(repository, blob.digest))
        if content != layout.read(blob):
            raise ReleaseError(f"{name}@{layout.digest} is damaged: its part {blob.digest} has other bytes.")
    head = registry.head_manifest(repository, tag)
    if head != layout.digest:
        raise ReleaseError(f"{name}:{tag} is {head or 'missing'}, not {layout.digest}. Was the tag moved?")
