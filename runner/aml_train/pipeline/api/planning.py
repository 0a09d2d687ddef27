"""Load a configuration, plan a run, execute or attach to it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from aml_train.core.events import Listener
from aml_train.pipeline.api.running import Run

if TYPE_CHECKING:
    from aml_train.config import Config
    from aml_train.pipeline import Host, PreparedRun, RunOptions, RunResult


def load_config(
    path: str | Path | None = None,
    *,
    directory: str | Path = ".",
    target: str | None = None,
    sets: Sequence[str] | Mapping[str, object] = (),
    job: str | Path | None = None,
) -> Config:
    """Load and check the configuration; report every fault at once.

    >>> config = load_config(sets={"job.inputs.epochs": 3})
    >>> config.describe()
    "target local, the job's own environment, no tests, 1 gate rule, model digits"

    Args:
        path: an aml-train.yml, or the YAML of a command job; None for the one in *directory*.
        directory: the project folder.
        target: one of ``targets:``, instead of the configured one.
        sets: changes, as a mapping of keys to values, or as texts ``key=value``.
        job: the YAML of another job.

    Raises:
        InvalidError: with every fault that was found, by file and line.
    """
    from aml_train.config import load_config as load

    changes = [f"{key}={json.dumps(value)}" for key, value in sets.items()] if isinstance(sets, Mapping) else sets
    return load(
        None if path is None else Path(path),
        directory=Path(directory).absolute(),
        target=target,
        sets=changes,
        job=None if job is None else Path(job),
    )


def plan(config: Config, *, environ: Mapping[str, str] | None = None) -> PreparedRun:
    """Plan a run, without changing anything.

    Looks up the commit, the base image and the files; ``print(plan(config))`` shows what a run would do.

    >>> planned = plan(load_config())
    >>> "python train.py" in str(planned)
    True

    Args:
        config: the configuration.
        environ: the environment variables; the process's by default.

    Raises:
        InvalidError: the target's workspace or compute is missing.
        ImageError: the engine does not answer, or the base image is not found.
    """
    from aml_train.pipeline import prepare_run

    return prepare_run(config, host_for(config.target.kind, environ))


def run(prepared: PreparedRun, options: RunOptions | None = None, *, listeners: Sequence[Listener] = ()) -> Run:
    """Begin a run: build, test, submit, follow, gate, register.

    The run works in the background; it gives the events that the command line shows, and the result.

    >>> running = run(plan(load_config()))
    >>> for event in running:
    ...     if event.name == "rule-decided":
    ...         print(event.reason)
    val/accuracy = 0.97, wanted >= 0.95: met with 0.02 to spare
    >>> result = running.result()
    >>> result.status, result.model.version
    ('passed', '1')

    A run that fails has a result, too: its status and exit code are those of the command line. The same plan again finds what
    was done.

    >>> run(plan(load_config())).result().attached
    True

    Args:
        prepared: the plan.
        options: what may vary between two executions of the same plan.
        listeners: receive every event, in their order, in the run's threads.
    """
    from aml_train.pipeline import RunOptions

    wanted = options or RunOptions()

    def work(emit: Listener) -> RunResult:
        from aml_train.pipeline import run_prepared

        return run_prepared(prepared, wanted, listeners=(emit,))

    return Run(work, listeners=listeners)


def attach(
    config: Config,
    job: str | None = None,
    *,
    register: bool = True,
    environ: Mapping[str, str] | None = None,
    listeners: Sequence[Listener] = (),
) -> Run:
    """Follow a submitted job, gate it, register its model.

    Nothing is built or submitted, and an interruption does not affect the job.

    >>> submitted = run(plan(load_config()), RunOptions(wait=False)).result()
    >>> attach(load_config(), submitted.job.name).result().status
    'passed'

    Args:
        config: the configuration, which has the gate and the model.
        job: the job's name; None for the latest one that was submitted from the same commit and configuration.
        register: whether the model is registered if the gate is met.
        environ: the environment variables; the process's by default.
        listeners: receive every event.
    """
    from aml_train.pipeline import RunOptions, prepare_run

    prepared = prepare_run(config, host_for(config.target.kind, environ), image=job is None)
    return run(prepared, RunOptions(attach=True, job=job, register=register), listeners=listeners)


def host_for(kind: str, environ: Mapping[str, str] | None) -> Host:
    """Return this process with *environ*, by default its environment.

    An earlier run with the local AzureML has left variables in it, which lead there; they do not count, and are undone for Azure.
    """
    from aml_train.pipeline import Host

    local = sys.modules.get("aml_train.local.target")
    if local is not None and kind == "azure":
        local.leave_local()
    if environ is not None:
        return Host(environ=dict(environ))
    return Host(environ=dict(os.environ) if local is None else local.environment_before())
