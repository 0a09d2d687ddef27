"""One process of the action: its step, GitHub's log, its record and secrets."""

from __future__ import annotations

import contextlib
import io
import logging
import signal
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from aml_train.core.errors import AmlTrainError, CancelledError
from aml_train.core.events import Event
from aml_train.core.http_client import logged_requests
from aml_train.core.machine import expected, in_place_of_interrupt, interrupt_on
from aml_train.core.masked_events import names_in
from aml_train.core.masking import Masker, MaskingStream
from aml_train.core.secrets import known_secrets
from aml_train.pipeline.target import Host
from aml_train.report.markdown import escape
from aml_train.report.record import RunRecord
from aml_train_action.github.annotations import Annotations, Places
from aml_train_action.github.commands import Level, annotation, command
from aml_train_action.github.log import Channel, ChannelText
from aml_train_action.github.oidc import github_assertion
from aml_train_action.github.step import Step, read_step
from aml_train_action.inputs.inputs import Inputs

if TYPE_CHECKING:
    from aml_train.config.model import Config


@dataclass(kw_only=True)
class Session:
    """One process of the action. Made by :func:`open_session`.

    Attributes:
        environ: the process's.
        step: the step.
        channel: writes to GitHub's log.
        masker: hides secrets and identifiers in the log.
        files: hides secrets in outputs and summary, whose links need identifiers.
        record: the results so far; :meth:`shown` has them without secrets.
        text: the output of a command without a run.
        reproduce: the equivalent command line.
        places: where the files of the run are, once the configuration is known.
        directory: the project folder, once it is known.
        report_file: the file of the report, relative to the workspace; empty for none.
    """

    environ: Mapping[str, str]
    step: Step
    channel: Channel
    masker: Masker
    files: Masker
    record: RunRecord = field(default_factory=RunRecord)
    text: str = ""
    reproduce: str = "aml-train run"
    places: Places | None = None
    directory: Path | None = None
    report_file: str = ""

    def hide(self, secret: str) -> None:
        """Mask a secret everywhere, from now on."""
        self.files.add(secret)
        self.channel.hide(secret)

    def identify(self, event: Event) -> None:
        """Exempt an event's names from masking; the first of the listeners.

        Short secrets may occur in computed names by chance.
        """
        for name in names_in(event):
            self.masker.keep(name)
            self.files.keep(name)
            # The summary escapes it.
            self.files.keep(escape(name))

    def shown(self) -> RunRecord:
        """Return the results so far, for files: without secrets."""
        return self.record.masked(self.files.mask, self.files.mask_name)

    def annotate(self, level: Level, text: str, *, title: str = "aml-train") -> None:
        """Show *text* as an annotation without a place."""
        self.channel.command(annotation(level, self.masker.mask(text), title=title))

    def host(self, environ: Mapping[str, str]) -> Host:
        """Return this process with the pipeline's *environ*; its tokens are masked."""
        return Host(environ=environ, assertion=github_assertion(self.environ, fetched=self.hide), on_token=self.hide)

    @contextlib.contextmanager
    def boundary(self, record: RunRecord, *, settle: Callable[[], None]) -> Iterator[None]:
        """Show and record an error of the block: errors become exit codes only session.

        *settle* ignores further signals.
        """
        try:
            yield
        except AmlTrainError as error:
            settle()
            self._show_error(error, record)
        except KeyboardInterrupt:
            settle()
            self._show_interruption(record)
        except Exception as error:  # noqa: BLE001 - the outputs are set, and the traceback is masked, before it all ends
            settle()
            if in_place_of_interrupt(error):
                self._show_interruption(record)
                return
            limit = expected(error)
            if limit is not None:
                self._show_error(limit, record)
                return
            self.channel.text(traceback.format_exc(), sign="✗")
            message = "This is a fault of aml-train, not of your configuration."
            hint = "Please report it with the traceback in the log."
            self.annotate("error", f"{message}\n{hint}", title="aml-train: error")
            record.end("error", 1, message, hint)

    def _show_interruption(self, record: RunRecord) -> None:
        """Show an interruption; a run that has ended keeps its status."""
        if not record.ended:
            job = (
                f"after the job {record.report.job.name} was submitted"
                if record.report.job
                else "before a job was submitted"
            )
            self._show_error(CancelledError(f"Interrupted {job}."), record)

    def _show_error(self, error: AmlTrainError, record: RunRecord) -> None:
        if record.ended:  # only its report failed: what the run has come to stays
            record.set(exit_code=record.report.exit_code or error.exit_code)
        else:
            record.end(error.status, error.exit_code, error.message, error.hint)
        self.channel.text(f"{error.status} (exit code {error.exit_code})", sign="✗")
        self.channel.text(str(error))
        directory = self.directory or self.step.workspace
        places = Places(workspace=self.step.workspace, directory=directory, project=directory)
        Annotations(self.channel, self.masker, places).error(error)


