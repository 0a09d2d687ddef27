"""The names of the workspaces that were created, kept over restarts.

A creation appends one line to a file: a hundred at once take no longer than one.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import threading
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from aml_emulator.identity.identity import Identity
from aml_emulator.reading import write_private

NAME: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_-]{2,32}")
"""Azure's rule: https://learn.microsoft.com/azure/azure-resource-manager/management/resource-name-rules."""


class WorkspaceNames:
    """The identities of all workspaces by name, in whatever case. Thread-safe.

    Args:
        first: the workspace that every emulator has.
        path: the file of the others; None keeps them in memory.

    Raises:
        ValueError: the file is there and does not hold names.
    """

    def __init__(self, first: Identity, path: Path | None = None) -> None:
        self._first = first
        self._path = path
        self._lock = threading.Lock()
        self._known: dict[str, Identity] = {first.workspace.lower(): first}
        if path is not None and path.exists():
            self._read(path)
            lines = [self._line(one) for one in self.all()[1:]]
            write_private(path, "".join(lines).encode())

    def all(self) -> tuple[Identity, ...]:
        """Return all identities, the first one first, then the oldest."""
        return tuple(self._known.values())

    def get(self, name: str) -> Identity | None:
        """Return a workspace's identity, or None."""
        return self._known.get(name.lower())

    def create(self, name: str) -> Identity:
        """Create a name and return its identity.

        Raises:
            ValueError: Azure takes no such name.
            KeyError: there is a workspace of that name.
            OSError: the file has no room for it.
        """
        if not NAME.fullmatch(name):
            raise ValueError(
                f"name: 3 to 33 letters, digits, '-' and '_', with a letter or digit at the beginning, not '{name}'"
            )
        made = self._named(name, workspace_id=str(uuid.uuid4()), instance=secrets.token_hex(4))
        with self._lock:
            if name.lower() in self._known:
                raise KeyError(name)
            self._append(self._line(made))
            self._known[name.lower()] = made
        return made

    def remove(self, name: str) -> None:
        """Forget a name, if it is known and not the first one."""
        with self._lock:
            found = self._known.get(name.lower())
            if found is None or found is self._first:
                return
            self._append(f"{json.dumps({'removed': found.workspace})}\n")
            del self._known[name.lower()]

    def _named(self, name: str, *, workspace_id: str, instance: str) -> Identity:
        return replace(
            self._first,
            workspace=name,
            workspace_id=workspace_id,
            instance=instance,
            # All workspaces have one storage account, and runs of the same name.
            artifact_container=f"azureml-{workspace_id}",
        )

    @staticmethod
    def _line(identity: Identity) -> str:
        kept = {"name": identity.workspace, "workspace_id": identity.workspace_id, "instance": identity.instance}
        return f"{json.dumps(kept)}\n"

    def _append(self, line: str) -> None:
        if self._path is None:
            return
        data = line.encode()
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            before = os.fstat(descriptor).st_size
            if os.write(descriptor, data) < len(data):
                # The next line would follow half of this one, and the file could not be read.
                os.ftruncate(descriptor, before)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
        finally:
            os.close(descriptor)

    def _read(self, path: Path) -> None:
        for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
            try:
                kept: Mapping[str, str] = json.loads(line)
                if "removed" in kept:
                    self._known.pop(kept["removed"].lower(), None)
                else:
                    name = kept["name"]
                    self._known[name.lower()] = self._named(
                        name, workspace_id=kept["workspace_id"], instance=kept["instance"]
                    )
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                if not line.endswith("\n"):
                    # The disk was full, or the machine ended, in the middle of it: no one got an answer.
                    return
                raise ValueError(f"{path} does not hold the names of workspaces; remove the data folder") from error
