"""Record a block of a program, and write its bundle at the end."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from aml_train.core.errors import AmlTrainError, InvalidError
from aml_train.core.interrupts import watch_interrupts
from aml_train.pipeline.record.bundle import LeakError, write_bundle
from aml_train.pipeline.record.recorder import Recorder, traceback_of


@contextlib.contextmanager
def record_run(
    path: Path, command: str, environ: Mapping[str, str], *, report: Callable[[str], object]
) -> Iterator[Recorder]:
    """Record the block; write the bundle to *path* at its end, however it ends.

    Args:
        path: the bundle, which is replaced as a whole.
        command: the command's words.
        environ: the process's environment: its secrets, and the names of its variables.
        report: receives a sentence on what was written, or why nothing was.

    Raises:
        InvalidError: *path* cannot be written, which is checked first.
    """
    _check_writable(path)
    recorder = Recorder(command, environ)
    try:
        with watch_interrupts(recorder.interrupted), recorder.tap.attached():
            yield recorder
    except AmlTrainError as error:
        recorder.seen.error = error
        raise
    except Exception as error:
        recorder.seen.failure = error
        raise
    finally:
        try:
            report(f"The bundle {path} has {write_bundle(path, recorder)}.")
        except (LeakError, InvalidError, OSError) as error:
            report(f"No bundle was written: {error}")
        except KeyboardInterrupt:
            report("No bundle was written: that was interrupted.")
            raise
        except Exception as error:  # noqa: BLE001 - a fault of the recorder must not change how the run ends
            fault = traceback_of(error)["chain"][0]
            place = fault["frames"][-1]
            text = f"{fault['type']} in {place['file']}, line {place['line']}"
            report(f"No bundle was written: {text}. Please report it.")


def _check_writable(path: Path) -> None:
    if path.is_dir() or not path.absolute().parent.is_dir():
        what = "is a folder" if path.is_dir() else "cannot be written: its folder does not exist"
        raise InvalidError(f"--record {path}: it {what}.", hint="Name a file in a folder that exists.")
