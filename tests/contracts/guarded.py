"""The job service suite's changes of a model's tags, also without pytest."""

from __future__ import annotations

from collections.abc import Mapping

from aml_train.core.errors import ServiceError
from aml_train.models.catalogue import Catalogue


def change_tags(
    catalogue: Catalogue, name: str, version: str, changes: Mapping[str, str | None], *, lock_lost: bool
) -> int:
    """Do what `change_tags` of `tests.contracts.job_service.Subject` says."""
    asked = 0

    def guard() -> None:
        nonlocal asked
        asked += 1
        if lock_lost:
            raise ServiceError("the lock was lost")

    catalogue.change_tags(name, version, changes, guard=guard)
    return asked
