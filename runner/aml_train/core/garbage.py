"""Python's garbage collection: none before the imports of a command are done."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from typing import Final

#: The objects of a run's imports and plan are about half as many.
_FIRST: Final = 100_000


def collect_later() -> None:
    """Put off the first garbage collection until there are many objects.

    By default, each 700 new objects are a reason to collect. During imports that finds nothing, and takes a tenth of a short
    run. After the first one, collections are as usual.
    """
    usual = gc.get_threshold()

    def begin(_phase: str, _info: Mapping[str, int]) -> None:
        gc.callbacks.remove(begin)
        gc.set_threshold(*usual)

    gc.callbacks.append(begin)
    gc.set_threshold(_FIRST)
