"""Runs of ACR Tasks: their requests, records and logs."""

from __future__ import annotations

import base64
import binascii
import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from aml_emulator.domain.errors import InvalidError, NotFoundError, NotSupportedError
from aml_emulator.domain.workspace import Workspace
from aml_emulator.executor.spec import Folder
from aml_emulator.executor.task_runner import TaskEnding, TaskSink
from aml_emulator.executor.task_spec import Step, TaskError, TaskSpec, UnsupportedTaskError, parse_task
from aml_emulator.schema import FLAG, LIST, OBJECT, TEXT, Fields, Whole
from aml_emulator.store.assets import AssetContainer

RECORDS: Final = "acr-runs"
CONTAINER: Final = "acr-tasks"
_ENDED: Final = frozenset({"Succeeded", "Failed", "Canceled", "Error", "Timeout"})
_TASK: Final = "EncodedTaskRunRequest"

RUN_REQUEST: Final = Fields(
    {
        "type": TEXT,
        "encodedTaskContent": TEXT,
        "encodedValuesContent": TEXT,
        "values": LIST,
        "sourceLocation": TEXT,
        "timeout": Whole(low=300, high=28_800),
        "isArchiveEnabled": FLAG,
        "agentPoolName": TEXT,
        "platform": Fields({"os": TEXT, "architecture": TEXT, "variant": TEXT}, required=("os",)),
        "agentConfiguration": OBJECT,
        "credentials": Fields({"sourceRegistry": OBJECT, "customRegistries": OBJECT}),
    },
    required=("type", "platform"),
)
"""The fields of a request (azure-mgmt-containerregistry 10.3.0, ``v2019_06_01_preview``: ``EncodedTaskRunRequest``)."""


class Executor(Protocol):
    """Executes tasks; :class:`aml_emulator.executor.task_runner.TaskRunner` does so on the engine."""

    def submit(self, spec: TaskSpec, source: Folder | None, sink: TaskSink) -> None:
        """Begin a run when there is room."""

    def cancel(self, run: str) -> bool:
        """End a run; return whether it is known."""

    def active(self) -> tuple[str, ...]:
        """Return the runs that wait or are executed."""


class RegistryTasks:
    """The runs of the registry.

    Args:
        workspace: where records and logs are kept.
        executor: executes the runs.
    """

    def __init__(self, workspace: Workspace, executor: Executor) -> None:
        self._workspace = workspace
        self._executor = executor
        self._lock = threading.Lock()

    def recover(self) -> None:
        """End the runs that an earlier process left: an agent is not continued."""
        for run in self.runs():
            if run.properties["status"] not in _ENDED:
                message = "The local AzureML was stopped during the run."
                self.change(run.name, status="Error", runErrorMessage=message, finishTime=self.now())

    def upload(self) -> tuple[str, str]:
        """Return a signed address for a source, and its relative path."""
        self._workspace.blobs.create_container(CONTAINER)
        path = f"source/{secrets.token_hex(16)}.tar.gz"
        return self._workspace.blobs.sas_url(CONTAINER, path, permissions="cw", hours=1), path

    def schedule(self, request: Mapping[str, Any]) -> AssetContainer:
        """Begin a run.

        Raises:
            InvalidError: a request that the service refuses.
            NotSupportedError: one that is not supported here.
        """
        if request["type"] != _TASK:
            raise NotSupportedError(f"runs of the type '{request['type']}'")
        if str(request["platform"]["os"]).lower() != "linux":
            raise NotSupportedError("agents of another system than Linux")
        try:
            steps = _steps(request)
        except UnsupportedTaskError as error:
            raise NotSupportedError(f"in ACR Tasks: {error}") from error
        except TaskError as error:
            raise InvalidError(str(error)) from error
        source = str(request.get("sourceLocation") or "")
        if source and "://" in source:
            raise NotSupportedError("a source of ACR Tasks that was not uploaded")
        if source and self._workspace.blobs.size(CONTAINER, source) is None:
            raise InvalidError(f"The source location '{source}' is not there.")
        timeout = int(request.get("timeout") or 3600)
        with self._lock:
            number = f"local{len(self._workspace.store.assets.containers(RECORDS)) + 1:x}"
            properties = {
                "runId": number,
                "status": "Queued",
                "runType": "QuickRun",
                "createTime": self.now(),
                "lastUpdatedTime": self.now(),
                "outputImages": [],
                "platform": dict(request["platform"]),
                "isArchiveEnabled": False,
                "provisioningState": "Succeeded",
                **({"agentPoolName": request["agentPoolName"]} if request.get("agentPoolName") else {}),
            }
            self._workspace.store.assets.put_container(RECORDS, number, properties)
        spec = TaskSpec(id=number, steps=steps, source=source, timeout=timeout, logins=_logins(request))
        folder = Folder(container=CONTAINER, prefix=source) if source else None
        self._executor.submit(spec, folder, _Sink(self, self._workspace, number))
        return self.run(number)

    def run(self, number: str) -> AssetContainer:
        """Return a run.

        Raises:
            NotFoundError: there is none.
        """
        found = self._workspace.store.assets.container(RECORDS, number)
        if found is None:
            raise NotFoundError(f"run '{number}'")
        return found

    def runs(self) -> list[AssetContainer]:
        """Return all runs, newest first."""
        found = self._workspace.store.assets.containers(RECORDS)
        found.sort(key=lambda one: (one.created, len(one.name), one.name), reverse=True)
        return found

    def cancel(self, number: str) -> None:
        """End a run that has not ended."""
        if self.run(number).properties["status"] not in _ENDED:
            self._executor.cancel(number)

    def cancel_all(self) -> None:
        """End all that the executor does, builds of environments among it."""
        for name in self._executor.active():
            self._executor.cancel(name)

    def active(self) -> tuple[str, ...]:
        """Return what the executor has not ended."""
        return self._executor.active()

    def log_address(self, number: str) -> str:
        """Return the signed address of a run's log, which may not be there yet."""
        self.run(number)
        return self._workspace.blobs.sas_url(CONTAINER, _log_name(number), permissions="r", hours=1)

    def change(self, number: str, **changes: Any) -> None:
        """Record a change of a run."""
        with self._lock:
            properties = {**self.run(number).properties, **changes, "lastUpdatedTime": self.now()}
            self._workspace.store.assets.put_container(RECORDS, number, properties)

    def now(self) -> str:
        """Return the time as Azure writes it."""
        moment = datetime.fromtimestamp(self._workspace.clock(), UTC)
        return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


