"""Push an image from the engine, and release it: the same manifest bytes under more names."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from aml_train.errors import ImageError
from aml_train.events import Listener, Progress
from aml_train.image.manifest import Manifest
from aml_train.image.registry import Registry
from aml_train.image.registry_auth import RegistryAuth
from aml_train.references import is_digest

if TYPE_CHECKING:
    from docker import DockerClient

_INTERVAL: Final = 0.2


def push_image(
    engine: DockerClient, repository: str, tag: str, *, auth: RegistryAuth | None, listener: Listener
) -> str:
    """Push ``repository:tag``; return the manifest's digest as the engine tells it.

    Args:
        engine: the engine that has it.
        repository: with the registry's name as the engine knows it.
        tag: the tag.
        auth: credentials, or None.
        listener: told the bytes that were sent.

    Raises:
        ImageError: if the push fails: the engine reports that in the stream, not as an exception.
    """
    login = _engine_login(auth)
    stream = engine.api.push(repository, tag=tag, stream=True, decode=True, auth_config=login)
    return follow_push(stream, f"{repository}:{tag}", listener)


def follow_push(stream: Iterable[Mapping[str, Any]], name: str, listener: Listener) -> str:
    """Read the engine's messages on a push of *name* to the end; return the digest."""
    layers: dict[str, tuple[int, int]] = {}
    digest: str | None = None
    told = 0.0
    for message in stream:
        if error := message.get("error") or (message.get("errorDetail") or {}).get("message"):
            raise ImageError(
                f"the push of {name} failed: {error}",
                hint="Check that the registry runs and that you may push to it; see the engine's log (journalctl -u docker).",
            )
        aux = message.get("aux") or {}
        digest = aux.get("Digest", digest)
        detail = message.get("progressDetail") or {}
        if "id" in message and "current" in detail:
            layers[message["id"]] = (detail["current"], max(detail.get("total", 0), detail["current"]))
            if (now := time.monotonic()) - told >= _INTERVAL:
                told = now
                _tell(layers, name, listener)
    if layers:
        _tell({key: (total, total) for key, (_, total) in layers.items()}, name, listener)
    if digest is None or not is_digest(digest):
        raise ImageError(f"the engine pushed {name} but told no digest")
    return digest


def pull_image(
    engine: DockerClient, repository: str, digest: str, *, auth: RegistryAuth | None, listener: Listener
) -> str:
    """Have ``repository@digest`` in the engine; return its image id. Nothing is asked of the registry where it is there.

    Raises:
        ImageError: if it cannot be pulled.
    """
    from docker.errors import APIError, ImageNotFound

    name = f"{repository}@{digest}"
    try:
        return str(engine.images.get(name).id)
    except ImageNotFound:
        listener(Progress(stage="image", label=f"pull {name}", done=0, total=None, unit="bytes"))
    login = _engine_login(auth)
    hint = "Check that the registry runs and that you may pull from it; see the engine's log (journalctl -u docker)."
    try:
        for message in engine.api.pull(repository, tag=digest, stream=True, decode=True, auth_config=login):
            if error := message.get("error"):
                raise ImageError(f"the pull of {name} failed: {error}", hint=hint)
        return str(engine.images.get(name).id)
    except APIError as error:
        raise ImageError(f"the pull of {name} failed: {error.explanation or error}", hint=hint) from error


def _engine_login(auth: RegistryAuth | None) -> dict[str, str] | None:
    """Return credentials as the engine takes them with one request; it keeps none of them.

    Source: https://docs.docker.com/reference/api/engine/#section/Authentication (``X-Registry-Auth``).
    """
    if auth is None:
        return None
    if auth.password:
        return {"username": auth.username, "password": auth.password}
    return {"identitytoken": auth.identity_token or ""}


def _tell(layers: Mapping[str, tuple[int, int]], name: str, listener: Listener) -> None:
    done, total = (sum(values) for values in zip(*layers.values(), strict=True))
    listener(Progress(stage="push", label=name, done=done, total=total, unit="bytes"))


def read_back(registry: Registry, repository: str, digest: str, image_id: str) -> Manifest:
    """Return the pushed manifest after checking that it is the image that the engine has.

    A classic engine's image id is the digest of the image's configuration; on the containerd store it is the digest of the
    manifest or index itself (https://docs.docker.com/engine/storage/containerd/).

    Raises:
        ImageError: if the registry does not have it, or has something else.
    """
    manifest = registry.get_manifest(repository, digest)
    if manifest is None:
        raise ImageError(f"the registry {registry.host} does not have {repository}@{digest}, which was just pushed")
    if image_id not in (manifest.config_digest, manifest.digest):
        raise ImageError(
            f"{registry.host} has another image as {repository}@{digest}: its configuration is {manifest.config_digest}, "
            f"the engine's image is {image_id}",
            hint="Run again. If it happens again, something between the engine and the registry changes images.",
        )
    return manifest


def release(registry: Registry, manifest: Manifest, *, source: str, repository: str, tags: Sequence[str]) -> None:
    """Put *manifest*, which is in the repository *source*, into *repository* under *tags*: the very same bytes.

    An index's manifests go first, each with its blobs.
    """
    for digest in manifest.children:
        child = registry.get_manifest(source, digest)
        if child is None:
            raise ImageError(f"the index {manifest.digest} lists {digest}, which {registry.host} does not have")
        release(registry, child, source=source, repository=repository, tags=[digest])
    for blob in dict.fromkeys(manifest.blobs):
        registry.mount_blob(repository, blob, source)
    for tag in tags:
        registry.put_manifest(repository, tag, manifest.content, manifest.media_type)
