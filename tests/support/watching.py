"""Watch a job of a test, with the logs that the pipeline would read."""

from __future__ import annotations

from aml_train.core.clock import Clock
from aml_train.core.errors import AmlTrainError
from aml_train.core.events import Listener
from aml_train.core.masking import Masker
from aml_train.jobs.logs.report import JobLogs
from aml_train.jobs.pace import Limits, Pace
from aml_train.jobs.watch import Watch
from aml_train.jobs.workspace import JobView, Workspace


def watch(
    service: Workspace,
    name: str,
    *,
    clock: Clock,
    pace: Pace,
    limits: Limits,
    listener: Listener,
    every_log: bool = False,
    masker: Masker | None = None,
) -> tuple[JobView, AmlTrainError | None]:
    """Follow the job until it has ended; *every_log* reads AzureML's own logs as well."""
    logs = JobLogs(service, name, listener, every=every_log, masker=masker)
    return Watch(service, name, clock=clock, pace=pace, limits=limits, listener=listener, logs=logs).run()
