"""From a commit to a gated, registered model on Azure Machine Learning.

The library does what the command line does::

    from aml_train import load_config, plan, run

    result = run(plan(load_config(None, directory=Path("project"))))
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from aml_train.core.lazy import lazily
from aml_train.core.version import __version__

if TYPE_CHECKING:
    from aml_train.config import Config
    from aml_train.config import load_config as load_config
    from aml_train.core.events import Listener
    from aml_train.pipeline import PreparedRun, RunOptions
    from aml_train.pipeline import RunResult as RunResult

_MODULES = {"load_config": "config", "RunResult": "pipeline"}
__all__ = ["__version__", "plan", "run", *_MODULES]
__getattr__ = lazily(__name__, _MODULES)


def plan(config: Config, *, environ: Mapping[str, str] | None = None) -> PreparedRun:
    """Plan a run, without changing anything.

    Args:
        config: the configuration.
        environ: the environment variables; the process's by default.
    """
    from aml_train.pipeline import Host, prepare_run

    return prepare_run(config, Host(environ=dict(os.environ if environ is None else environ)))


def run(prepared: PreparedRun, options: RunOptions | None = None, *, listeners: Sequence[Listener] = ()) -> RunResult:
    """Execute a plan: build, test, submit, follow, gate, register.

    Args:
        prepared: the plan.
        options: what may vary between two executions of the same plan.
        listeners: receive every event, in their order.

    Returns:
        the result, also of a run that failed: its status and exit code are those of the command line.
    """
    from aml_train.pipeline import RunOptions, run_prepared

    return run_prepared(prepared, options or RunOptions(), listeners=listeners)
