"""A job service in another process, which may have another Python and other packages: see `tests.integration.jobs.contract.worker`."""

from __future__ import annotations

import itertools
import subprocess
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, cast

from aml_train.azure.names import WorkspaceId
from aml_train.core.threads import CancelToken
from aml_train.jobs.workspace import Workspace
from aml_train.models.catalogue import Catalogue
from tests.integration.jobs.contract.worker import read_frame, write_frame
from tests.support.emulator_process import Emulator

SECONDS = 600


class Worker:
    """The process. *python* runs it; it begins by loading *sdks*."""

    def __init__(self, emulator: Emulator, python: str, sdks: Sequence[str], log: Path) -> None:
        info = emulator.info
        self._log = log
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                [python, "-m", "tests.integration.jobs.contract.worker", *sdks],
                cwd=emulator.folder,
                env=emulator.workspace_environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        self._numbers = itertools.count()
        self._waiting: dict[int, Future[Any]] = {}
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read, name="answers", daemon=True)
        place = WorkspaceId(
            subscription_id=info["subscription_id"], resource_group=info["resource_group"], name=info["workspace"]
        )
        assert self._process.stdin is not None
        write_frame(self._process.stdin, place)
        self._reader.start()

    def ask(self, which: str, method: str, *args: Any, **options: Any) -> Any:
        """Call a method of one of the services there; raise what it raises."""
        answered: Future[Any] = Future()
        assert self._process.stdin is not None
        with self._lock:
            number = next(self._numbers)
            self._waiting[number] = answered
            write_frame(self._process.stdin, (number, which, method, args, options))
        value, fault = answered.result(SECONDS)
        if fault is not None:
            raise fault  # where it comes from stands in the log
        return value

    def _read(self) -> None:
        assert self._process.stdout is not None
        while (message := read_frame(self._process.stdout)) is not None:
            number, value, fault = message
            self._waiting.pop(number).set_result((value, fault))
        for left in self._waiting.values():
            left.set_exception(AssertionError(f"the process ended:\n{self._log.read_text()[-4000:]}"))

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        assert self._process.wait(SECONDS) == 0, self._log.read_text()
        self._reader.join()
        self._process.stdout.close()


class RemoteService:
    """A `aml_train.jobs.workspace.Workspace`: each method asks the process."""

    def __init__(self, worker: Worker, which: str) -> None:
        self._worker = worker
        self._which = which

    def __getattr__(self, method: str) -> Any:
        return lambda *args, **options: self._worker.ask(self._which, method, *args, **options)

    def read_log(self, url: str, offset: int) -> Any:
        """Bytes arrive at once."""
        return iter(self._worker.ask(self._which, "read_log", url, offset))

    def read_log_by_service(self, name: str, path: str, offset: int) -> Any:
        """Bytes arrive at once."""
        return iter(self._worker.ask(self._which, "read_log_by_service", name, path, offset))

    def submit(self, job: Any, submission: CancelToken) -> Any:
        """Submit there; *submission* knows afterwards what became of it."""
        return self._sent("submit", submission, job)

    def resubmit(
        self, name: str, new: str, *, tags: Mapping[str, str], submission: CancelToken, checkpoints: str = ""
    ) -> Any:
        """Submit there, as `submit`."""
        return self._sent("resubmit", submission, name, new, tags=tags, checkpoints=checkpoints)

    def _sent(self, method: str, submission: CancelToken, *args: Any, **options: Any) -> Any:
        told: list[bool] = []
        submission.add_action(lambda: told.append(True))
        called_off = bool(told)
        view, left = self._worker.ask(self._which, method, *args, called_off=called_off, **options)
        if left:
            submission.commit()
        return view


def service_of(worker: Worker, which: str) -> Workspace:
    """Return one of the services of the process."""
    return cast(Workspace, RemoteService(worker, which))


def catalogue_of(worker: Worker) -> Catalogue:
    """Return the models of the workspace; their tags are changed by asking the process for ``change_tags``."""
    return cast(Catalogue, RemoteService(worker, "catalogue"))
