"""Jobs that consist of other runs: pipelines of nodes, sweeps of trials.

One thread advances them, when they are submitted and when one of their runs ends; it starts with the first of them.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from aml_emulator.domain.workspace import Workspace
from aml_emulator.store.database import is_storage_fault
from aml_emulator.store.runs import Run

logger = logging.getLogger(__name__)

RETRY_SECONDS: Final = 5.0
"""After a storage fault, such as a full disk."""

SubmitChild = Callable[[str, Mapping[str, Any], Mapping[str, str]], Run]
"""Submits the job of a child: of its name, its properties as a job, and those of its run. One that is there already is returned."""

PIPELINE: Final = "pipeline"
SWEEP: Final = "sweep"
_KINDS: Final = (PIPELINE, SWEEP)


def composed_kind(job: Mapping[str, Any] | None) -> str | None:
    """Return the kind of a composed job by its properties; None for another job."""
    kind = str((job or {}).get("jobType") or "").lower()
    return kind if kind in _KINDS else None


NODE_ID: Final = "azureml.nodeid"
"""The property of a node's run that names its node."""

TRIAL: Final = "azureml.trial"
"""The property of a trial's run with its number, from 0."""


def is_child(run: Run) -> bool:
    """Return whether a run is a child: Azure shows those by run history alone."""
    return NODE_ID in run.properties or TRIAL in run.properties


class Advancing(Protocol):
    """One kind of composed jobs."""

    def check(self, job: Mapping[str, Any], *, name: str = "") -> None:
        """Return if the job of that name can be run; raise DomainError otherwise."""

    def advance(self, run: Run) -> None:
        """Begin the children that can, and end the job when none runs and none can."""

    def fail(self, run: Run, message: str) -> None:
        """End the job, and cancel its children."""


class Composed:
    """Advances the composed jobs of a workspace.

    Args:
        kinds: what advances them, by kind.
        cancel: cancels a job.
    """

    def __init__(
        self, workspace: Workspace, kinds: Mapping[str, Advancing], *, cancel: Callable[[str], object]
    ) -> None:
        self._workspace = workspace
        self._kinds = kinds
        self._cancel = cancel
        self._changed: queue.Queue[str | None] = queue.Queue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._timers: list[threading.Timer] = []
        workspace.store.runs.on_end(self._touch)
        workspace.store.metrics.on_log(self._touch)

    def check(self, job: Mapping[str, Any], *, name: str) -> None:
        """Return if a composed job can be run, as far as is known before it is.

        Raises:
            DomainError: it cannot.
        """
        self._kinds[str(composed_kind(job))].check(job, name=name)

    def begin(self, run: Run) -> None:
        """Have the children of a stored job begin."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="composed-jobs", daemon=True)
                self._thread.start()
        self._changed.put(run.id)

    def remind(self, run: Run, seconds: float) -> None:
        """Have a job advanced after so many seconds."""
        self._touch_in(seconds, run.id)

    def _touch_in(self, seconds: float, run_id: str) -> None:
        timer = threading.Timer(seconds, self._touch, args=(run_id,))
        timer.daemon = True
        self._timers = [one for one in self._timers if one.is_alive()] + [timer]
        timer.start()

    def stop(self, run: Run) -> None:
        """Cancel a job: its children are cancelled, and it ends when they have."""
        cancel_children(self._workspace, run, self._cancel)
        self.begin(run)

    def settle(self) -> None:
        """Return when everything that can begin has begun."""
        self._changed.join()

    def close(self) -> None:
        """Begin nothing more."""
        for timer in self._timers:
            timer.cancel()
        self._changed.put(None)

    def _touch(self, run_id: str) -> None:
        """Have the job advanced that a run is, or is a child of.

        Before the first composed job there is none.
        """
        if self._thread is not None:
            self._changed.put(run_id)

    def _work(self) -> None:
        while (run_id := self._changed.get()) is not None:
            try:
                self._advance(run_id)
            except Exception:
                # Nothing could be read or stored: a thread that ended here would leave all jobs as they are.
                logger.exception("job %s: it is advanced again in %g s", run_id, RETRY_SECONDS)
                self._touch_in(RETRY_SECONDS, run_id)
            finally:
                self._changed.task_done()
        self._changed.task_done()

    def _advance(self, run_id: str) -> None:
        run = self._workspace.store.runs.get(run_id)
        if run is not None and run.parent_id is not None and (run.terminal or composed_kind(run.job) is None):
            grown, run = not run.terminal, self._workspace.store.runs.get(run.parent_id)
            if grown and not (run and run.job and run.job.get("earlyTermination")):
                # New values only decide which trials end early, and jobs may log many of them.
                return
        kind = None if run is None or run.terminal else composed_kind(run.job)
        if run is None or kind is None:
            return
        try:
            self._kinds[kind].advance(run)
        except Exception as error:
            if is_storage_fault(error):
                raise
            logger.exception("job %s: it cannot continue", run.id)
            self._kinds[kind].fail(run, f"The job cannot continue: {type(error).__name__}")


def end_composed(
    workspace: Workspace,
    run: Run,
    status: str,
    message: str | None = None,
    *,
    log: str,
    said: str,
    cancel: Callable[[str], object],
) -> None:
    """End a composed job, and cancel its children.

    Args:
        message: why it failed; None if it did not.
        log: the path separate log.
        said: what the log says before the status.
        cancel: cancels a job.
    """
    cancel_children(workspace, run, cancel)
    write_line(workspace, run, log, f"{said}: {status}")
    code = None if message is None else "UserError"
    workspace.store.runs.finish(run.id, status, code=code, message=message)
    logger.info("%s %s: %s", composed_kind(run.job), run.id, status)


def cancel_children(workspace: Workspace, run: Run, cancel: Callable[[str], object]) -> None:
    """Cancel the children of a run that have not ended."""
    for child in workspace.store.runs.children(run.id):
        if not child.terminal:
            cancel(child.id)


def write_line(workspace: Workspace, run: Run, path: str, line: str) -> None:
    """Write a line of a composed job's own log."""
    moment = datetime.fromtimestamp(workspace.clock(), UTC)
    folder = workspace.artifacts_of(run.id)
    name = folder.name_of(path)
    if workspace.store.runs.artifact(run.id, path) is None:
        # A deleted job of the same name has left its log.
        workspace.blobs.delete_prefix(folder.container, name)
    workspace.blobs.append(folder.container, name, f"[{moment:%Y-%m-%d %H:%M:%SZ}] {line}\n".encode())
    workspace.store.runs.add_artifact(run.id, path, log=True)