@dataclass(frozen=True, kw_only=True)
class Invocation:
    """A step's inputs, their configuration, and the pipeline's environ.

    Attributes:
        session: the process.
        inputs: the inputs.
        config: the configuration, changed as the inputs say.
        changes: the changes that inputs make, as ``key=value``.
        environ: the pipeline's environ, with the inputs about Azure.
    """

    session: Session
    inputs: Inputs
    config: Config
    changes: tuple[str, ...]
    environ: Mapping[str, str]

    def host(self) -> Host:
        """Return this process as the pipeline sees it."""
        return self.session.host(self.environ)


@contextlib.contextmanager
def open_session(environ: Mapping[str, str], stdout: BinaryIO) -> Iterator[Session]:
    """Give a session, in which printed text reaches GitHub's log without effect.

    Args:
        environ: the process's environ.
        stdout: GitHub's log; everything passes the filter that masks secrets.
    """
    masker = Masker(known_secrets(environ, identifiers=True))
    for value in masker.parts:
        # The only text that bypasses the filter.
        stdout.write((command("add-mask", value) + "\n").encode())
    stdout.flush()
    filtered = MaskingStream(stdout, masker)
    stream = io.TextIOWrapper(io.BufferedWriter(filtered), encoding="utf-8", errors="backslashreplace", newline="\n")
    channel = Channel(stream, masker, sink=stdout)
    printed = ChannelText(channel)
    files = Masker(known_secrets(environ, identifiers=False))
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            yield Session(
                environ=environ,
                step=read_step(environ),
                channel=channel,
                masker=masker,
                files=files,
            )
    finally:
        printed.finish()
        channel.resume()
        stream.close()


class _ChannelHandler(logging.Handler):
    """Shows what libraries log."""

    def __init__(self, channel: Channel) -> None:
        super().__init__(logging.DEBUG)
        self._channel = channel

    def emit(self, record: logging.LogRecord) -> None:
        self._channel.text(self.format(record), sign="·")


@contextlib.contextmanager
def library_logs(channel: Channel) -> Iterator[None]:
    """Show everything that libraries log, and each request with its id."""
    handler = _ChannelHandler(channel)
    handler.setFormatter(logging.Formatter("%(name)s %(levelname)s %(message)s"))
    level, handlers = logging.root.level, logging.root.handlers[:]
    logging.root.handlers[:] = [handler]
    logging.root.setLevel(logging.DEBUG)
    try:
        with logged_requests(partial(channel.text, sign="·")):
            yield
    finally:
        logging.root.setLevel(level)
        logging.root.handlers[:] = handlers


def signals() -> contextlib.AbstractContextManager[Callable[[], None]]:
    """Handle SIGINT and SIGTERM like Ctrl-C; give a function that ignores them.

    As process 1 of a container, Python would ignore SIGTERM; and a shell may have SIGINT ignored.
    """
    return interrupt_on(signal.SIGINT, signal.SIGTERM)
