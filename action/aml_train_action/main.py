"""The action: environment → inputs → the pipeline → outputs and summary → exit code. The composition root."""

from __future__ import annotations

import contextlib
import io
import logging
import shlex
import signal
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, NoReturn

from aml_train.errors import AmlTrainError, CancelledError, Fault, InvalidError
from aml_train_action.annotations import Annotations, Places
from aml_train_action.commands import annotation, command
from aml_train_action.configuration import load
from aml_train_action.file_commands import append, write_outputs
from aml_train_action.inputs import Inputs, Step, read_inputs, read_step
from aml_train_action.log import Channel, ChannelText, GitHubLog
from aml_train_action.masking import Masker, MaskingStream, known_secrets
from aml_train_action.outputs import outputs_of
from aml_train_action.record import Record
from aml_train_action.summary import render_summary

if TYPE_CHECKING:
    from aml_train.config.model import Config


@dataclass(kw_only=True)
class Result:
    """What the action has come to: the record, and what a command printed that is no run."""

    record: Record
    text: str = ""
    reproduce: str = "aml-train run"


def main(environment: Mapping[str, str], stdout: BinaryIO) -> int:
    """Do what the step asks for.

    Args:
        environment: the process's environment.
        stdout: the way to GitHub's log; everything goes there, behind the filter that masks secrets.

    Returns:
        the exit code of the table of endings.
    """
    masker = Masker(known_secrets(environment, identifiers=True))
    for value in masker.told:
        # The one thing that does not go through the filter.
        stdout.write((command("add-mask", value) + "\n").encode())
    stdout.flush()
    filtered = MaskingStream(stdout, masker)
    stream = io.TextIOWrapper(io.BufferedWriter(filtered), encoding="utf-8", errors="backslashreplace", newline="\n")
    channel = Channel(stream, masker, sink=stdout)
    printed = ChannelText(channel)
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            return _act(environment, channel, masker)
    finally:
        printed.finish()
        channel.resume()
        stream.close()


def _act(environment: Mapping[str, str], channel: Channel, masker: Masker) -> int:
    """Run the command, then set the outputs and write the summary, whatever came of it."""
    files = Masker(known_secrets(environment, identifiers=False))
    result = Result(record=Record(mask=files.mask))
    step = read_step(environment)

    def hide(secret: str) -> None:
        files.add(secret)
        channel.hide(secret)

    with _signals() as ignore_signals:
        with _boundary(step, channel, masker, result.record, settle=ignore_signals):
            _command(environment, step, channel, masker, result, hide)
        # The runner ends the process soon after the first signal: what is known is written first.
        ignore_signals()
        reported = Record(exit_code=0)
        with _boundary(step, channel, masker, reported, settle=ignore_signals):
            _report(result, step, files)
    return result.record.exit_code or reported.exit_code


@contextlib.contextmanager
def _boundary(
    step: Step, channel: Channel, masker: Masker, record: Record, *, settle: Callable[[], None]
) -> Iterator[None]:
    """Tell an error of the block and note it in *record*: the one place where errors become messages and codes.

    *settle* makes further signals have no effect.
    """
    try:
        yield
    except AmlTrainError as error:
        settle()
        _tell(error, step, channel, masker, record)
    except KeyboardInterrupt:
        settle()
        # A run that had come to its end keeps it.
        if not record.ended:
            job = f"after the job {record.job.job} was submitted" if record.job else "before a job was submitted"
            _tell(CancelledError(f"Interrupted {job}."), step, channel, masker, record)
    except Exception:  # noqa: BLE001 - the outputs are set, and the traceback is masked, before it all ends
        settle()
        channel.text(traceback.format_exc(), sign="✗")
        message = "This is a fault of aml-train, not of your configuration."
        hint = "Please report it with the traceback in the log."
        channel.command(annotation("error", f"{message}\n{hint}", title="aml-train: error"))
        record.end("error", 1, message, hint)


def _tell(error: AmlTrainError, step: Step, channel: Channel, masker: Masker, record: Record) -> None:
    record.end(error.status, error.exit_code, error.message, error.hint)
    channel.text(f"{error.status} (exit code {error.exit_code})", sign="✗")
    channel.text(str(error))
    directory = record.directory or step.workspace
    Annotations(channel, masker, Places(workspace=step.workspace, directory=directory, project=directory)).error(
        error
    )


