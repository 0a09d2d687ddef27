"""The action: inputs → the pipeline → outputs, summary and exit code."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from aml_train.core.masking import secret_variables
from aml_train.pipeline.data import with_data
from aml_train.pipeline.execute import run_prepared
from aml_train.pipeline.plan_values import render_plan
from aml_train.pipeline.prepare import prepare_run, with_packages
from aml_train.pipeline.resolve import BRANCH_VARIABLE, read_commit
from aml_train.pipeline.result import RunOptions
from aml_train.report.gate_junit import gate_junit_listener
from aml_train.report.record import RunRecord
from aml_train_action import reporting
from aml_train_action.diagnosing import diagnose
from aml_train_action.github.annotations import Annotations, Places
from aml_train_action.github.files import State, append, write_outputs
from aml_train_action.github.log import GitHubLog
from aml_train_action.github.proposals import Checkout, Event, branch_of, read_checkout, trust_of, why_proposed
from aml_train_action.inputs.inputs import Inputs, load_configuration, read_inputs
from aml_train_action.promoting import promote
from aml_train_action.report.outputs import COMPUTED, outputs_of
from aml_train_action.report.summary import render_summary
from aml_train_action.session import Invocation, Session, library_logs, open_session, signals

if TYPE_CHECKING:
    from aml_train.core.events import Listener
    from aml_train.pipeline.prepare import PreparedRun
    from aml_train.pipeline.resolve import Commit


def main(environ: Mapping[str, str], stdout: BinaryIO) -> int:
    """Execute the step's command, then set outputs and summary in any case.

    Args:
        environ: the process's environ.
        stdout: GitHub's log.

    Returns:
        the exit code of the table of endings.
    """
    with open_session(environ, stdout) as session, signals() as ignore_signals:
        record, reported, written = session.record, RunRecord(), RunRecord()
        reported.set(exit_code=0)
        written.set(exit_code=0)
        with session.boundary(record, settle=ignore_signals):
            _command(session)
        # The runner ends the process soon after the first signal: the report must not be interrupted.
        ignore_signals()
        with session.boundary(written, settle=ignore_signals):
            reporting.write(session)
        with session.boundary(reported, settle=ignore_signals):
            _report(session)
        return record.report.exit_code or written.report.exit_code or reported.report.exit_code


def _report(session: Session) -> None:
    mask, names, shown = session.files.mask, session.files.mask_name, session.shown()
    State(session.step.state).end(shown.report.status)
    found = outputs_of(shown, session.report_file)
    outputs = {name: names(value) if name in COMPUTED else mask(value) for name, value in found.items()}
    write_outputs(session.step.output, outputs)
    _remark_altered(session, outputs)
    if session.step.summary is not None:
        summary = render_summary(reporting.report_of(session, shown), shown, text=mask(session.text))
        append(session.step.summary, mask(summary))


def _remark_altered(session: Session, outputs: Mapping[str, str]) -> None:
    """Warn of outputs that hold a secret: altered ones, and those GitHub drops."""
    held = {name: value for name, value in outputs_of(session.record).items() if session.files.holds(value)}
    altered = [name for name in held if outputs[name] != held[name]]
    for names, what in (
        (altered, "Altered outputs, in which a secret is `***`"),
        (
            [name for name in held if name not in altered],
            "Outputs with a secret in a name, which GitHub passes to no other job",
        ),
    ):
        if names:
            variables = secret_variables(session.environ, "\n".join(held[name] for name in names))
            which = f" ({', '.join(variables)})" if variables else ""
            remedy = "Give the secret a longer value, or change the name that contains it."
            session.annotate("warning", f"{what}: {', '.join(names)}{which}. {remedy}")


def _command(session: Session) -> None:
    inputs = read_inputs(session.environ, session.step.workspace)
    session.directory = inputs.directory
    session.reproduce = shlex.join(inputs.command_line(session.step.workspace))
    with library_logs(session.channel) if inputs.log_level == "debug" else contextlib.nullcontext():
        match inputs.command:
            case "doctor":  # a configuration with faults is one of its results
                diagnose(session, inputs)
            case "report":
                reporting.show(session, inputs)
            case "validate":
                _validate(_read_configuration(session, inputs))
            case "plan":
                _plan(_read_configuration(session, inputs))
            case "promote" | "rollback":
                _promote(_read_configuration(session, inputs))
            case "run" | "attach":
                _run(_read_configuration(session, inputs))


def _read_configuration(session: Session, inputs: Inputs) -> Invocation:
    """Load the configuration, hide its secrets, set up the pipeline's environ."""
    config, changes = load_configuration(inputs)
    for secret in config.secrets(session.environ):
        session.hide(secret)
    session.reproduce = shlex.join(inputs.command_line(session.step.workspace, changes))
    environ = inputs.azure.variables(session.environ)
    if session.step.run_url is not None:
        environ = {"AML_TRAIN_RUN_URL": session.step.run_url, **environ}
    return Invocation(session=session, inputs=inputs, config=config, changes=changes, environ=environ)


