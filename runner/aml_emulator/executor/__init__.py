"""Runs the jobs of the local AzureML as containers on the Docker engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aml_emulator.lazy import lazily

if TYPE_CHECKING:
    from aml_emulator.executor.engine import DEFAULT_SHM_BYTES as DEFAULT_SHM_BYTES
    from aml_emulator.executor.engine_words import EngineFault as EngineFault
    from aml_emulator.executor.environment_images import EnvironmentImages as EnvironmentImages
    from aml_emulator.executor.expressions import ExpressionError as ExpressionError
    from aml_emulator.executor.expressions import expression_references as expression_references
    from aml_emulator.executor.fetch import guarded as guarded
    from aml_emulator.executor.fetch import why_unreachable as why_unreachable
    from aml_emulator.executor.globs import split_glob as split_glob
    from aml_emulator.executor.launch import Launcher as Launcher
    from aml_emulator.executor.layout import UnsafePathError as UnsafePathError
    from aml_emulator.executor.layout import safe_relative as safe_relative
    from aml_emulator.executor.layout import url_file_name as url_file_name
    from aml_emulator.executor.limits import JOB_PROCESSES as JOB_PROCESSES
    from aml_emulator.executor.nodes import ClusterView as ClusterView
    from aml_emulator.executor.nodes import Fleet as Fleet
    from aml_emulator.executor.nodes import Scale as Scale
    from aml_emulator.executor.queue import JobQueue as JobQueue
    from aml_emulator.executor.shared import Shared as Shared
    from aml_emulator.executor.shared import Slots as Slots
    from aml_emulator.executor.spec import MICROMAMBA_URL as MICROMAMBA_URL
    from aml_emulator.executor.spec import BlobEntry as BlobEntry
    from aml_emulator.executor.spec import BuildSpec as BuildSpec
    from aml_emulator.executor.spec import Ending as Ending
    from aml_emulator.executor.spec import ExecutorSettings as ExecutorSettings
    from aml_emulator.executor.spec import Folder as Folder
    from aml_emulator.executor.spec import InputKind as InputKind
    from aml_emulator.executor.spec import InputSpec as InputSpec
    from aml_emulator.executor.spec import JobExecutor as JobExecutor
    from aml_emulator.executor.spec import OutputSpec as OutputSpec
    from aml_emulator.executor.spec import RunError as RunError
    from aml_emulator.executor.spec import RunSink as RunSink
    from aml_emulator.executor.spec import RunSpec as RunSpec
    from aml_emulator.executor.spec import SinkFor as SinkFor
    from aml_emulator.executor.spec import spec_from_json as spec_from_json
    from aml_emulator.executor.spec import spec_to_json as spec_to_json
    from aml_emulator.executor.task_runner import TaskEnding as TaskEnding
    from aml_emulator.executor.task_runner import TaskRunner as TaskRunner
    from aml_emulator.executor.task_runner import TaskSink as TaskSink
    from aml_emulator.executor.task_spec import BuildStep as BuildStep
    from aml_emulator.executor.task_spec import PushStep as PushStep
    from aml_emulator.executor.task_spec import Step as Step
    from aml_emulator.executor.task_spec import TaskError as TaskError
    from aml_emulator.executor.task_spec import TaskSpec as TaskSpec
    from aml_emulator.executor.task_spec import UnsupportedTaskError as UnsupportedTaskError
    from aml_emulator.executor.task_spec import parse_task as parse_task

_MODULES = {
    "DEFAULT_SHM_BYTES": "engine",
    "EngineFault": "engine_words",
    "EnvironmentImages": "environment_images",
    "ExpressionError": "expressions",
    "expression_references": "expressions",
    "guarded": "fetch",
    "why_unreachable": "fetch",
    "split_glob": "globs",
    "Launcher": "launch",
    "UnsafePathError": "layout",
    "safe_relative": "layout",
    "url_file_name": "layout",
    "ClusterView": "nodes",
    "Fleet": "nodes",
    "Scale": "nodes",
    "JobQueue": "queue",
    "Shared": "shared",
    "Slots": "shared",
    "JOB_PROCESSES": "limits",
    "MICROMAMBA_URL": "spec",
    "BlobEntry": "spec",
    "BuildSpec": "spec",
    "Ending": "spec",
    "ExecutorSettings": "spec",
    "Folder": "spec",
    "InputKind": "spec",
    "InputSpec": "spec",
    "JobExecutor": "spec",
    "OutputSpec": "spec",
    "RunError": "spec",
    "RunSink": "spec",
    "RunSpec": "spec",
    "SinkFor": "spec",
    "spec_from_json": "spec",
    "spec_to_json": "spec",
    "TaskEnding": "task_runner",
    "TaskRunner": "task_runner",
    "TaskSink": "task_runner",
    "BuildStep": "task_spec",
    "PushStep": "task_spec",
    "Step": "task_spec",
    "TaskError": "task_spec",
    "TaskSpec": "task_spec",
    "UnsupportedTaskError": "task_spec",
    "parse_task": "task_spec",
}
__all__ = list(_MODULES)
__getattr__ = lazily(__name__, _MODULES)
