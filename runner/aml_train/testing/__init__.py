"""Tests of other projects: a workspace in memory, and pytest's local AzureML."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aml_train.core.lazy import lazily

if TYPE_CHECKING:
    from aml_train.testing.memory import MemoryJob as MemoryJob
    from aml_train.testing.memory import MemoryService as MemoryService
    from aml_train.testing.memory import Training as Training
    from aml_train.testing.memory import TrainingFailedError as TrainingFailedError
    from aml_train.testing.override import memory_workspace as memory_workspace
    from aml_train.testing.workspace import AmlWorkspace as AmlWorkspace
    from aml_train.testing.workspace import find_or_start as find_or_start
    from aml_train.testing.workspace import temporary_workspace as temporary_workspace
    from aml_train.testing.workspace import workspace_name as workspace_name

_MODULES = {
    "memory": ("MemoryJob", "MemoryService", "Training", "TrainingFailedError"),
    "override": ("memory_workspace",),
    "workspace": ("AmlWorkspace", "find_or_start", "temporary_workspace", "workspace_name"),
}
__all__ = [name for names in _MODULES.values() for name in names]
__getattr__ = lazily(__name__, _MODULES)
