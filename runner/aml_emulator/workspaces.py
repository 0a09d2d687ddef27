"""Opens workspaces: each has a database, clusters, a queue of jobs and interfaces.

They share the machine: storage, registry, sign-in, faults, and the places for running jobs.
"""

from __future__ import annotations

import logging
import shutil
import sqlite3
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from aml_emulator.api.admin import Admin, prepare_workspace
from aml_emulator.api.app import App
from aml_emulator.api.directory import OpenWorkspace
from aml_emulator.context import Context
from aml_emulator.domain.jobs.service import JobService, RunProgress
from aml_emulator.domain.workspace import ShownStates
from aml_emulator.executor.nodes import Fleet
from aml_emulator.executor.queue import JobQueue
from aml_emulator.executor.shared import EngineFault
from aml_emulator.executor.spec import ExecutorSettings, JobExecutor, SinkFor
from aml_emulator.identity.identity import Identity
from aml_emulator.identity.tokens import Tokens
from aml_emulator.store.store import Store, has_unfinished_jobs

logger = logging.getLogger(__name__)

ENGINE_SECONDS: Final = 3.0
LOOPBACK: Final = frozenset({"127.0.0.1", "localhost"})

MakeRunner = Callable[[Context, ExecutorSettings, SinkFor], JobExecutor]
"""Gives what executes jobs: of the context, how jobs reach the emulator, and where each run's progress is reported."""

MakeAdmin = Callable[[Context, JobService], Admin]


def run_in_containers(context: Context, settings: ExecutorSettings, sink_for: SinkFor) -> JobExecutor:
    """Return what executes jobs as containers."""
    return JobQueue(blobs=context.blobs, settings=settings, sink_for=sink_for, fleet=context.fleet)


@dataclass(frozen=True, kw_only=True)
class Opener:
    """Opens the workspaces that were created.

    Attributes:
        first: the context of the first workspace, most of which is everyone's.
        folder: of the workspaces' state, one folder each.
        executing: how jobs reach the emulator.
        make_runner: gives what executes jobs.
        make_admin: gives a workspace's admin interface.
        node_start_seconds: how long a cluster's node takes to start.
    """

    first: Context
    folder: Path
    executing: ExecutorSettings
    make_runner: MakeRunner
    make_admin: MakeAdmin
    node_start_seconds: float

    def place(self, identity: Identity) -> Path:
        """Return the folder of a workspace's state."""
        return self.folder / identity.workspace_id

    def open(self, identity: Identity) -> OpenWorkspace:
        """Open a workspace; jobs of an earlier process are adopted in the background."""
        place = self.place(identity)
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        with ExitStack() as made:
            return self._open(identity, place, made)

    def _open(self, identity: Identity, place: Path, made: ExitStack) -> OpenWorkspace:
        """Open a workspace; *made* closes what was made for it if something fails."""
        first = self.first
        store = Store(place / "store.db", clock=first.clock)
        made.callback(store.close)
        context = replace(
            first,
            identity=identity,
            store=store,
            tokens=Tokens(identity, clock=first.clock),
            fleet=Fleet(clock=first.clock, start_seconds=self.node_start_seconds, seed=identity.instance),
            shown=ShownStates(),
            page_address=page_address(first.page_address, identity.workspace),
        )
        prepare_workspace(context, max_jobs=self.executing.max_jobs)
        runner = self._runner(context)
        made.callback(runner.close)
        jobs = JobService(context, runner)
        made.callback(jobs.close)
        closed = threading.Event()
        name = f"resume-{identity.workspace}"
        threading.Thread(target=_resume_logged, args=(jobs, closed), name=name, daemon=True).start()

        made.callback(closed.set)
        return OpenWorkspace(
            context=context,
            jobs=jobs,
            app=App(context, jobs),
            admin=self.make_admin(context, jobs),
            close=made.pop_all().close,
            delete=partial(_remove_folder, place),
        )

    def remove(self, identity: Identity) -> None:
        """Remove a workspace that cannot be opened.

        Its containers, its images, its blobs and its state.
        """
        runner = self._runner(replace(self.first, identity=identity))
        try:
            runner.adopt(())
            runner.forget_images()
        finally:
            runner.close()
        for container in self.first.blobs.containers():
            if identity.owns(container):
                self.first.blobs.delete_container(container)
        _remove_folder(self.place(identity))

    def _runner(self, context: Context) -> JobExecutor:
        """Return what executes the jobs of a workspace."""
        settings = replace(self.executing, instance=context.identity.instance)
        return self.make_runner(context, settings, partial(RunProgress, context))

    def is_empty(self, identity: Identity) -> bool:
        """Return whether a workspace was never opened: it has no state."""
        return not self.place(identity).exists()

    def has_jobs(self, identity: Identity) -> bool:
        """Return whether an earlier process left jobs that had not ended."""
        path = self.place(identity) / "store.db"
        try:
            return path.exists() and has_unfinished_jobs(path)
        except sqlite3.Error:
            # It is opened, and its first request says what is wrong with it.
            logger.exception("the database of the workspace %s cannot be read", identity.workspace)
            return False


def _remove_folder(folder: Path) -> None:
    # A request that still reads has SQLite remove the files of its log at its end.
    while folder.exists():
        with suppress(FileNotFoundError):
            shutil.rmtree(folder)


def _resume_logged(jobs: JobService, closed: threading.Event) -> None:
    try:
        resume(jobs, closed)
    except Exception:
        # No one waits for this thread.
        logger.exception("the jobs of a workspace could not be resumed")


def resume(jobs: JobService, closed: threading.Event) -> None:
    """Resume jobs when the container engine answers; until then they are queued.

    An engine that is lost in the middle of it is waited for, too.
    """
    while not closed.is_set():
        if jobs.runner.engine_ready():
            try:
                jobs.resume()
            except EngineFault:
                logger.exception("the container engine was lost while jobs were resumed")
            else:
                return
        else:
            logger.error("the container engine does not answer: jobs stay queued until it does")
        closed.wait(ENGINE_SECONDS)


def page_address(first: str, workspace: str) -> str:
    """Return where a browser finds a workspace's page: at its name below localhost.

    Browsers resolve such names to this machine (RFC 6761). A page elsewhere is the first workspace's.
    """
    parts = urlsplit(first)
    if parts.hostname not in LOOPBACK:
        return first
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{workspace.lower()}.localhost{port}"
