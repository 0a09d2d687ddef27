"""Reports from a running job's logs: lines, last lines and tracebacks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from aml_train.core.errors import ServiceError
from aml_train.core.events import Listener, LogLines, LogsEnded, LogTail, Notice, Traceback, rank_label
from aml_train.core.masking import Masker
from aml_train.jobs.logs.follow import (
    DEPENDS,
    LogAddress,
    LogFollower,
    LogReader,
    log_addresses,
)
from aml_train.jobs.logs.names import LogName, chosen, log_name
from aml_train.jobs.logs.tracebacks import TracebackFinder, is_own
from aml_train.jobs.states import TAIL_HEADING, TRACEBACK_HEADING, JobStatus
from aml_train.jobs.workspace import JobView, StorageUnreachableError, Workspace

#: What the message of a failed run holds at most; the event has more.
_LINES_OF_ONE: Final = 15
_LINES_OF_SEVERAL: Final = 60
_FEWEST_LINES: Final = 5
_MOST_RANKS: Final = 16
#: How many logs are read between two looks at the job, half a second apart.
_MOST_AT_ONCE: Final = 8
_MOST_TRACEBACKS: Final = 8
_RANK: Final = re.compile(r"\brank[ =:#]{0,2}(\d{1,9})\b", re.I)
#: What MLflow and azureml-mlflow print behind a run's last own words.
_NOISE: Final = re.compile(
    r"\s*(?:🏃 View run |🧪 View experiment |Cleaning up all outstanding Run operations|\d+ items? cleaning up)"
)
#: What a rank raises because another one has ended (torch.distributed, gloo, NCCL, mpi4py, launchers).
_CONSEQUENCE: Final = re.compile(
    r"ChildFailedError|CalledProcessError|DistNetworkError|DistBackendError|DistStoreError|Connection (?:closed|reset) by|"
    r"ConnectionResetError|BrokenPipeError|KeyboardInterrupt|SignalException|MPI_ABORT|Socket Timeout|NCCL (?:error|communicator)"
)


class JobLogs:
    """The logs of one job. *readable* says whether the last reading succeeded.

    Args:
        listener: receives the lines, and at the end the last lines and tracebacks.
        every: report AzureML's own logs as well.
    """

    def __init__(
        self,
        service: Workspace,
        job: str,
        listener: Listener,
        *,
        every: bool = False,
        masker: Masker | None = None,
    ) -> None:
        self._service = service
        self._job = job
        self._listener = listener
        self._every = every
        self._masker = masker
        self._reader = LogReader(service, job, listener)
        self._follower = LogFollower(self._reader, self._take, masker=masker)
        self._tracebacks = TracebackFinder()
        self._known: tuple[LogAddress, ...] = ()
        self._grew = False
        self._turns = 0
        self._view: JobView | None = None
        self._reported = False
        self.readable = True

    def sizes(self) -> dict[LogName, int]:
        """Return how many bytes were read of each log that the job's own processes write."""
        return self._follower.sizes()

    def read(self, view: JobView, *, final: bool) -> bool:
        """Read what is new in the logs that *view* names; with *final* to their ends.

        Returns:
            whether that is done, as far as it can be: calling again continues where reading stopped. A failure to read logs
            is reported once, and raises nothing: the job's fate does not depend on them.
        """
        self._view = view
        names = chosen(view.log_files, every=self._every)
        self._known = tuple(log_addresses(names, view.log_files))
        self._reader.know(self._known)
        problem = self._read(self._known, final=final)
        if problem is not None and not self._reported:
            self._reported = True
            text = f"The logs of the job {self._job} cannot be read now: {problem.message} {DEPENDS}"
            self._listener(Notice(text=text, level="warning"))
        return problem is None

    def turn(self) -> tuple[LogAddress, ...]:
        """Return the logs to read next, so that all have their turn. A reading costs a request."""
        if not self._reader.reads_storage or not self._known:
            return ()
        first = self._turns * _MOST_AT_ONCE % len(self._known)
        self._turns += 1
        return (self._known[first:] + self._known[:first])[:_MOST_AT_ONCE]

    def read_some(self, logs: Sequence[LogAddress]) -> bool:
        """Read new lines between two polls; return whether that succeeded, unreported."""
        return self._read(logs, final=False) is None

    def _read(self, logs: Sequence[LogAddress], *, final: bool) -> ServiceError | None:
        """Read what is new in *logs*; return a failure that may pass when it is retried."""
        problem: ServiceError | None = None
        try:
            self._follower.follow(logs, final=final)
        except StorageUnreachableError:
            self.readable = False  # reported by the reader
        except ServiceError as error:
            self.readable, problem = False, error
        else:
            self.readable = True
        return problem

    def has_grown(self) -> bool:
        """Return whether a log has grown since the last call."""
        grew, self._grew = self._grew, False
        return grew

    def end(self, reason: str | None = None) -> LogsEnded:
        """Report and return last lines and tracebacks; *reason* may name the failed rank."""
        self._follower.finish()
        tails = tuple(map(without_noise, self._follower.tails() or self._last_resort()))
        found = best(self._tracebacks.found(), failed=failed_rank(reason))
        ended = LogsEnded(job=self._job, tails=tails, tracebacks=found)
        if ended.tails:
            self._listener(ended)
        return ended

    def _last_resort(self) -> tuple[LogTail, ...]:
        """Return the ends of AzureML's own logs if a job failed before it wrote any."""
        view = self._view
        if view is None or self._every or view.status not in (JobStatus.FAILED, JobStatus.NOT_RESPONDING):
            return ()
        quiet = LogFollower(self._reader, lambda _text: None, masker=self._masker)
        every = tuple(log_addresses(chosen(view.log_files, every=True), view.log_files))
        self._reader.know(every)
        try:
            quiet.follow(every, final=True)
        except StorageUnreachableError:
            return quiet.tails()  # reported by the reader
        except ServiceError as error:
            # The verdict does not depend on it.
            self._listener(Notice(text=f"AzureML's own logs could not be read: {error.message}", level="warning"))
        return quiet.tails()

    def _take(self, lines: LogLines) -> None:
        self._grew = True
        if not log_name(lines.origin).system:
            self._tracebacks.feed(lines.origin, lines.text, rank=lines.rank)
        self._listener(lines)


