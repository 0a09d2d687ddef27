"""The action: environment → inputs → the pipeline → outputs and summary → exit code. The composition root."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from aml_train.core.masking import secret_variables
from aml_train_action.github.annotations import Annotations, Places
from aml_train_action.github.file_commands import append, write_outputs
from aml_train_action.github.log import GitHubLog
from aml_train_action.github.outputs import COMPUTED, outputs_of
from aml_train_action.github.proposals import Checkout, Event, branch_of, read_checkout, why_proposed
from aml_train_action.github.state import State
from aml_train_action.inputs.configuration import load
from aml_train_action.inputs.run import Inputs, read_inputs
from aml_train_action.process import library_logs, signals
from aml_train_action.report.record import Record
from aml_train_action.report.summary import render_summary
from aml_train_action.session import Session, session

if TYPE_CHECKING:
    from aml_train.config import Config
    from aml_train.core.events import Listener
    from aml_train.pipeline import Commit, PreparedRun


def main(environment: Mapping[str, str], stdout: BinaryIO) -> int:
    """Do what the step asks for, then set the outputs and write the summary, whatever came of it.

    Args:
        environment: the process's environment.
        stdout: the way to GitHub's log.

    Returns:
        the exit code of the table of endings.
    """
    with session(environment, stdout) as here, signals() as ignore_signals:
        record, reported = here.record, Record(exit_code=0)
        with here.boundary(record, settle=ignore_signals):
            _command(here)
        # The runner ends the process soon after the first signal: what is known is written first.
        ignore_signals()
        with here.boundary(reported, settle=ignore_signals):
            _report(here)
        return record.exit_code or reported.exit_code


def _report(here: Session) -> None:
    mask = here.files.mask
    State(here.step.state).end(here.record.status)
    names = here.files.mask_name
    outputs = {
        name: names(value) if name in COMPUTED else mask(value) for name, value in outputs_of(here.record).items()
    }
    write_outputs(here.step.output, outputs)
    _remark_altered(here, outputs)
    if here.step.summary is not None:
        summary = render_summary(
            here.record, title=here.step.title, reproduce=mask(here.reproduce), text=mask(here.text)
        )
        append(here.step.summary, mask(summary))


def _remark_altered(here: Session, outputs: Mapping[str, str]) -> None:
    """Say which *outputs* hold a secret, and which variable's: those that were altered, and those that GitHub will not pass on."""
    held = {name: value for name, value in outputs_of(here.raw).items() if here.files.holds(value)}
    altered = [name for name in held if outputs[name] != held[name]]
    for names, what in (
        (altered, "Altered outputs, in which a secret is `***`"),
        (
            [name for name in held if name not in altered],
            "Outputs with a secret in a name, which GitHub gives to no other job",
        ),
    ):
        if names:
            variables = secret_variables(here.environment, "\n".join(held[name] for name in names))
            which = f" ({', '.join(variables)})" if variables else ""
            remedy = "Give the secret a longer value, or what has it another name."
            here.annotate("warning", f"{what}: {', '.join(names)}{which}. {remedy}")


def _command(here: Session) -> None:
    inputs = read_inputs(here.environment, here.step.workspace)
    here.record.directory = inputs.directory
    here.reproduce = shlex.join(inputs.command_line(here.step.workspace))
    for notice in inputs.notices:
        here.annotate("notice", notice)
    with library_logs(here.channel) if inputs.log_level == "debug" else contextlib.nullcontext():
        from aml_train.config import secrets_in

        config, changes = load(inputs)
        for secret in secrets_in(config):
            here.hide(secret)
        here.reproduce = shlex.join(inputs.command_line(here.step.workspace, changes))
        if config.target.kind == "azure":
            for notice in inputs.azure.notices(here.environment):
                here.annotate("notice", notice)
        seen = {**inputs.azure.variables(here.environment), **_secret_variables(here, inputs)}
        if here.step.run_url is not None:
            seen = {"AML_TRAIN_RUN_URL": here.step.run_url, **seen}
        if inputs.command == "validate":
            for notice in config.notices:
                here.channel.text(notice, sign="·")
            here.record.end("valid", 0, f"valid: {config.describe()}")
            here.channel.text(here.record.message, sign="✓")
        elif inputs.command == "plan":
            from aml_train.pipeline import render_plan

            here.text = render_plan(_prepare(here, config, seen, read_checkout(inputs.directory)).plan)
            here.record.end("planned", 0, "Nothing was changed.")
            here.channel.text(here.text)
        elif inputs.promotion is not None:
            from aml_train_action.promoting import promote

            here.record.reason = here.record.mask(inputs.promotion.reason)
            with _listeners(here, inputs, config) as listeners:
                promote(here, inputs, config, seen, listeners)
        else:
            checkout = read_checkout(inputs.directory)
            # By itself, the event says nothing of the commit of a job that is named.
            branch = here.step.event.default_branch if inputs.register is None else None
            register, remark = _registers(inputs, here.step.event, checkout)
            inputs = replace(inputs, register=register)
            here.reproduce = shlex.join(inputs.command_line(here.step.workspace, changes))
            if remark is not None and config.model is not None:
                here.channel.text(remark, sign="·")
                here.record.notices.append(remark)
            _run(here, inputs, config, seen, checkout, branch)