@dataclass(frozen=True)
class _Sink:
    """Records the progress of one run."""

    tasks: RegistryTasks
    workspace: Workspace
    number: str

    def started(self) -> None:
        self.tasks.change(self.number, status="Running", startTime=self.tasks.now())

    def log(self, text: str) -> None:
        """Add to the log; its lines end as the service ends them."""
        stamp = datetime.fromtimestamp(self.workspace.clock(), UTC).strftime("%Y/%m/%d %H:%M:%S ")
        lines = (line if line.startswith("#") else stamp + line for line in text.splitlines())
        data = "".join(f"{line}\r\n" for line in lines).encode()
        self.workspace.blobs.append(CONTAINER, _log_name(self.number), data)

    def ended(self, status: TaskEnding, images: list[dict[str, str]], error: str) -> None:
        self.workspace.blobs.set_metadata(CONTAINER, _log_name(self.number), {"Complete": status})
        message = {"runErrorMessage": error} if error else {}
        self.tasks.change(self.number, status=status, finishTime=self.tasks.now(), outputImages=images, **message)


def _log_name(number: str) -> str:
    return f"logs/{number}/rawtext.log"


def _steps(request: Mapping[str, Any]) -> tuple[Step, ...]:
    """Return the steps of a request.

    Raises:
        TaskError: it is not one of these, or not supported here.
    """
    if request.get("values") or request.get("encodedValuesContent"):
        raise UnsupportedTaskError("values of a task file")
    try:
        text = base64.b64decode(str(request.get("encodedTaskContent", "")), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise TaskError("encodedTaskContent is not base64 of text") from error
    return parse_task(text)


def _logins(request: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return the credentials of other registries, which no answer and no log repeats."""
    given = (request.get("credentials") or {}).get("customRegistries") or {}
    found = {}
    for host, login in given.items():
        secret = login if isinstance(login, dict) else {}
        user, password = (secret.get(name) for name in ("userName", "password"))
        if not all(isinstance(one, dict) and one.get("type") == "Opaque" for one in (user, password)):
            raise NotSupportedError("credentials of ACR Tasks that are not opaque values")
        found[str(host)] = (str(user["value"]), str(password["value"])) if user and password else ("", "")
    return found
