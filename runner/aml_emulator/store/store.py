"""The emulator's state: one database behind the v2, history and MLflow interfaces."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from aml_emulator.store.assets import AssetStore
from aml_emulator.store.browse import Browse
from aml_emulator.store.database import Database
from aml_emulator.store.datastores import DatastoreStore
from aml_emulator.store.listing import Listing
from aml_emulator.store.metrics import MetricStore
from aml_emulator.store.runs import RunStore
from aml_emulator.store.v1 import V1Store


class Store:
    """All of a workspace's state.

    Args:
        path: the database file, or ``:memory:``.
        clock: seconds since the epoch.
    """

    def __init__(self, path: Path | str, *, clock: Callable[[], float] = time.time) -> None:
        self._db = Database(path)
        self.runs = RunStore(self._db, clock=clock)
        self.metrics = MetricStore(self._db)
        self.assets = AssetStore(self._db, clock=clock)
        self.datastores = DatastoreStore(self._db, clock=clock)
        self.v1 = V1Store(self._db)
        self.browse = Browse(self._db)
        self.listing = Listing(self._db)

    def transaction(self) -> AbstractContextManager[None]:
        """Return a context in which all changes are made or, if it raises, none."""
        return self._db.transaction()

    def clear(self) -> None:
        """Delete everything that is stored."""
        self._db.clear()

    def close(self) -> None:
        """Close the database."""
        self._db.close()
