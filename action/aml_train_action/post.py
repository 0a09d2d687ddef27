"""After the step: the backstop of cancelling. Where the step was ended before it could cancel its job or end its tests, this does.

The runner gives a step that is cancelled ten seconds. Its post action runs afterwards, in a new container, with the step's inputs.
Source: https://docs.github.com/actions/reference/workflows-and-actions/metadata-syntax#runspost-entrypoint
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, BinaryIO

from aml_train.core.errors import ImageError
from aml_train.core.events import Event, Notice
from aml_train_action.github.state import abandoned_job, was_killed
from aml_train_action.inputs.confidential import for_the_pipeline
from aml_train_action.inputs.configuration import load
from aml_train_action.inputs.run import read_inputs
from aml_train_action.process import signals
from aml_train_action.session import Session, session

if TYPE_CHECKING:
    from aml_train.jobs import JobService


def post(environment: Mapping[str, str], stdout: BinaryIO) -> int:
    """Cancel the job that the step left behind, if it did and the workflow wants it cancelled; end its tests.

    Returns:
        the exit code of the table of endings: 0 also where there was nothing to do.
    """
    with session(environment, stdout) as here, signals() as ignore_signals:
        here.record.exit_code = 0
        job = abandoned_job(environment)
        if job is None:
            here.channel.text("The step left no job behind.", sign="·")
        else:
            with here.boundary(here.record, settle=ignore_signals):
                _see_to(job, here)
            if here.record.exit_code:
                here.channel.text(f"The job {job} may still be running: cancel it in the studio.", sign="✗")
        if was_killed(environment):
            _sweep(here)
        return here.record.exit_code


def _sweep(here: Session) -> None:
    """Remove what the step left on the engine: its tests would run on until the next step comes."""
    from aml_train.pipeline import Host, sweep_engine

    def tell(event: Event) -> None:
        if isinstance(event, Notice):
            here.channel.text(event.text, sign="·")

    try:
        sweep_engine(Host(environ=for_the_pipeline(here.environment)), tell)
    except ImageError as error:
        here.channel.text(f"What the step may have left on the engine is not removed: {error.message}", sign="·")


def _see_to(job: str, here: Session) -> None:
    from aml_train.core.clock import Clock
    from aml_train.jobs import tell_to_cancel

    inputs = read_inputs(here.environment, here.step.workspace)
    config, _ = load(inputs)
    if config.watch.on_cancel != "cancel":
        here.channel.text(f"The job {job} goes on.", sign="·")
        return
    from aml_train.pipeline import Host, find_open_workspace
    from aml_train_action.github.oidc import github_assertion

    host = Host(
        environ=inputs.azure.variables(here.environment),
        assertion=github_assertion(here.environment, fetched=here.hide),
        on_token=here.hide,
    )
    connection = find_open_workspace(host, config.target, config.directory)
    service: JobService | None = None if connection is None else connection.service
    found = None if service is None else service.find(job)
    if service is None or found is None:
        here.channel.text(f"There is no job {job}.", sign="·")
    elif found.status.terminal:
        here.channel.text(f"The job {job} is {found.status.value}.", sign="·")
    elif tell_to_cancel(service, job, clock=Clock(now=time.monotonic, sleep=time.sleep)):
        here.annotate(
            "warning", f"The step was ended before its job {job} was cancelled; it has been told to cancel now."
        )
