"""An override of every target: how a workspace in memory takes a target's place.

Tests of programs that use aml-train put one in place. Nothing is connected then, whatever target the configuration names.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from aml_train.core.events import Listener
    from aml_train.jobs.workspace import Workspace
    from aml_train.models.promotion.promote import Promoter


class TargetOverride(Protocol):
    """A workspace that is used in place of a target's."""

    @property
    def service(self) -> Workspace:
        """Its jobs, metrics and models."""

    def target(self) -> Any:
        """Return the target that runs use: a :class:`aml_train.pipeline.target.Target`."""

    def backend(self) -> Any:
        """Return what :class:`aml_train.api.workspace.Workspace` reads."""

    def promoter(self, emit: Listener) -> Promoter:
        """Return the promoter of its models."""


_present: list[TargetOverride] = []


def target_override() -> TargetOverride | None:
    """Return the override that is in place; None if there is none."""
    return _present[-1] if _present else None


@contextlib.contextmanager
def overriding_targets(one: TargetOverride) -> Iterator[None]:
    """Use *one* in place of every target of this process, during the block."""
    _present.append(one)
    try:
        yield
    finally:
        _present.remove(one)
