"""Standard output and error: any encoding, and failures to write."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, TextIO, cast


def prepare_streams() -> None:
    """Let standard output and error take any text; replace streams that are closed."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the shell: `>&-`
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 - until the process ends
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def failure_of(stream: TextIO) -> OSError | None:
    """Return why what was written to *stream* cannot be delivered; None where it can."""
    try:
        stream.flush()
    except OSError as error:
        return error
    except ValueError:  # it is closed
        return None
    return None


def discard(stream: TextIO) -> None:
    """Discard the contents of *stream*, or else the interpreter exits with 120.

    https://docs.python.org/3/library/signal.html#note-on-sigpipe
    """
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


class _MaskedOutput:
    """See :func:`masked_output`."""

    def __init__(self, stream: TextIO, mask: Callable[[str], str]) -> None:
        self.unmasked = stream
        self._mask = mask

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":  # bytes would get past the mask
            raise AttributeError(name)
        return getattr(self.unmasked, name)

    def write(self, text: str | bytes) -> int:
        """Write *text*, a line at least, without secrets.

        click writes completions as bytes, to a stream without a buffer as well.
        """
        self.unmasked.write(self._mask(text.decode(errors="replace") if isinstance(text, bytes) else text))
        return len(text)


@contextlib.contextmanager
def masked_output(mask: Callable[[str], str]) -> Iterator[None]:
    """Let *mask* replace the secrets in all that the block prints."""
    out, err = (cast("TextIO", _MaskedOutput(stream, mask)) for stream in (sys.stdout, sys.stderr))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        yield


def unmasked(stream: TextIO) -> TextIO:
    """Return what is behind *stream*, for files and for documents without secrets."""
    found: TextIO = getattr(stream, "unmasked", stream)
    return found


class _LastingOutput:
    """See :func:`lasting_output`."""

    def __init__(self, stream: TextIO, aside: TextIO, *, name: str = "The output") -> None:
        self._stream = stream
        self._aside = aside
        self._name = name
        self._failed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write *text*, or nothing after a failure."""
        self._try(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        """Deliver what was written."""
        self._try(self._stream.flush)

    def close(self) -> None:
        """Close the stream."""
        self._try(self._stream.close)

    def _try(self, do: Callable[[], object]) -> None:
        if self._failed:
            return
        try:
            do()
        except OSError as error:
            self._failed = True
            discard(self._stream)
            why = error.strerror or type(error).__name__
            with contextlib.suppress(OSError, ValueError):  # standard error may be the same disk
                self._aside.write(f"aml-train: {self._name} cannot be written any more: {why}. The run continues.\n")
                self._aside.flush()


def lasting_output(stream: TextIO, aside: TextIO, *, name: str = "The output") -> TextIO:
    """Return *stream* for a run.

    A failure to write is reported once, the run continues.

    A full disk or a reader that is gone says nothing of the job: its verdict is due all the same.

    Args:
        stream: where to write.
        aside: where the failure is reported.
        name: what the stream is called.
    """
    return cast("TextIO", _LastingOutput(stream, aside, name=name))