def _validate(invocation: Invocation) -> None:
    session, config = invocation.session, invocation.config
    for notice in config.notices:
        session.channel.text(notice, sign="·")
    session.record.end("valid", 0, f"valid: {config.describe()}")
    session.channel.text(session.record.report.message, sign="✓")


def _plan(invocation: Invocation) -> None:
    session = invocation.session
    prepared = _prepare(invocation, read_checkout(invocation.inputs.directory))
    session.text = render_plan(with_data(with_packages(prepared)).plan)
    session.record.end("planned", 0, "Nothing was changed.")
    session.channel.text(session.text)


def _promote(invocation: Invocation) -> None:
    promotion = invocation.inputs.promotion
    invocation.session.record.reason = promotion.reason if promotion else ""
    with _listeners(invocation) as listeners:
        promote(invocation, listeners)


def _prepare(invocation: Invocation, checkout: Checkout, *, image: bool = True) -> PreparedRun:
    """Resolve and plan, with the workflow's identity; tokens are masked."""
    session, environ = invocation.session, invocation.environ

    def read(directory: Path) -> Commit | None:
        """Return the commit; on GitHub with its proven branch, not the checkout's."""
        commit = read_commit(directory)
        if commit is None or not session.step.event.name:
            return commit
        return replace(commit, branch=environ.get(BRANCH_VARIABLE) or branch_of(session.step.event, checkout))

    trust = trust_of(session.step.event, checkout, register=invocation.inputs.register)
    return prepare_run(invocation.config, invocation.host(), image=image, commit=read, trust=trust)


def _registers(inputs: Inputs, event: Event, checkout: Checkout) -> tuple[bool, str | None]:
    """Return whether the run registers its model, and a remark on it, if any."""
    if inputs.register is False:
        return False, None
    proposed = why_proposed(event, checkout)
    if proposed is None:
        return True, None
    if inputs.register:
        return True, f"The input `register` has the model registered, although this run only proposes: {proposed}."
    return (
        False,
        f"This run only proposes, and registers no model: {proposed}. `register: true` registers it all the same.",
    )


def _run(invocation: Invocation) -> None:
    """Run the pipeline, or attach to a job."""
    session, inputs = invocation.session, invocation.inputs
    checkout = read_checkout(inputs.directory)
    # The event alone proves nothing of the commit of a named job: only a job of the default branch registers.
    branch = session.step.event.default_branch if inputs.register is None else None
    register, remark = _registers(inputs, session.step.event, checkout)
    session.reproduce = shlex.join(
        replace(inputs, register=register).command_line(session.step.workspace, invocation.changes)
    )
    if remark is not None and invocation.config.model is not None:
        session.channel.text(remark, sign="·")
        session.record.set(notices=(*session.record.report.notices, remark))
    attach = inputs.command == "attach"
    with _listeners(invocation) as listeners:
        reports = gate_junit_listener(inputs.gate_junit)
        prepared = _prepare(invocation, checkout, image=inputs.job_name is None)
        options = RunOptions(
            fresh=inputs.fresh,
            force_build=inputs.force_build,
            wait=inputs.wait or attach,
            attach=attach,
            job=inputs.job_name,
            group=session.step.group,
            supersede=inputs.supersede,
            register=register,
            branch=branch if attach else None,
        )
        # The post action cancels only jobs that this step has submitted.
        recording: tuple[Listener, ...] = (*(() if attach else (State(session.step.state),)), *listeners, *reports)
        run_prepared(prepared, options, listeners=recording, masker=session.masker)


@contextlib.contextmanager
def _listeners(invocation: Invocation) -> Iterator[tuple[Listener, ...]]:
    """Give the listeners that record what happens, and those that show it."""
    session, config = invocation.session, invocation.config
    code = config.job.code
    places = Places(
        workspace=session.step.workspace,
        directory=invocation.inputs.directory,
        project=config.directory,
        code=code.parent if code is not None and code.is_file() else code,
    )
    session.places = places
    log = GitHubLog(session.channel, session.masker, level=invocation.inputs.log_level)
    try:
        yield session.identify, session.record, log, Annotations(session.channel, session.masker, places)
    finally:
        log.close()
