"""The workspaces of one emulator: each has a database, clusters, a queue of jobs and interfaces.

They share the machine: storage, registry, sign-in, faults, and the places for running jobs. All but the first one are opened
when they are first used.
"""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from aml_emulator.api.admin import Admin, prepare_workspace
from aml_emulator.api.app import App
from aml_emulator.api.errors import ServiceError, cannot_open
from aml_emulator.context import Context
from aml_emulator.domain.environment_builds import EnvironmentBuilds
from aml_emulator.domain.errors import ConflictError, InvalidError, NotFoundError
from aml_emulator.domain.jobs.service import JobService, RunProgress
from aml_emulator.domain.registry_tasks import RegistryTasks
from aml_emulator.domain.workspace import ShownStates
from aml_emulator.executor.nodes import Fleet
from aml_emulator.executor.queue import JobQueue
from aml_emulator.executor.shared import EngineFault
from aml_emulator.executor.spec import ExecutorSettings, JobExecutor, SinkFor
from aml_emulator.identity.identity import Identity, WorkspaceNames
from aml_emulator.identity.tokens import Tokens
from aml_emulator.store.store import Store

logger = logging.getLogger(__name__)

ENGINE_SECONDS: Final = 3.0
LOOPBACK: Final = frozenset({"127.0.0.1", "localhost"})

MakeRunner = Callable[[Context, ExecutorSettings, SinkFor], JobExecutor]
"""Gives what executes jobs: of the context, how jobs reach the emulator, and where each run's progress is reported."""


def run_in_containers(context: Context, settings: ExecutorSettings, sink_for: SinkFor) -> JobExecutor:
    """Return what executes jobs as containers."""
    return JobQueue(blobs=context.blobs, settings=settings, sink_for=sink_for, fleet=context.fleet)


@dataclass(frozen=True, kw_only=True)
class OpenWorkspace:
    """A workspace in use: its state, its jobs and its interfaces.

    Attributes:
        close: ends its threads and its database; jobs continue in their containers.
    """

    context: Context
    jobs: JobService
    app: App
    admin: Admin
    close: Callable[[], None] = lambda: None


@dataclass(frozen=True, kw_only=True)
class Opener:
    """What every workspace is opened with.

    Attributes:
        executing: how jobs reach the emulator.
        make_runner: gives what executes jobs.
        make_admin: gives a workspace's admin interface, by the keywords ``context``, ``jobs`` and ``tasks``.
    """

    executing: ExecutorSettings
    make_runner: MakeRunner
    make_admin: Callable[..., Admin]

    def open(
        self,
        context: Context,
        made: ExitStack | AsyncExitStack,
        *,
        tasks: RegistryTasks | None = None,
        builds: EnvironmentBuilds | None = None,
    ) -> OpenWorkspace:
        """Return a workspace; *made* closes what was made for it."""
        prepare_workspace(context, max_jobs=self.executing.max_jobs)
        runner = self.runner(context)
        made.callback(runner.close)
        jobs = JobService(context, runner)
        made.callback(jobs.close)
        return OpenWorkspace(
            context=context,
            jobs=jobs,
            app=App(context, jobs, tasks, builds),
            admin=self.make_admin(context=context, jobs=jobs, tasks=tasks),
        )

    def runner(self, context: Context) -> JobExecutor:
        """Return what executes the jobs of a workspace."""
        settings = replace(self.executing, instance=context.identity.instance)
        return self.make_runner(context, settings, partial(RunProgress, context))


