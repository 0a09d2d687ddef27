"""Builds of environments on request: operations, logs, and the images they made."""

from __future__ import annotations

import hashlib
import secrets
import threading
from dataclasses import dataclass
from typing import Any, Final, Protocol

from aml_emulator.domain.environments import image_of_environment
from aml_emulator.domain.errors import InvalidError, NotFoundError
from aml_emulator.domain.workspace import Workspace
from aml_emulator.executor.spec import BuildSpec
from aml_emulator.executor.task_runner import TaskEnding, TaskSink

OPERATIONS: Final = "environment-builds"
IMAGES: Final = "environment-images"
CONTAINER: Final = "environment-builds"
ACTIVE_BUILD: Final = ("Queued", "Running")
"""The states of a build that has not ended."""


class Executor(Protocol):
    """Builds images: :class:`aml_emulator.executor.task_runner.TaskRunner`."""

    def build(self, build: BuildSpec, image: str, sink: TaskSink) -> None:
        """Begin a build when there is room."""


class EnvironmentBuilds:
    """The builds of the workspace's environments.

    Args:
        workspace: where operations and logs are kept.
        executor: builds the images.
    """

    def __init__(self, workspace: Workspace, executor: Executor) -> None:
        self._workspace = workspace
        self._executor = executor
        self._lock = threading.Lock()

    def recover(self) -> None:
        """End the builds that an earlier process left."""
        for found in self._workspace.store.assets.containers(OPERATIONS):
            if found.properties["status"] in ACTIVE_BUILD:
                self.change(found.name, status="Failed")

    def start(self, name: str, version: str) -> str:
        """Begin the build of an environment; return the operation's id.

        Raises:
            NotFoundError: there is no such environment.
            NotSupportedError: it cannot be built here.
        """
        image = image_of_environment(self._workspace, self._id(name, version))
        number = secrets.token_hex(16)
        with self._lock:
            status = "Queued" if image.build is not None else "Succeeded"
            self._workspace.store.assets.put_container(OPERATIONS, number, {"status": status})
        if image.build is not None:
            self._workspace.blobs.create_container(CONTAINER)
            repository = _repository(image.name)
            self._executor.build(image.build, repository, _Sink(self, self._workspace, number, repository))
        return number

    def operation(self, number: str) -> dict[str, Any]:
        """Return the state of an operation, and the signed address of its log.

        Raises:
            NotFoundError: there is none.
        """
        found = self._workspace.store.assets.container(OPERATIONS, number)
        if found is None:
            raise NotFoundError(f"operation '{number}'")
        logged = self._workspace.blobs.size(CONTAINER, _log_name(number)) is not None
        address = self._workspace.blobs.sas_url(CONTAINER, _log_name(number), permissions="r", hours=1)
        return {"status": found.properties["status"], "logUrl": address if logged else None}

    def details(self, name: str, version: str | None) -> dict[str, Any]:
        """Return the image of an environment, and whether it is in the registry.

        The fields are those that the studio reads, in whose answer the name of a built image has its digest.

        Raises:
            NotFoundError: there is no such environment.
        """
        image = image_of_environment(self._workspace, self._id(name, version))
        found, address, shown = True, None, image.name
        if image.build is not None:
            repository = _repository(image.name)
            built = self._workspace.store.assets.container(IMAGES, repository)
            found, address = built is not None, self._workspace.identity.login_server
            shown = repository if built is None else f"{repository}@{built.properties['digest']}"
        return {
            "imageExistsInRegistry": found,
            "intellectualPropertyPublisher": None,
            "ingredients": None,
            "vulnerabilityFindings": {"details": None},
            "pythonEnvironment": {
                "interpreterPath": "python",
                "condaEnvironmentName": None,
                "condaEnvironmentPath": None,
            },
            "dockerImage": {"name": shown, "registry": {"address": address, "username": None, "password": None}},
            "warnings": [],
        }

    def _id(self, name: str, version: str | None) -> str:
        """Return the ARM id of a version, of the newest one if none is named."""
        assets = self._workspace.store.assets
        if version is None:
            version = next((one.version for one in assets.versions("environments", name)), None)
        if version is None or assets.version("environments", name, version) is None:
            raise NotFoundError(f"environment '{name}'" + (f", version '{version}'" if version else ""))
        return f"{self._workspace.identity.workspace_arm_id}/environments/{name}/versions/{version}"

    def change(self, number: str, **changes: Any) -> None:
        """Record a change of a build."""
        with self._lock:
            found = self._workspace.store.assets.container(OPERATIONS, number)
            if found is None:  # the workspace was emptied meanwhile
                raise InvalidError(f"The operation '{number}' is gone.")
            self._workspace.store.assets.put_container(OPERATIONS, number, {**found.properties, **changes})


@dataclass(frozen=True)
class _Sink:
    """Records the progress of one build."""

    builds: EnvironmentBuilds
    workspace: Workspace
    number: str
    repository: str

    def started(self) -> None:
        self.builds.change(self.number, status="Running")

    def log(self, text: str) -> None:
        self.workspace.blobs.append(CONTAINER, _log_name(self.number), text.encode())

    def ended(self, status: TaskEnding, images: list[dict[str, str]], _error: str) -> None:
        for image in images:
            self.workspace.store.assets.put_container(IMAGES, self.repository, {"digest": image["digest"]})
        self.builds.change(self.number, status="Succeeded" if status == "Succeeded" else "Failed")


def _repository(image: str) -> str:
    """Return the repository of an environment's image, named as AzureML names it."""
    digest = hashlib.md5(image.encode(), usedforsecurity=False).hexdigest()
    return f"azureml/azureml_{digest}"


def _log_name(number: str) -> str:
    return f"logs/{number}.txt"
