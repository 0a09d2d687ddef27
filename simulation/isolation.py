"""Runs in forked processes.

Each begins from the same state, and leaves nothing behind. Caches, counters and imports of one run would make the next one differ from the same seed run alone. A run that
hangs in real time, such as in a system call that is not simulated, is ended and reported.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import selectors
import signal
import sys
import warnings
from collections.abc import Iterable, Iterator
from typing import Any, Final

from simulation.kernel import prepare
from simulation.runs import Job, Outcome, run

#: Real seconds after which a run hangs.
HANGS: Final = 300.0
_CHUNK: Final = 1 << 16


class _Child:
    """A forked process that makes one run."""

    def __init__(self, job: Job, hangs: float) -> None:
        self.job = job
        self.pipe, write = os.pipe()
        self._read = bytearray()
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            # Python 3.12 warns of threads, which a test runner may have: the child uses none of them.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if not self.pid:
            os.close(self.pipe)
            _work(job, write, hangs)
        os.close(write)

    def read(self) -> bool:
        """Read what there is; return whether the child has ended."""
        chunk = os.read(self.pipe, _CHUNK)
        self._read += chunk
        return not chunk

    def outcome(self) -> Outcome:
        """Wait for the child's end; return its run."""
        os.close(self.pipe)
        _, status = os.waitpid(self.pid, 0)
        try:
            return Outcome.of_json(json.loads(self._read))
        except (ValueError, TypeError):
            code = os.waitstatus_to_exitcode(status)
            text = self._read.decode("utf-8", "replace")
            return Outcome(
                scenario=self.job.scenario,
                seed=self.job.seed,
                plan=dict(self.job.plan or {}),
                digest="",
                invariant="simulation-works",
                message=f"the run ended with {code} and without an outcome\n{text}",
            )

    def kill(self) -> None:
        """End the child."""
        os.kill(self.pid, signal.SIGKILL)
        os.close(self.pipe)
        os.waitpid(self.pid, 0)


def _work(job: Job, write: int, hangs: float) -> None:
    """Run, write the outcome, and end the process without another word."""
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        # A test runner's filters, which make errors of warnings, would change what libraries do.
        warnings.simplefilter("ignore")
        faulthandler.dump_traceback_later(hangs, exit=True, file=write)
        text = json.dumps(run(job, bury=False).as_json())
        faulthandler.cancel_dump_traceback_later()
        with os.fdopen(write, "wb", closefd=False) as file:
            file.write(text.encode())
        code = 0
    except BaseException:  # noqa: BLE001 - the parent reports it as the outcome
        import traceback

        with os.fdopen(write, "wb", closefd=False) as file:
            file.write(traceback.format_exc().encode("utf-8", "replace"))
    finally:
        # Not the interpreter's own end: threads that were left must not be resumed.
        os._exit(code)


def run_all(jobs: Iterable[Job], *, workers: int, hangs: float = HANGS) -> Iterator[Outcome]:
    """Yield the outcomes of jobs, in the order in which they end.

    Args:
        jobs: are taken as there is room for them.
        workers: processes at once.
        hangs: real seconds after which a run is ended.
    """
    prepare()
    gc.collect()
    gc.freeze()  # a collection in a child would copy the memory that it shares with this process
    waiting = iter(jobs)
    children: dict[int, _Child] = {}
    with selectors.DefaultSelector() as selector:
        try:
            while True:
                while len(children) < workers and (job := next(waiting, None)) is not None:
                    child = _Child(job, hangs)
                    children[child.pid] = child
                    selector.register(child.pipe, selectors.EVENT_READ, child)
                if not children:
                    return
                for key, _events in selector.select():
                    found: Any = key.data
                    if found.read():
                        selector.unregister(found.pipe)
                        del children[found.pid]
                        yield found.outcome()
        finally:
            for child in children.values():
                child.kill()


def run_isolated(job: Job, *, hangs: float = HANGS) -> Outcome:
    """Return the outcome of one job, run in a forked process."""
    return next(run_all([job], workers=1, hangs=hangs))
