"""The attributes by which Azure Container Registry locks repositories, tags and manifests.

Source: https://learn.microsoft.com/azure/container-registry/container-registry-image-lock. Writing switched off forbids deleting as
well (https://github.com/Azure/acr/issues/561).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path

ATTRIBUTES = ("deleteEnabled", "writeEnabled", "readEnabled", "listEnabled")


class Locks:
    """Remembers which attributes are switched off; they are kept in a file.

    A thing is named by its repository and, within it, by nothing, a tag, or a digest: a tag has no colon, a digest has one.

    Args:
        file: where they are kept; made when the first attribute is set.

    Raises:
        ValueError: the file is there and is none of these.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._off: dict[str, dict[str, list[str]]] = {}
        if file.exists():
            try:
                self._off = {
                    repository: {name: list(off) for name, off in things.items()}
                    for repository, things in json.loads(file.read_text("utf-8")).items()
                }
            except (AttributeError, TypeError, ValueError) as error:
                raise ValueError(f"{file} does not hold the registry's attributes ({error})") from error

    def of(self, repository: str, name: str = "") -> dict[str, bool]:
        """Return the attributes of a thing."""
        off = self._off.get(repository, {}).get(name, ())
        return {attribute: attribute not in off for attribute in ATTRIBUTES}

    def allows(self, attribute: str, repository: str, *names: str) -> bool:
        """Return whether *attribute* is on for the repository and for each of the things named in it."""
        wanted = ("deleteEnabled", "writeEnabled") if attribute == "deleteEnabled" else (attribute,)
        things = self._off.get(repository, {})
        return not any(one in things.get(name, ()) for name in ("", *names) for one in wanted)

    def names(self, repository: str) -> list[str]:
        """Return the things of a repository that attributes are kept for."""
        return list(self._off.get(repository, ()))

    def change(self, repository: str, name: str, changes: Mapping[str, bool]) -> None:
        """Switch attributes on and off; others stay."""
        with self._lock:
            off = set(self._off.get(repository, {}).get(name, ()))
            off = {one for one in off | set(changes) if not changes.get(one, False)}
            self._off.setdefault(repository, {})[name] = sorted(off)
            self._write()

    def forget(self, repository: str, name: str | None = None) -> None:
        """Forget a thing that is no more: by name, or the repository with all that was in it."""
        with self._lock:
            if name is None:
                gone: object = self._off.pop(repository, None)
            else:
                gone = self._off.get(repository, {}).pop(name, None)
            if gone is not None:
                self._write()

    def _write(self) -> None:
        temporary = self._file.with_suffix(".new")
        kept = {
            repository: {name: off for name, off in things.items() if off}
            for repository, things in self._off.items()
            if any(things.values())
        }
        temporary.write_text(json.dumps(kept, indent=1), encoding="utf-8")
        temporary.replace(self._file)
