"""Push an image, and release it under its tags."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import requests
from docker.auth import encode_header, get_config_header, resolve_repository_name
from docker.errors import APIError, ImageNotFound

from aml_train.core.errors import ImageError
from aml_train.core.events import Event, Listener, Progress, Stage
from aml_train.core.references import is_digest
from aml_train.core.retry import TransferInterruptedError
from aml_train.core.threads import CancelToken
from aml_train.image.registry.auth import RegistryAuth
from aml_train.image.registry.client import Registry
from aml_train.image.registry.manifest import Manifest

if TYPE_CHECKING:
    import requests
    from docker import DockerClient

_INTERVAL: Final = 0.2
_CHUNK: Final = 1 << 13
_PUSH_HINT: Final = (
    "Check that the registry runs and that you may push to it; see the engine's log (journalctl -u docker)."
)


def push_image(
    engine: DockerClient,
    repository: str,
    tag: str,
    *,
    auth: RegistryAuth | None,
    listener: Listener,
    token: CancelToken | None = None,
) -> str:
    """Push ``repository:tag``; return the manifest's digest as the engine reports it.

    The engine aborts a push when its client's connection closes: so does *token*, and so does the end of
    this process, however it comes. docker-py's own ``push`` gives no access to the connection.

    Args:
        repository: with the registry's name as the engine knows it.
        auth: credentials, or None for what the engine's client is configured with.
        listener: receives the number of bytes sent.

    Raises:
        TransferInterruptedError: if the push fails: the engine reports that in the stream, not as an exception.
        ImageError: if the engine refuses it.
        WorkCancelledError: if *token* was cancelled meanwhile.
    """

    token = token or CancelToken()
    name = f"{repository}:{tag}"

    def report(event: Event) -> None:
        if not token.cancelled:
            listener(event)

    api = engine.api
    login = _engine_login(auth)
    configured = None if login else get_config_header(api, resolve_repository_name(repository)[0])
    try:
        # https://docs.docker.com/reference/api/engine/version/v1.41/#tag/Image/operation/ImagePush
        response = api.post(
            f"{api.base_url}/v{api.api_version}/images/{quote(repository, safe='/:')}/push",
            params={"tag": tag},
            headers={"X-Registry-Auth": configured or encode_header(login or {})},
            timeout=api.timeout,
            stream=True,
        )
        with response, token.on_cancel(partial(_hang_up, response)):
            if not response.ok:
                reason = response.json().get("message") or f"HTTP {response.status_code}"
                raise ImageError(f"the push of {name} failed: {reason}", hint=_PUSH_HINT)
            lines = response.iter_lines(chunk_size=_CHUNK)
            return follow_push((json.loads(line) for line in lines if line), name, report)
    except (requests.RequestException, ValueError) as error:
        token.raise_if_cancelled()
        raise _push_failed(name, f"the engine's answer was interrupted: {error}") from error


def _hang_up(response: requests.Response) -> None:
    """Close the connection of *response*: the thread that reads from it returns."""
    connection = response.raw.connection
    if connection is not None and connection.sock is not None:
        with contextlib.suppress(OSError):  # it has just been closed by the engine
            connection.sock.shutdown(socket.SHUT_RDWR)


def _push_failed(name: str, reason: object) -> TransferInterruptedError:
    return TransferInterruptedError(f"the push of {name} failed: {reason}", hint=_PUSH_HINT)


def follow_push(stream: Iterable[Mapping[str, Any]], name: str, listener: Listener) -> str:
    """Read the engine's messages on a push of *name* to the end; return the digest."""
    layers = _Layers("push", name, listener)
    digest: str | None = None
    for message in stream:
        if error := message.get("error") or (message.get("errorDetail") or {}).get("message"):
            raise _push_failed(name, error)
        aux = message.get("aux") or {}
        digest = aux.get("Digest", digest)
        layers.read(message)
    layers.finish()
    if digest is None or not is_digest(digest):
        raise _push_failed(name, "the engine reported no digest")
    return digest


def pull_image(
    engine: DockerClient, repository: str, digest: str, *, auth: RegistryAuth | None, listener: Listener
) -> str:
    """Pull ``repository@digest`` unless it is in the engine; return the image id.

    Raises:
        TransferInterruptedError: if it cannot be pulled.
    """

    name = f"{repository}@{digest}"
    try:
        return str(engine.images.get(name).id)
    except ImageNotFound:
        layers = _Layers("image", f"pull {name}", listener)
    login = _engine_login(auth)
    hint = "Check that the registry runs and that you may pull from it; see the engine's log (journalctl -u docker)."
    try:
        for message in engine.api.pull(repository, tag=digest, stream=True, decode=True, auth_config=login):
            if error := message.get("error"):
                raise TransferInterruptedError(f"the pull of {name} failed: {error}", hint=hint)
            if message.get("status") == "Downloading":  # what is extracted afterwards is reported in the same way
                layers.read(message)
        layers.finish()
        return str(engine.images.get(name).id)
    except (APIError, requests.RequestException) as error:
        reason = error.explanation or error if isinstance(error, APIError) else error
        raise TransferInterruptedError(f"the pull of {name} failed: {reason}", hint=hint) from error


def _engine_login(auth: RegistryAuth | None) -> dict[str, str] | None:
    """Return credentials for one request to the engine, which keeps none of them.

    Source: https://docs.docker.com/reference/api/engine/#section/Authentication (``X-Registry-Auth``).
    """
    if auth is None:
        return None
    if auth.password:
        return {"username": auth.username, "password": auth.password}
    return {"identitytoken": auth.identity_token or ""}


class _Layers:
    """The progress of a push or pull: the bytes of all layers that the engine reports."""

    def __init__(self, stage: Stage, label: str, listener: Listener) -> None:
        self._stage, self._label, self._listener = stage, label, listener
        self._layers: dict[str, tuple[int, int]] = {}
        self._reported = 0.0

    def read(self, message: Mapping[str, Any]) -> None:
        """Take a message of the engine, and report every :data:`_INTERVAL` seconds."""
        detail = message.get("progressDetail") or {}
        if "id" not in message or "current" not in detail:
            return
        self._layers[message["id"]] = (detail["current"], max(detail.get("total", 0), detail["current"]))
        if (now := time.monotonic()) - self._reported >= _INTERVAL:
            self._reported = now
            self._report()

    def finish(self) -> None:
        """Report that all is there, if anything was reported."""
        if self._layers:
            self._layers = {key: (total, total) for key, (_, total) in self._layers.items()}
            self._report()

    def _report(self) -> None:
        done, total = (sum(values) for values in zip(*self._layers.values(), strict=True))
        self._listener(Progress(stage=self._stage, label=self._label, done=done, total=total, unit="bytes"))


def read_back(registry: Registry, repository: str, digest: str, image_id: str) -> Manifest:
    """Return the pushed manifest, checked to be that of the engine's image.

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
    """Put *manifest* of *source*, an index's children first, under *tags*."""
    for digest in manifest.children:
        child = registry.get_manifest(source, digest)
        if child is None:
            raise ImageError(f"the index {manifest.digest} lists {digest}, which {registry.host} does not have")
        release(registry, child, source=source, repository=repository, tags=[digest])
    for blob in dict.fromkeys(manifest.blobs):
        registry.mount_blob(repository, blob, source)
    for tag in tags:
        registry.put_tag(repository, tag, manifest)
