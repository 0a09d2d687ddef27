"""A transport of azure-core in memory, which has no connection to open or close."""

from __future__ import annotations

from typing import Self

from azure.core.pipeline.transport import HttpTransport


class MemoryTransport(HttpTransport):  # type: ignore[misc]  # azure-core is not typed here
    """Answers in ``send``, which a subclass has."""

    def open(self) -> None:
        return

    def close(self) -> None:
        return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        return