class Directory:
    """Finds workspaces by name, and opens them. Thread-safe.

    Args:
        names: all of them.
        first: the one that every emulator has, which is always open; most of its context is everyone's.
        folder: of the others' state, one folder each.
    """

    def __init__(self, names: WorkspaceNames, first: OpenWorkspace, opener: Opener, folder: Path) -> None:
        self._names = names
        self.first = first
        self._opener = opener
        self._folder = folder
        self._lock = threading.RLock()
        self._opened: dict[str, OpenWorkspace] = {first.context.identity.workspace_id: first}

    def all(self) -> Sequence[Identity]:
        """Return the identities of all workspaces, the first one first."""
        return self._names.all()

    def opened(self) -> tuple[OpenWorkspace, ...]:
        """Return the workspaces that are open."""
        return tuple(self._opened.values())

    def create(self, name: str) -> Identity:
        """Create a workspace; it is opened when it is first used.

        Raises:
            InvalidError: Azure takes no such name.
            ConflictError: there is a workspace of that name.
        """
        try:
            return self._names.create(name)
        except ValueError as error:
            raise InvalidError(str(error)) from error
        except KeyError as error:
            raise ConflictError(f"there is a workspace '{name}' already") from error

    def find(self, name: str) -> OpenWorkspace | None:
        """Return a workspace by its name in whatever case, or None; it is opened.

        Raises:
            ServiceError: its state cannot be used.
        """
        identity = self._names.get(name)
        if identity is None:
            return None
        found = self._opened.get(identity.workspace_id)
        if found is not None:
            return found
        with self._lock:
            if self._names.get(name) is not identity:
                return None
            if identity.workspace_id not in self._opened:
                self._opened[identity.workspace_id] = self._opened_now(identity)
            return self._opened[identity.workspace_id]

    def _opened_now(self, identity: Identity) -> OpenWorkspace:
        try:
            return self._open(identity)
        except Exception as error:
            # The boundary between workspaces: the others work without it.
            logger.exception("the workspace %s cannot be opened", identity.workspace)
            raise cannot_open(identity.workspace, error) from error

    def _place(self, identity: Identity) -> Path:
        """Return the folder of a workspace's state."""
        return self._folder / identity.workspace_id

    def _open(self, identity: Identity) -> OpenWorkspace:
        """Open a workspace; jobs of an earlier process are adopted in the background."""
        place, first = self._place(identity), self.first.context
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        with ExitStack() as made:
            store = Store(place / "store.db", clock=first.clock)
            made.callback(store.close)
            context = replace(
                first,
                identity=identity,
                store=store,
                tokens=Tokens(identity, clock=first.clock),
                fleet=Fleet(clock=first.clock, start_seconds=first.fleet.start_seconds, seed=identity.instance),
                shown=ShownStates(),
                page_address=page_address(first.page_address, identity.workspace),
            )
            workspace = self._opener.open(context, made)
            closed = threading.Event()
            threading.Thread(target=resume, args=(workspace.jobs, closed), name="resume", daemon=True).start()
            made.callback(closed.set)
            return replace(workspace, close=made.pop_all().close)

    def _remove(self, identity: Identity) -> None:
        """Remove the containers, images, blobs and state of a workspace that cannot be opened."""
        first = self.first.context
        runner = self._opener.runner(replace(first, identity=identity))
        try:
            runner.adopt(())
            runner.forget_images()
        finally:
            runner.close()
        for container in first.blobs.containers():
            if identity.owns(container):
                first.blobs.delete_container(container)
        self._remove_folder(identity)

    def _remove_folder(self, identity: Identity) -> None:
        # A request that still reads has SQLite remove the files of its log at its end.
        while self._place(identity).exists():
            with suppress(FileNotFoundError):
                shutil.rmtree(self._place(identity))

    def _is_empty(self, identity: Identity) -> bool:
        """Return whether a workspace was never opened: it has no state."""
        return not self._place(identity).exists()

    def resume(self, stopping: threading.Event) -> None:
        """Resume the jobs of all workspaces, in a thread of its own."""
        resume(self.first.jobs, stopping)
        for identity in self.all()[1:]:
            if not stopping.is_set() and not self._is_empty(identity):
                # The log has the reason, and its requests report it: the others continue.
                with suppress(ServiceError):
                    self.find(identity.workspace)

    def delete(self, name: str, *, force: bool) -> None:
        """Delete a workspace with its jobs, assets and files.

        Args:
            force: cancel its jobs that run; remove it also if it cannot be opened.

        Raises:
            NotFoundError: there is none of this name.
            InvalidError: it is the first one, which stays.
            ConflictError: jobs run in it, or may run as it cannot be opened.
        """
        with self._lock:
            identity = self._names.get(name)
            if identity is None:
                raise NotFoundError(f"workspace '{name}'", message=f"there is no workspace '{name}'")
            if identity.workspace_id not in self._opened and self._is_empty(identity):
                self._names.remove(name)
                return
            try:
                found = self.find(name)
            except ServiceError as error:
                if not force:
                    raise ConflictError(f"{error.message} Its jobs may run.") from error
                self._remove(identity)
                self._names.remove(name)
                logger.warning("the workspace %s was deleted, which could not be opened", name)
                return
        if found is None or found is self.first:
            raise InvalidError(f"the workspace '{name}' stays: reset it instead")
        found.admin.end_jobs(force=force)
        with self._lock:
            # The name goes last: what fails or is killed before can be done again.
            found.admin.delete_files()
            self._opened.pop(identity.workspace_id, None)
            found.close()
            self._remove_folder(identity)
            self._names.remove(name)
        logger.warning("the workspace %s was deleted", name)

    def close(self) -> None:
        """Close the workspaces that were opened, but for the first one."""
        with self._lock:
            for one in self._opened.values():
                if one is not self.first:
                    one.close()
            self._opened = {self.first.context.identity.workspace_id: self.first}


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
            except Exception:
                # No one waits for this thread.
                logger.exception("the jobs of a workspace could not be resumed")
                return
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
