"""How far a transfer is: a moving bar on a terminal, a line now and then everywhere else."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Final, TextIO

from aml_train.azure import Tally
from aml_train.core.text import duration, size

LINE_SECONDS: Final = 10.0
_BAR_SECONDS: Final = 0.2


def amount(tally: Tally) -> str:
    """Return in a few words what was done of what there is to do, as far as that is known."""
    done = tally.sent_files + tally.same_files
    total = f" of {tally.files:,}" if tally.counted else f" of {tally.files:,} so far"
    moved = tally.sent_bytes + tally.same_bytes + tally.kept_bytes
    return f"{done:,}{total} files, {size(moved)} of {size(tally.size)}"


def summary(verb: str, tally: Tally, seconds: float) -> str:
    """Return in one line what was done, such as ``sent 12 files (3.4 MB) in 1.2 s; 5 were there already``."""
    noun = "file" if tally.sent_files == 1 else "files"
    text = f"{verb} {tally.sent_files:,} {noun} ({size(tally.sent_bytes)}) in {duration(seconds)}"
    if tally.same_files:
        text += f"; {tally.same_files:,} {'was' if tally.same_files == 1 else 'were'} there already"
    if tally.kept_bytes:
        text += f"; {size(tally.kept_bytes)} had arrived earlier"
    if tally.unchecked:
        text += f"; {tally.unchecked:,} without a stored checksum, checked by size alone"
    return text


@contextlib.contextmanager
def shown(verb: str, tally: Tally, file: TextIO) -> Iterator[None]:
    """Show on *file* how far it is, while the context lasts."""
    ended = threading.Event()
    thread = threading.Thread(
        target=_bar if file.isatty() else _lines, args=(verb, tally, file, ended), name="progress", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _lines(verb: str, tally: Tally, file: TextIO, ended: threading.Event) -> None:
    while not ended.wait(LINE_SECONDS):
        file.write(f"· {verb}: {amount(tally)}\n")
        file.flush()


def _bar(verb: str, tally: Tally, file: TextIO, ended: threading.Event) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[amount]}"))
    began = time.monotonic()
    with Progress(*columns, console=Console(file=file), transient=True, auto_refresh=False) as bars:
        task = bars.add_task(verb, total=None, amount="")
        while True:
            done = tally.sent_bytes + tally.same_bytes + tally.kept_bytes
            speed = f"{size(done / max(time.monotonic() - began, 0.001))}/s"
            total = max(tally.size, 1) if tally.counted else None
            bars.update(task, completed=min(done, tally.size), total=total, amount=f"{amount(tally)}, {speed}")
            bars.refresh()
            if ended.wait(_BAR_SECONDS):
                return
