"""One process of the action: what it was given, the way to GitHub's log, what it has come to, and what it hides."""

from __future__ import annotations

import contextlib
import io
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO

from aml_train.core.errors import AmlTrainError, CancelledError
from aml_train.core.events import Event, ImageReady, JobNamed, JobSubmitted, ModelPromoted, ModelRegistered
from aml_train.core.machine import expected
from aml_train.core.masking import Masker, MaskingStream
from aml_train.core.secrets import known_secrets
from aml_train_action.github.annotations import Annotations, Places
from aml_train_action.github.commands import Level, annotation, command
from aml_train_action.github.log import Channel, ChannelText
from aml_train_action.inputs.run import Step, read_step
from aml_train_action.report.markdown import escape
from aml_train_action.report.record import Record


@dataclass(kw_only=True)
class Session:
    """One process of the action. Made by :func:`session`.

    Attributes:
        environment: the process's.
        step: what GitHub says of the step.
        channel: the way to the log.
        masker: hides secrets and identifiers in the log.
        files: hides secrets in outputs and summary, where links need identifiers.
        record: what it has come to.
        raw: the same with nothing masked: it tells which outputs had to be altered, and is shown nowhere.
        text: what a command printed that is no run.
        reproduce: the command that does the same elsewhere.
    """

    environment: Mapping[str, str]
    step: Step
    channel: Channel
    masker: Masker
    files: Masker
    record: Record
    raw: Record = field(default_factory=lambda: Record(exit_code=0))
    text: str = ""
    reproduce: str = "aml-train run"

    def hide(self, secret: str) -> None:
        """Mask what was learnt just now, everywhere."""
        self.files.add(secret)
        self.channel.hide(secret)

    def identify(self, event: Event) -> None:
        """Show the names that *event* brings, although short secrets occur in them: a listener that comes before all others."""
        names: tuple[str, ...] = ()
        match event:
            case JobNamed() | JobSubmitted():
                names = (event.job,)
            case ImageReady():
                names = event.reference, event.digest
            case ModelRegistered() | ModelPromoted():
                names = event.model, f"{event.model}:{event.version}"
            case _:
                pass
        for name in names:
            self.masker.keep(name)
            self.files.keep(name)
            # As the summary has it.
            self.files.keep(escape(name))

    def annotate(self, level: Level, text: str, *, title: str = "aml-train") -> None:
        """Show *text* as an annotation without a place."""
        self.channel.command(annotation(level, self.masker.mask(text), title=title))

    @contextlib.contextmanager
    def boundary(self, record: Record, *, settle: Callable[[], None]) -> Iterator[None]:
        """Tell an error of the block and note it in *record*: the one place where errors become messages and codes.

        *settle* makes further signals have no effect.
        """
        try:
            yield
        except AmlTrainError as error:
            settle()
            self._tell(error, record)
        except KeyboardInterrupt:
            settle()
            # A run that had come to its end keeps it.
            if not record.ended:
                job = f"after the job {record.job.job} was submitted" if record.job else "before a job was submitted"
                self._tell(CancelledError(f"Interrupted {job}."), record)
        except Exception as error:  # noqa: BLE001 - the outputs are set, and the traceback is masked, before it all ends
            settle()
            limit = expected(error)
            if limit is not None:
                self._tell(limit, record)
                return
            self.channel.text(traceback.format_exc(), sign="✗")
            message = "This is a fault of aml-train, not of your configuration."
            hint = "Please report it with the traceback in the log."
            self.annotate("error", f"{message}\n{hint}", title="aml-train: error")
            record.end("error", 1, message, hint)

    def _tell(self, error: AmlTrainError, record: Record) -> None:
        record.end(error.status, error.exit_code, error.message, error.hint)
        self.channel.text(f"{error.status} (exit code {error.exit_code})", sign="✗")
        self.channel.text(str(error))
        directory = record.directory or self.step.workspace
        places = Places(workspace=self.step.workspace, directory=directory, project=directory)
        Annotations(self.channel, self.masker, places).error(error)


@contextlib.contextmanager
def session(environment: Mapping[str, str], stdout: BinaryIO) -> Iterator[Session]:
    """Give a session; while it lasts, everything that prints goes to GitHub's log, and nothing of it takes effect there.

    Args:
        environment: the process's environment.
        stdout: the way to GitHub's log; everything goes there, behind the filter that masks secrets.
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
    files = Masker(known_secrets(environment, identifiers=False))
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            yield Session(
                environment=environment,
                step=read_step(environment),
                channel=channel,
                masker=masker,
                files=files,
                record=Record(mask=files.mask, mask_name=files.mask_name),
            )
    finally:
        printed.finish()
        channel.resume()
        stream.close()
