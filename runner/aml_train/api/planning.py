"""Load a configuration, plan a run, execute or attach to it."""

from __future__ import annotations

import dataclasses
import html
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from aml_train.config.load import load_config as load
from aml_train.config.model import Config
from aml_train.core.events import Listener
from aml_train.core.threads import CancelToken
from aml_train.pipeline import result as pipeline
from aml_train.pipeline.execute import run_prepared
from aml_train.pipeline.prepare import prepare_run
from aml_train.pipeline.result import RunOptions
from aml_train.pipeline.target import Host
from aml_train.report.html import render_html
from aml_train.report.record import RunRecord, begun_report

if TYPE_CHECKING:
    from aml_train.pipeline.prepare import PreparedRun
    from aml_train.report.values import Report


class RunResult(pipeline.RunResult):  # noqa: D101 - its base has the docstring
    _report: Report | None = None

    def _repr_html_(self) -> str:
        """Return the report, in a frame with its own style sheet and policy, for notebooks."""
        page = html.escape(render_html(self._report).decode()) if self._report is not None else html.escape(str(self))
        return f'<iframe srcdoc="{page}" sandbox style="width:100%;height:45em;border:0"></iframe>'


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
    return prepare_run(config, host_for(config.target.kind, environ))


def run(
    config: Config | PreparedRun,
    options: RunOptions | None = None,
    *,
    on_event: Listener | None = None,
    cancel: CancelToken | None = None,
) -> RunResult:
    """Build, test, submit, follow, gate, register: in this thread, to the end.

    >>> result = run(load_config(), on_event=lambda event: print(event.reason) if event.name == "rule-verdict" else None)
    val/accuracy = 0.97, wanted >= 0.95: met with 0.02 to spare
    >>> result.status, result.model.version
    ('passed', '1')

    A run that fails has a result, too: its status and exit code are those of the command line. The same configuration again
    finds what was done.

    >>> run(load_config()).attached
    True

    Args:
        config: the configuration, or its plan.
        options: what may vary between two executions of the same plan.
        on_event: receives every event, in their order; mostly in this thread.
        cancel: another thread may cancel the run by it; it ends at its next event or wait.

    Raises:
        InvalidError: the target's workspace or compute is missing.
        ImageError: the engine does not answer, or the base image is not found.
        KeyboardInterrupt: the program was interrupted. The job was cancelled before.
    """
    prepared = plan(config) if isinstance(config, Config) else config
    record = RunRecord(report=begun_report(prepared.plan.job.stem))
    listeners = (record,) if on_event is None else (record, on_event)
    result = run_prepared(prepared, options or RunOptions(), listeners=listeners, cancel=cancel)
    if result.interrupted and not (cancel is not None and cancel.cancelled):
        raise KeyboardInterrupt
    known = {one.name: getattr(result, one.name) for one in dataclasses.fields(result)}
    shown = RunResult(**known)
    object.__setattr__(shown, "_report", record.report)
    return shown


def attach(
    config: Config,
    job: str | None = None,
    *,
    register: bool = True,
    environ: Mapping[str, str] | None = None,
    on_event: Listener | None = None,
    cancel: CancelToken | None = None,
) -> RunResult:
    """Follow a submitted job, gate it, register its model.

    Nothing is built or submitted, and an interruption does not affect the job.

    >>> submitted = run(load_config(), RunOptions(wait=False))
    >>> attach(load_config(), submitted.job.name).status
    'passed'

    Args:
        config: the configuration, which has the gate and the model.
        job: the job's name; None for the latest one that was submitted from the same commit and configuration.
        register: whether the model is registered if the gate is met.
        environ: the environment variables; the process's by default.
        on_event, cancel: as for :func:`run`.
    """
    prepared = prepare_run(config, host_for(config.target.kind, environ), image=job is None)
    return run(prepared, RunOptions(attach=True, job=job, register=register), on_event=on_event, cancel=cancel)


def host_for(kind: str, environ: Mapping[str, str] | None) -> Host:
    """Return this process with *environ*, by default its environment.

    An earlier run with the local AzureML has left variables in it, which lead there; they do not count, and are undone for Azure.
    """
    local = sys.modules.get("aml_train.local.target")
    if local is not None and kind == "azure":
        local.leave_local()
    if environ is not None:
        return Host(environ=dict(environ))
    return Host(environ=dict(os.environ) if local is None else local.environment_before())
