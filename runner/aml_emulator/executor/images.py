"""The engine's images, as the executor uses them: pulled, looked into, built."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import docker
from docker.errors import APIError, ImageNotFound, create_api_error_from_http_exception
from docker.types import CancellableStream
from requests import Response
from requests.exceptions import HTTPError

from aml_emulator.executor.shared import ENGINE_SECONDS, INSTANCE_LABEL, PING_SECONDS, EngineFault, fault_text

logger = logging.getLogger(__name__)


def status_line(message: Mapping[str, Any]) -> str:
    """Return a status message as a line of the log; empty for one of progress."""
    if "status" not in message or message.get("progressDetail"):
        return ""
    layer = f"{message['id']}: " if message.get("id") else ""
    return f"{layer}{message['status']}\n"


class BuildOutput:
    """The engine's messages while it builds an image."""

    def __init__(self, response: Response) -> None:
        self._response = response

    def __iter__(self) -> Iterator[dict[str, Any]]:
        rest = b""
        for chunk in self._response.iter_content(chunk_size=None):
            *lines, rest = (rest + chunk).split(b"\n")
            yield from (json.loads(line) for line in lines if line.strip())
        if rest.strip():
            yield json.loads(rest)

    def break_off(self) -> None:
        """Interrupt the build from another thread: its connection is closed."""
        try:
            CancellableStream(iter(()), self._response).close()
        except (OSError, AttributeError) as error:
            # The connection is gone, or has been given back, which is all that is wanted.
            logger.debug("A build had ended before it was interrupted: %s", error)

    def close(self) -> None:
        """Give back the connection."""
        self._response.close()


class ImageUnavailableError(Exception):
    """The engine neither has the image nor can pull it."""


class Images:
    """The images of one engine, on behalf of one emulator.

    Args:
        instance: the emulator's identity, for the labels of what is built.
    """

    def __init__(self, client: docker.DockerClient, instance: str) -> None:
        self._client = client
        self._api = client.api
        self._instance = instance

    def ensure(self, reference: str, *, go_on: Callable[[], None]) -> None:
        """Have the image on the engine: as it is there, or pulled.

        Args:
            reference: with a tag or a digest.
            go_on: called now and then while a pull lasts; raises to end it.

        Raises:
            ImageUnavailableError: it is not there and cannot be pulled.
        """
        if self.has(reference):
            return
        logger.info("Pulling %s", reference)
        repository, _, tag = reference.partition("@") if "@" in reference else reference.rpartition(":")
        try:
            for line in self._api.pull(repository, tag=tag, stream=True, decode=True):
                if "error" in line:
                    raise ImageUnavailableError(str(line["error"]))
                go_on()
            self._client.images.get(reference)
        except APIError as error:
            raise ImageUnavailableError(fault_text(error)) from error

    def has(self, reference: str) -> bool:
        """Return whether the engine has the image."""
        try:
            self._client.images.get(reference)
        except ImageNotFound:
            return False
        return True

    def variable(self, reference: str, name: str) -> str:
        """Return an environment variable of an image, empty if it is not set."""
        variables = self._client.images.get(reference).attrs["Config"].get("Env") or []
        return next((item.partition("=")[2] for item in variables if item.startswith(f"{name}=")), "")

    def first_file(self, reference: str, paths: Iterable[str]) -> str | None:
        """Return the first of *paths* that exists in an image, or None; nothing runs."""
        created = self._api.create_container(
            reference, command=["true"], labels={INSTANCE_LABEL: self._instance}, use_config_proxy=False
        )
        try:
            # The size and mode of a file alone: https://docs.docker.com/reference/api/engine/ (ContainerArchiveInfo).
            address = f"{self._api.base_url}/v{self._api.api_version}/containers/{created['Id']}/archive"
            for path in paths:
                if self._api.head(address, params={"path": path}, timeout=ENGINE_SECONDS).status_code == 200:
                    return path
            return None
        finally:
            self._api.remove_container(created["Id"], force=True, v=True)

    def build(
        self,
        context: Iterator[bytes],
        *,
        tag: str,
        dockerfile: str,
        arguments: Mapping[str, str],
        options: Mapping[str, str] = MappingProxyType({}),
        logins: Mapping[str, tuple[str, str]] = MappingProxyType({}),
    ) -> BuildOutput:
        """Begin to build an image by the engine's own builder, and return its output.

        Args:
            context: the build context, a tar stream.
            dockerfile: the Dockerfile's path in the context.
            options: further parameters of the engine's interface; ``version`` 2 is BuildKit.
            logins: registry → user and password, for what is pulled.

        Raises:
            APIError: the engine refuses the build.
        """
        # docker-py's build() keeps the response, and with it the only way to interrupt a build.
        response = self._api.post(
            f"{self._api.base_url}/v{self._api.api_version}/build",
            params={
                "t": tag,
                "dockerfile": dockerfile,
                "rm": "1",
                "forcerm": "1",
                "buildargs": json.dumps(dict(arguments)),
                "labels": json.dumps({INSTANCE_LABEL: self._instance}),
                **options,
            },
            data=context,
            headers={"Content-Type": "application/x-tar", **_login_header(logins)},
            stream=True,
            # A step may say nothing for as long as it likes.
            timeout=(PING_SECONDS, None),
        )
        try:
            response.raise_for_status()
        except HTTPError as error:
            with response:
                create_api_error_from_http_exception(error)
        return BuildOutput(response)

    def tag(self, reference: str, name: str) -> None:
        """Give an image another name, with a tag."""
        repository, _, tag = name.rpartition(":")
        self._client.images.get(reference).tag(repository, tag)

    def push(self, reference: str) -> Iterator[dict[str, Any]]:
        """Push an image that was built, and yield the engine's messages.

        Raises:
            APIError: the engine refuses.
        """
        repository, _, tag = reference.rpartition(":")
        yield from self._api.push(repository, tag=tag, stream=True, decode=True)

    def remove(self, reference: str) -> None:
        """Remove a name of an image; one that is gone, or in use, is left alone."""
        try:
            self._api.remove_image(reference, noprune=True)
        except EngineFault as error:
            logger.debug("%s is not removed: %s", reference, fault_text(error))

    def remove_built(self) -> None:
        """Remove the images that were built for this emulator; one that is in use stays."""
        for image in self._client.images.list(filters={"label": f"{INSTANCE_LABEL}={self._instance}"}):
            for tag in image.tags:
                try:
                    self._api.remove_image(tag)
                except EngineFault as error:
                    logger.warning("The image %s could not be removed: %s", tag, fault_text(error))


def _login_header(logins: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """Return the credentials of a build's pulls, as a header.

    Source: ``X-Registry-Config`` of https://docs.docker.com/reference/api/engine/.
    """
    if not logins:
        return {}
    given = {registry: {"username": user, "password": password} for registry, (user, password) in logins.items()}
    return {"X-Registry-Config": base64.urlsafe_b64encode(json.dumps(given).encode()).decode()}