def _secret_variables(here: Session, inputs: Inputs) -> dict[str, str]:
    """Return the variables that say where secret files may be: in the workspace, and where the workflow says."""
    from aml_train.image import SECRET_PATH_VARIABLE, WORKSPACE_VARIABLE

    paths = [here.environment.get(SECRET_PATH_VARIABLE, ""), *map(str, inputs.secret_paths)]
    allowed = os.pathsep.join(path for path in paths if path)
    return {WORKSPACE_VARIABLE: str(here.step.workspace), **({SECRET_PATH_VARIABLE: allowed} if allowed else {})}


def _prepare(
    here: Session, config: Config, seen: Mapping[str, str], checkout: Checkout, *, image: bool = True
) -> PreparedRun:
    """Resolve and plan, with the workflow's identity at hand; each token is masked before it is used."""
    from aml_train.pipeline import BRANCH_VARIABLE, Host, prepare_run, read_commit
    from aml_train_action.github.oidc import github_assertion

    def read(directory: Path) -> Commit | None:
        """Return the commit. On GitHub, its branch is the one that is proved, and not what the checkout calls itself."""
        commit = read_commit(directory)
        if commit is None or not here.step.event.name:
            return commit
        return replace(commit, branch=seen.get(BRANCH_VARIABLE) or branch_of(here.step.event, checkout))

    assertion = github_assertion(here.environment, fetched=here.hide)
    host = Host(environ=seen, assertion=assertion, on_token=here.hide)
    return prepare_run(config, host, image=image, commit=read)


def _registers(inputs: Inputs, event: Event, checkout: Checkout) -> tuple[bool, str | None]:
    """Return whether the run registers its model, and what the log says of it; None for nothing that a user has not said."""
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


def _run(
    here: Session,
    inputs: Inputs,
    config: Config,
    seen: Mapping[str, str],
    checkout: Checkout,
    branch: str | None,
) -> None:
    """Run or attach; *seen* is the environment with what the inputs say of Azure, *branch* the only one whose named job registers."""
    from aml_train.pipeline import RunOptions, run_prepared

    attach = inputs.command == "attach"
    with _listeners(here, inputs, config) as listeners:
        prepared = _prepare(here, config, seen, checkout, image=inputs.job_name is None)
        options = RunOptions(
            fresh=inputs.fresh,
            force_build=inputs.force_build,
            wait=inputs.wait or attach,
            attach=attach,
            job=inputs.job_name,
            group=here.step.group,
            supersede=inputs.supersede,
            register=inputs.register is not False,
            branch=branch if attach else None,
        )
        # Who only attaches to a job does not answer for it.
        answering: tuple[Listener, ...] = listeners if attach else (State(here.step.state), *listeners)
        run_prepared(prepared, options, listeners=answering, masker=here.masker)


@contextlib.contextmanager
def _listeners(here: Session, inputs: Inputs, config: Config) -> Iterator[tuple[Listener, ...]]:
    """Give what keeps a record of what happens, and what shows it."""
    code = config.job.code
    places = Places(
        workspace=here.step.workspace,
        directory=inputs.directory,
        project=config.directory,
        code=code.parent if code is not None and code.is_file() else code,
    )
    log = GitHubLog(here.channel, here.masker, level=inputs.log_level)
    try:
        yield here.identify, here.record, here.raw, log, Annotations(here.channel, here.masker, places)
    finally:
        log.close()
