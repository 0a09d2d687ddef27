"""Is there a blob of that name already? Answered for any number of names from one pass over the listing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from aml_train.azure.blob.storage import Entry, Storage
from aml_train.core.globs import order

#: So many names are looked up one by one before the listing is begun: for a few files in a huge folder it would be dear.
_ONE_BY_ONE: Final = 8


class Lookup:
    """Finds blobs by name, for names that come in the order of a listing.

    The listing is read along with the names, so that nothing but its current page is held. Where it comes in another order, as in
    accounts with a hierarchical namespace, names are asked for one by one.

    Args:
        storage: where to look.
        prefix: what all names begin with.
    """

    def __init__(self, storage: Storage, prefix: str) -> None:
        self._storage = storage
        self._prefix = prefix
        self._asked = 0
        self._listing: Iterator[Entry] | None = None
        self._current: Entry | None = None
        self._ordered = True

    def find(self, name: str) -> Entry | None:
        """Return the blob, or None. Names must come in the order of :func:`aml_train.core.globs.order`."""
        self._asked += 1
        if self._asked <= _ONE_BY_ONE or not self._ordered:
            return self._storage.find(name)
        if self._listing is None:
            if self._storage.hierarchical:
                self._ordered = False
                return self._storage.find(name)
            self._listing = self._storage.walk(self._prefix)
            self._current = next(self._listing, None)
        key = order(name)
        while self._current is not None and order(self._current.name) < key:
            before = order(self._current.name)
            self._current = next(self._listing, None)
            if self._current is not None and order(self._current.name) < before:
                self._ordered = False
                return self._storage.find(name)
        return self._current if self._current is not None and self._current.name == name else None
