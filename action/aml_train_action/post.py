"""The post action: cancels the job and ends the tests that a killed step left.

The runner gives a step that is cancelled ten seconds. Its post action runs afterwards, in a new container, with the step's inputs.
Source: https://docs.github.com/actions/reference/workflows-and-actions/metadata-syntax#runspost-entrypoint
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, BinaryIO

from aml_train.core.clock import Clock
from aml_train.core.errors import ImageError
from aml_train.core.events import Event, Notice
from aml_train.jobs.live import request_cancel
from aml_train.pipeline.execute import sweep_engine
from aml_train.pipeline.target import Host, find_open_workspace
from aml_train_action.github.files import abandoned_job, was_killed
from aml_train_action.inputs.confidential import for_the_pipeline
from aml_train_action.inputs.inputs import load_configuration, read_inputs
from aml_train_action.session import Session, open_session, signals

if TYPE_CHECKING:
    from aml_train.jobs.workspace import Workspace


def post(environ: Mapping[str, str], stdout: BinaryIO) -> int:
    """Cancel the job that the step left, if the workflow cancels jobs; end its tests.

    Returns:
        the exit code of the table of endings: 0 also if there was nothing to do.
    """
    with open_session(environ, stdout) as session, signals() as ignore_signals:
        session.record.set(exit_code=0)
        job = abandoned_job(environ)
        if job is None:
            session.channel.text("The step left no job behind.", sign="·")
        else:
            with session.boundary(session.record, settle=ignore_signals):
                _cancel(job, session)
            if session.record.report.exit_code:
                session.channel.text(f"The job {job} may still be running: cancel it in the studio.", sign="✗")
        if was_killed(environ):
            _sweep(session)
        return session.record.report.exit_code


def _sweep(session: Session) -> None:
    """Remove the step's containers and images: its tests would continue to run."""

    def show(event: Event) -> None:
        if isinstance(event, Notice):
            session.channel.text(event.text, sign="·")

    try:
        sweep_engine(Host(environ=for_the_pipeline(session.environ)), show)
    except ImageError as error:
        session.channel.text(f"Containers and images of the step may remain on the engine: {error.message}", sign="·")


def _cancel(job: str, session: Session) -> None:
    inputs = read_inputs(session.environ, session.step.workspace)
    config, _ = load_configuration(inputs)
    if config.watch.on_cancel != "cancel":
        session.channel.text(f"The job {job} continues.", sign="·")
        return

    host = session.host(inputs.azure.variables(session.environ))
    connection = find_open_workspace(host, config.target, config.directory)
    service: Workspace | None = None if connection is None else connection.service
    found = None if service is None else service.find(job)
    if service is None or found is None:
        session.channel.text(f"There is no job {job}.", sign="·")
    elif found.status.terminal:
        session.channel.text(f"The job {job} is {found.status.value}.", sign="·")
    elif request_cancel(service, job, clock=Clock(now=time.monotonic, sleep=time.sleep)):
        session.annotate(
            "warning", f"The step was ended before its job {job} was cancelled; the cancellation is requested now."
        )