def failed_rank(reason: str | None) -> str | None:
    """Return the rank that AzureML's explanation names first, before any log's end."""
    match = _RANK.search(reason or "")
    return match[1] if match else None


def best(found: Sequence[Traceback], *, failed: str | None) -> tuple[Traceback, ...]:
    """Return the tracebacks that explain a failure, the best first.

    First those of the rank that *failed*, then the others as they arrived; what a rank raises because another one has
    ended comes last.
    """

    def order(one: Traceback) -> tuple[bool, bool]:
        return one.rank != failed, _CONSEQUENCE.search(one.message) is not None

    return tuple(sorted(found, key=order)[:_MOST_TRACEBACKS])


def without_noise(tail: LogTail) -> LogTail:
    """Return the last lines of a log without a framework's own, unless there are no others."""
    lines = tuple(line for line in tail.lines if not _NOISE.match(line))
    return replace(tail, lines=lines) if any(line.strip() for line in lines) else tail


def cause_of(ended: LogsEnded) -> str:
    """Return the exception that explains a failure best, with its place in the user's code and its rank; empty for none."""
    if not ended.tracebacks:
        return ""
    best_one = ended.tracebacks[0]
    own = [(file, line) for file, line in best_one.frames if is_own(file)]
    file, line = (own or best_one.frames)[-1]
    place = f"{file.rpartition('/wd/')[2].removeprefix('./')}:{line}"
    rank = f", {rank_label(best_one.rank)}" if best_one.rank and len(ended.tails) > 1 else ""
    return f"{best_one.message} ({place}{rank})"


def quote_logs(ended: LogsEnded) -> str:
    """Return the first traceback and the last lines of every log, for a message."""
    tails, parts = ended.tails, []
    lines = _LINES_OF_ONE if len(tails) == 1 else max(_FEWEST_LINES, _LINES_OF_SEVERAL // max(1, len(tails)))
    ends = {tail.origin: "\n".join(tail.lines[-lines:]) for tail in tails}
    # The rank of that traceback comes first.
    first = ended.tracebacks[0] if ended.tracebacks else None
    # A traceback that is whole among the last lines is not repeated.
    if first is not None and (len(tails) > 1 or first.text not in ends.get(first.origin, "")):
        parts.append(f"{TRACEBACK_HEADING}{_of(first.origin, first.rank, tails)}:\n{first.text}")
    shown = sorted(tails, key=lambda tail: first is None or tail.origin != first.origin)
    parts += [f"{TAIL_HEADING} {_log_of(tail, tails)}:\n{ends[tail.origin]}" for tail in shown[:_MOST_RANKS]]
    if len(shown) > _MOST_RANKS:
        parts.append(f"… and the logs of {len(shown) - _MOST_RANKS} more ranks.")
    return "\n".join(parts)


def _log_of(tail: LogTail, tails: Sequence[LogTail]) -> str:
    return tail.origin if log_name(tail.origin).system else f"its log{_of(tail.origin, tail.rank, tails)}"


def _of(origin: str, rank: str, tails: Sequence[LogTail]) -> str:
    if len(tails) == 1:
        return ""
    return f", {rank_label(rank)}" if rank else f", {origin}"