def _report(result: Result, step: Step, masker: Masker) -> None:
    outputs = {name: masker.mask(value) for name, value in outputs_of(result.record).items()}
    write_outputs(step.output, outputs)
    if step.summary is not None:
        summary = render_summary(
            result.record, title=step.title, reproduce=masker.mask(result.reproduce), text=masker.mask(result.text)
        )
        append(step.summary, masker.mask(summary))


def _command(
    environment: Mapping[str, str],
    step: Step,
    channel: Channel,
    masker: Masker,
    result: Result,
    hide: Callable[[str], None],
) -> None:
    inputs = read_inputs(environment, step.workspace)
    record = result.record
    record.directory = inputs.directory
    result.reproduce = shlex.join(inputs.command_line(step.workspace))
    for notice in inputs.notices:
        channel.command(annotation("notice", masker.mask(notice), title="aml-train"))
    with _library_logs(channel) if inputs.log_level == "debug" else contextlib.nullcontext():
        config, changes = load(inputs)
        result.reproduce = shlex.join(inputs.command_line(step.workspace, changes))
        if config.target.kind == "azure":
            for notice in inputs.azure.notices(environment):
                channel.command(annotation("notice", masker.mask(notice), title="aml-train"))
        seen = inputs.azure.variables(environment)
        if inputs.command == "validate":
            for notice in config.notices:
                channel.text(notice, sign="·")
            record.end("valid", 0, f"valid: {config.describe()}")
            channel.text(record.message, sign="✓")
        elif inputs.command == "plan":
            from aml_train.plan import render_plan
            from aml_train.runs import prepare_run

            result.text = render_plan(prepare_run(config, environment=seen).plan)
            record.end("planned", 0, "Nothing was changed.")
            channel.text(result.text)
        else:
            _check_wired(inputs)
            _run(environment, step, inputs, config, channel, masker, record, hide)


def _check_wired(inputs: Inputs) -> None:
    """Refuse what cannot be done yet, rather than do something else."""
    asked = {
        "command": inputs.command == "attach",
        "on-cancel": inputs.on_cancel == "detach",
        "supersede": inputs.supersede,
    }
    if any(asked.values()):
        raise InvalidError(
            [Fault(where=f"with.{name}", what="this is not there yet") for name in asked if asked[name]]
        )


def _run(
    environment: Mapping[str, str],
    step: Step,
    inputs: Inputs,
    config: Config,
    channel: Channel,
    masker: Masker,
    record: Record,
    hide: Callable[[str], None],
) -> None:
    from aml_train.outcome import Options
    from aml_train.runs import prepare_run, run_prepared
    from aml_train_action.oidc import github_assertion

    code = config.job.code
    places = Places(
        workspace=step.workspace,
        directory=inputs.directory,
        project=config.directory,
        code=code.parent if code is not None and code.is_file() else code,
    )
    log = GitHubLog(channel, masker, level=inputs.log_level)
    listeners = (record, log, Annotations(channel, masker, places))
    try:
        assertion = github_assertion(environment, fetched=hide)
        seen = inputs.azure.variables(environment)
        prepared = prepare_run(config, environment=seen, assertion=assertion, fetched=hide)
        options = Options(fresh=inputs.fresh, force_build=inputs.force_build, wait=inputs.wait)
        run_prepared(prepared, options, listeners=listeners)
    finally:
        log.close()


class _ChannelHandler(logging.Handler):
    """Shows what libraries log."""

    def __init__(self, channel: Channel) -> None:
        super().__init__(logging.DEBUG)
        self._channel = channel

    def emit(self, record: logging.LogRecord) -> None:
        self._channel.text(self.format(record), sign="·")


@contextlib.contextmanager
def _library_logs(channel: Channel) -> Iterator[None]:
    """Show everything that libraries log."""
    handler = _ChannelHandler(channel)
    handler.setFormatter(logging.Formatter("%(name)s %(levelname)s %(message)s"))
    level, handlers = logging.root.level, logging.root.handlers[:]
    logging.root.handlers[:] = [handler]
    logging.root.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logging.root.setLevel(level)
        logging.root.handlers[:] = handlers


@contextlib.contextmanager
def _signals() -> Iterator[Callable[[], None]]:
    """Let SIGINT and SIGTERM end the run as Ctrl-C does; give a function that makes them have no effect.

    As process 1 of a container, Python would ignore SIGTERM; and a shell may have SIGINT ignored.
    """

    def interrupt(_signal: int, _frame: object) -> NoReturn:
        raise KeyboardInterrupt

    both = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, interrupt) for number in both}

    def ignore() -> None:
        for number in both:
            signal.signal(number, signal.SIG_IGN)

    try:
        yield ignore
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
