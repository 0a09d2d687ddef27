"""Run programs quietly, with all output in one log; errors quote its end."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_TAIL_BYTES = 4000
PAUSES = (2.0, 5.0, 20.0)
"""Seconds before each further attempt of what uses the network."""


class BootstrapError(Exception):
    """The machine could not be set up. The text is shown to the user unchanged."""


class CommandFailedError(BootstrapError):
    """A program ended with another code than 0, or was not there at all.

    Attributes:
        output: the end of what it printed.
    """

    def __init__(self, argv: Sequence[str], why: str, output: str, log: Path) -> None:
        super().__init__(f"{' '.join(argv[:4])}{' …' if len(argv) > 4 else ''}: {why} (all of it: {log})\n{output}")
        self.output = output


@dataclass(frozen=True, kw_only=True)
class Shell:
    """Runs programs in the checkout.

    Attributes:
        root: the checkout.
        log: the file that collects what the programs print.
        say: shows one line to the user.
        sleep: waits between attempts, in seconds.
    """

    root: Path
    log: Path
    say: Callable[[str], None]
    sleep: Callable[[float], None] = time.sleep

    def run(
        self, argv: Sequence[str], *, environment: Mapping[str, str] | None = None, stdin: IO[bytes] | None = None
    ) -> str:
        """Run a program, and return the last few thousand characters of its output.

        Raises:
            CommandFailedError: if it cannot be started or fails.
        """
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            log.write(f"\n$ {' '.join(argv)}\n".encode())
            log.flush()
            start = log.tell()
            try:
                done = subprocess.run(
                    list(argv),
                    cwd=self.root,
                    env={**os.environ, **(environment or {})},
                    stdin=stdin or subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    check=False,
                )
            except OSError as error:
                raise CommandFailedError(argv, str(error), "", self.log) from error
        output = read_tail(self.log, since=start)
        if done.returncode != 0:
            raise CommandFailedError(argv, f"exit code {done.returncode}", output, self.log)
        return output

    def run_patiently(
        self,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        pauses: Sequence[float] = PAUSES,
    ) -> str:
        """Run a program that uses the network; retry after *pauses* in seconds."""
        for pause in pauses:
            try:
                return self.run(argv, environment=environment)
            except CommandFailedError as error:
                reason = last_line(error.output) or str(error).splitlines()[0]
                self.say(f"    {argv[0]} failed ({reason}); again in {pause:g} s")
                self.sleep(pause)
        return self.run(argv, environment=environment)


def read_tail(path: Path, *, since: int = 0) -> str:
    """Return the last whole lines of a text file, from byte *since* on."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        begin = max(since, size - _TAIL_BYTES)
        file.seek(begin)
        text = file.read().decode(errors="replace")
    if begin > since:
        text = text.partition("\n")[2]
    return text.rstrip()


def last_line(text: str) -> str:
    """Return the last line that is not blank, or an empty text."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
