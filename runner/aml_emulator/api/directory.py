"""The workspaces of one emulator, opened when they are first used."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aml_emulator.api.admin import Admin
from aml_emulator.api.app import App
from aml_emulator.api.errors import ServiceError, cannot_open
from aml_emulator.context import Context
from aml_emulator.domain.errors import ConflictError, InvalidError, NotFoundError
from aml_emulator.domain.jobs.service import JobService
from aml_emulator.identity.identity import Identity, WorkspaceNames

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class OpenWorkspace:
    """A workspace in use: its state, its jobs and its interfaces.

    Attributes:
        close: ends its threads and its database; jobs continue in their containers.
        delete: removes its state, after *close*.
    """

    context: Context
    jobs: JobService
    app: App
    admin: Admin
    close: Callable[[], None] = lambda: None
    delete: Callable[[], None] = lambda: None


class Directory:
    """Finds workspaces by name. Thread-safe.

    Args:
        names: all of them.
        first: the one that every emulator has, which is always open.
        open_workspace: opens another one.
        is_empty: whether a workspace was never opened.
        remove: removes all of a workspace that cannot be opened.
    """

    def __init__(
        self,
        names: WorkspaceNames,
        first: OpenWorkspace,
        open_workspace: Callable[[Identity], OpenWorkspace],
        is_empty: Callable[[Identity], bool],
        remove: Callable[[Identity], None],
    ) -> None:
        self._names = names
        self.first = first
        self._open = open_workspace
        self._is_empty = is_empty
        self._remove = remove
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

    def find_open(self, name: str) -> OpenWorkspace | None:
        """Return a workspace if it is open: that takes no time."""
        identity = self._names.get(name)
        return None if identity is None else self._opened.get(identity.workspace_id)

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
        refused = found.admin.end_jobs(force=force)
        if refused is not None:
            raise ConflictError(refused)
        with self._lock:
            # The name goes last: what fails or is killed before can be done again.
            found.admin.delete_files()
            self._opened.pop(found.context.identity.workspace_id, None)
            found.close()
            found.delete()
            self._names.remove(name)
        logger.warning("the workspace %s was deleted", name)

    def close(self) -> None:
        """Close the workspaces that were opened, but for the first one."""
        with self._lock:
            for one in self._opened.values():
                if one is not self.first:
                    one.close()
            self._opened = {self.first.context.identity.workspace_id: self.first}
