"""The process of the command line: the boundary where errors become exit codes."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from typing import Final

import click

from aml_train.cli.main import cli
from aml_train.core.errors import AmlTrainError, InvalidError
from aml_train.core.machine import expected, in_place_of_interrupt, interrupt_on
from aml_train.core.masking import Masker
from aml_train.core.secrets import known_secrets
from aml_train.core.streams import discard, failure_of, masked_output, prepare_streams

_INTERRUPTED: Final = "aml-train: interrupted\n"


def _message(error: AmlTrainError) -> str:
    """Return the text that is printed for an expected error."""
    # Editors find faults at the beginning of their lines.
    faults = error.faults if isinstance(error, InvalidError) else ()
    if faults:
        number = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
        text = f"{error.message}\naml-train: {number}; nothing was done.\n"
    else:
        text = f"aml-train: {error.message}\n"
    return text + (f"{error.hint}\n" if error.hint else "")


def run_command_line() -> int:
    """Run the command of ``sys.argv``; return the exit code of the table of endings."""
    prepare_streams()
    masker = Masker(known_secrets(os.environ, identifiers=False))
    code: object = 0
    try:
        # A shell may have SIGINT ignored for what it starts in the background. CI services send SIGTERM to cancel a workflow.
        sigint = [signal.SIGINT] * callable(signal.getsignal(signal.SIGINT))
        with masked_output(masker.mask), interrupt_on(*sigint, signal.SIGTERM):
            _main(masker)
    except SystemExit as ended:
        code = ended.code
    code = _flushed(code)
    return code if isinstance(code, int) else 0 if code is None else 1


def _flushed(code: object) -> object:
    """Return the exit code after flushing the output: 1 instead of 0 if that fails."""
    error = failure_of(sys.stdout)
    if error is None:
        return code
    discard(sys.stdout)
    if not isinstance(error, BrokenPipeError):
        _report(f"aml-train: the output cannot be written: {error.strerror}\n")
    return code or 1


def _of_the_output(error: OSError) -> bool:
    """Return whether the error was raised while a command printed its result."""
    return any(frame.f_code is click.echo.__code__ for frame, _ in traceback.walk_tb(error.__traceback__))


def _report(text: str) -> None:
    """Write to standard error, as far as it can be written."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        discard(sys.stderr)


def _main(masker: Masker) -> None:
    try:
        cli(prog_name="aml-train", standalone_mode=False, obj=masker)
    except AmlTrainError as error:
        _report(_message(error))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        _report(_INTERRUPTED)
        sys.exit(7)
    except BrokenPipeError:
        sys.exit(1)
    except Exception as error:  # noqa: BLE001 - its traceback is masked before it ends the process
        if in_place_of_interrupt(error):
            _report(_INTERRUPTED)
            sys.exit(7)
        if isinstance(error, OSError) and _of_the_output(error):
            _report(f"aml-train: the output cannot be written: {error.strerror}\n")
            sys.exit(1)
        if (limit := expected(error)) is not None:
            _report(_message(limit))
            sys.exit(limit.exit_code)
        if isinstance(error, click.exceptions.Exit):
            sys.exit(error.exit_code)
        if isinstance(error, click.ClickException):
            error.show()
            sys.exit(2)
        if isinstance(error, click.Abort):
            sys.exit(7)
        fault = "aml-train: this is a fault of aml-train, not of your configuration. Please report it with this traceback:"
        _report(f"{fault}\n{traceback.format_exc()}")
        sys.exit(1)
