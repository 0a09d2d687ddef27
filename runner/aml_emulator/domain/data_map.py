"""Addresses of data elsewhere, and the folders of the workspace that replace them."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from urllib.parse import unquote, urlsplit

from aml_emulator.executor.spec import Folder
from aml_emulator.files import write_private

SCHEMES = ("https", "http", "wasbs", "wasb", "abfss", "abfs")


class DataMap:
    """Which folder replaces which address. Safe to use from several threads.

    Args:
        path: where the entries are kept; None keeps them in memory.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._folders: dict[str, Folder] = {}
        if path is not None and path.exists():
            entries = json.loads(path.read_text("utf-8"))
            self._folders = {str(address): Folder(**place) for address, place in entries.items()}

    def put(self, address: str, folder: Folder) -> Folder | None:
        """Replace an address, and all below it, by a folder or a file.

        Returns:
            the folder that did so before.

        Raises:
            ValueError: *address* is not an address of data.
        """
        with self._lock:
            name = canonical(address)
            before = self._folders.get(name)
            self._keep({**self._folders, name: folder})
        return before

    def remove(self, address: str) -> Folder | None:
        """Remove an address, and return the folder that replaced it, or None."""
        with self._lock:
            name = canonical(address)
            before = self._folders.get(name)
            self._keep({key: folder for key, folder in self._folders.items() if key != name})
        return before

    def clear(self) -> None:
        """Remove all entries."""
        with self._lock:
            self._keep({})

    def listed(self) -> dict[str, Folder]:
        """Return the folders by address."""
        with self._lock:
            return dict(sorted(self._folders.items()))

    def find(self, uri: str) -> Folder | None:
        """Return the place that replaces an address, or None; the longest entry counts."""
        try:
            name = canonical(uri)
        except ValueError:
            return None
        for address, folder in sorted(self.listed().items(), key=lambda entry: -len(entry[0])):
            if name == address:
                return folder
            if name.startswith(f"{address}/"):
                below = name.removeprefix(f"{address}/")
                return Folder(container=folder.container, prefix=f"{folder.prefix.rstrip('/')}/{below}")
        return None

    def _keep(self, folders: dict[str, Folder]) -> None:
        self._folders = folders
        if self._path is not None:
            entries = {
                address: {"container": one.container, "prefix": one.prefix} for address, one in folders.items()
            }
            write_private(self._path, json.dumps(entries).encode())


def canonical(address: str) -> str:
    """Return an address in the one form under which it is compared.

    A container of Azure Storage has several: ``https://ACCOUNT.blob…/CONTAINER/PATH``, ``wasbs://CONTAINER@ACCOUNT.blob…/PATH``
    and ``abfss://FILESYSTEM@ACCOUNT.dfs…/PATH``
    (https://learn.microsoft.com/azure/machine-learning/reference-yaml-data#yaml-syntax). A query, which may be a
    signature, does not count.

    Raises:
        ValueError: it is not an address of data.
    """
    parts = urlsplit(address.strip())
    host = (parts.hostname or "").lower()
    if parts.scheme.lower() not in SCHEMES or not host:
        raise ValueError(f"{address.partition('?')[0]!r} is not an address of data, such as https://HOST/PATH")
    folders = [parts.username or "", *unquote(parts.path).split("/")]
    path = "/".join(one for one in folders if one)
    host = host.replace(".dfs.", ".blob.")
    return f"https://{host}{f':{parts.port}' if parts.port else ''}{f'/{path}' if path else ''}"
