"""Figures of a soak: quantiles, robust slopes, goals, and their text. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from typing import Any, Final

from benchmarks.soak.sampling import Sample

MIB: Final = 1024 * 1024
GOAL_MILLISECONDS: Final = 50.0
GOAL_SLOPE: Final = 1.0
SLACK: Final = 64.0
"""MiB of logs that are deleted and still on the disk: 17 a minute, for up to 3 minutes, and some in files with others that are kept."""
STATUS: Final = ("details", "status")
_SURE: Final = 1.96
"""Of the normal distribution: 95 in 100 are within so many deviations."""


@dataclass(frozen=True, kw_only=True)
class Slope:
    """A change per hour. *low* and *high* bound it with 95 % confidence."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Latency:
    """Times of one kind of request, in milliseconds."""

    count: int
    p50: float
    p90: float
    p99: float
    most: float


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Memory of one process after the warm-up, in MiB and MiB an hour.

    *slope* is None for too few samples; *by_time* has seconds since the beginning with MiB, the warm-up included. The
    memory that lives on a heap has no files, no threads and no CPU time.
    """

    role: str
    first: float
    last: float
    most: float
    slope: Slope | None
    by_time: Sequence[tuple[float, float]]
    files: tuple[int, int] = (0, 0)
    threads: tuple[int, int] = (0, 0)
    cpu_seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Phase:
    """Figures of one phase under the whole load.

    Attributes:
        warm: seconds of its beginning that memory is not judged by.
        latencies: by kind of request.
        by_minute: the 99th percentile of status requests in each minute.
        errors: wrong answers, by text.
    """

    name: str
    seconds: float
    warm: float
    latencies: Mapping[str, Latency]
    by_minute: Sequence[float]
    memory: Sequence[Memory]
    errors: Mapping[str, int]
    ended: Mapping[str, int]
    pipelines: int
    log_bytes_read: int
    disk: tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Report:
    """A whole soak.

    Attributes:
        settings: how it was run.
        kills: how often the service was killed, and what was wrong afterwards.
        missing: what was acknowledged and is lost.
        statuses: how all jobs ended.
        stored: MiB of logs: *written* by the jobs' commands, *accounted* by the service (``clean`` and ``clean --dry-run``), *cleaned* of these,
            and on the *disk*.
        freed: MiB on the disk after everything was cleaned up; None if not measured.
    """

    settings: Mapping[str, Any]
    phases: Sequence[Phase]
    kills: int = 0
    missing: Sequence[str] = ()
    statuses: Mapping[str, int] = field(default_factory=dict)
    stored: Mapping[str, float] = field(default_factory=dict)
    freed: float | None = None


@dataclass(frozen=True, kw_only=True)
class Goal:
    """A goal: whether it is met, or None if the run was too short to say."""

    text: str
    met: bool | None


def robust_slope(points: Sequence[tuple[float, float]]) -> Slope | None:
    """Return the median slope of all pairs of points, and its bounds.

    That is the estimate of Theil and Sen; None for too few points.

    Half of the points may be anything without moving it far. The bounds are those of P. K. Sen, "Estimates of the regression
    coefficient based on Kendall's tau", 1968: ranks among the slopes.
    """
    slopes = sorted((y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(points, 2) if x1 != x2)
    if len(points) < 5 or not slopes:
        return None
    n = len(points)
    spread = _SURE * math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    low = max(0, math.floor((len(slopes) - spread) / 2))
    high = min(len(slopes) - 1, math.ceil((len(slopes) + spread) / 2))
    return Slope(median=statistics.median(slopes), low=slopes[low], high=slopes[high])


def latency_of(times: Sequence[float]) -> Latency | None:
    """Return the quantiles; None without a time."""
    if not times:
        return None
    ordered = sorted(times)

    def at(share: float) -> float:
        return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]

    return Latency(count=len(ordered), p50=at(0.5), p90=at(0.9), p99=at(0.99), most=ordered[-1])


def memory_of(samples: Sequence[Sample], *, warm: float) -> tuple[Memory, ...]:
    """Return the memory of each process by role, from *warm* seconds on."""
    roles = dict.fromkeys(process.role for sample in samples for process in sample.processes)
    return tuple(found for role in roles if (found := _memory_of(role, samples, warm)) is not None)


def live_memory_of(role: str, heap: Sequence[tuple[float, int]], *, warm: float) -> tuple[Memory, ...]:
    """Return what lives on a heap, from *warm* seconds on; nothing without values.

    Args:
        heap: seconds since the beginning, and bytes after a collection.
    """
    seen = [(at, size / MIB) for at, size in heap if at >= warm]
    if not seen:
        return ()
    return (_memory(role, heap, seen),)


def _memory_of(role: str, samples: Sequence[Sample], warm: float) -> Memory | None:
    whole = [(sample.at, process) for sample in samples for process in sample.processes if process.role == role]
    seen = [(at, process) for at, process in whole if at - samples[0].at >= warm] or whole[-1:]
    if not seen:
        return None
    found = _memory(
        role,
        [(at, process.memory) for at, process in whole],
        [(at, process.memory / MIB) for at, process in seen],
    )
    return replace(
        found,
        files=(seen[0][1].files, seen[-1][1].files),
        threads=(seen[0][1].threads, seen[-1][1].threads),
        cpu_seconds=seen[-1][1].cpu - whole[0][1].cpu,
    )


def _memory(role: str, whole: Sequence[tuple[float, int]], seen: Sequence[tuple[float, float]]) -> Memory:
    """Return the figures of one role's memory.

    Args:
        whole: seconds and bytes, the warm-up included.
        seen: seconds and MiB, from its end on.
    """
    values = [value for _, value in seen]
    return Memory(
        role=role,
        first=values[0],
        last=values[-1],
        most=max(values),
        slope=robust_slope([(at / 3600, value) for at, value in seen]),
        by_time=[(round(at, 1), round(size / MIB, 2)) for at, size in whole],
    )


def goals_of(report: Report) -> Iterator[Goal]:
    """Yield the goals of a soak."""
    for phase in report.phases:
        wrong = sum(phase.errors.values())
        yield Goal(text=f"{phase.name}: no wrong answer ({wrong})", met=wrong == 0)
        for kind in STATUS:
            if (found := phase.latencies.get(kind)) is not None:
                text = f"{phase.name}: p99 of {kind} {found.p99:.1f} ms, at most {GOAL_MILLISECONDS:.0f}"
                yield Goal(text=text, met=found.p99 <= GOAL_MILLISECONDS)
        for memory in phase.memory:
            if memory.slope is None:
                continue
            bounds = f"{memory.slope.low:+.1f} to {memory.slope.high:+.1f}"
            text = f"{phase.name}: memory of {memory.role} {memory.slope.median:+.1f} MiB/h ({bounds}), at most +{GOAL_SLOPE:.0f}"
            yield Goal(text=text, met=_is_flat(memory.slope))
    if report.statuses:
        others = {status: count for status, count in report.statuses.items() if status != "Completed"}
        yield Goal(text=f"every job completes ({others or sum(report.statuses.values())})", met=not others)
        yield Goal(text=f"nothing acknowledged is lost ({len(report.missing)})", met=not report.missing)
    if report.stored:
        accounted, written = report.stored["accounted"], report.stored["written"]
        cleaned, disk = report.stored["cleaned"], report.stored["disk"]
        text = f"logs: {written:.1f} MiB written, {accounted:.1f} accounted, {cleaned:.1f} of these cleaned up, {disk:.1f} on the disk"
        yield Goal(text=text, met=accounted >= written and disk <= 1.1 * (accounted - cleaned) + SLACK)


def _is_flat(slope: Slope) -> bool | None:
    """Return whether memory is flat; None if the bounds include both answers."""
    if slope.high <= GOAL_SLOPE:
        return True
    return None if slope.low <= GOAL_SLOPE else False


def lines_of_phase(phase: Phase) -> Iterator[str]:
    """Yield the figures of a phase as lines of text."""
    yield f"\n{phase.name}: {phase.seconds:.0f} s, memory after {phase.warm:.0f} s"
    for kind, one in phase.latencies.items():
        quantiles = f"{one.p50:7.1f} {one.p90:7.1f} {one.p99:7.1f} {one.most:8.1f} ms"
        yield f"  {kind:<10} {one.count:>8} requests   p50/p90/p99/max {quantiles}"
    yield f"  p99 of status by minute: {' '.join(f'{value:.0f}' for value in phase.by_minute)} ms"
    for memory in phase.memory:
        slope = memory.slope
        said = f"{slope.median:+8.1f} MiB/h ({slope.low:+.1f} to {slope.high:+.1f})" if slope else "no slope"
        of_process = (
            f"  files {memory.files[0]} → {memory.files[1]}  threads {memory.threads[0]} → {memory.threads[1]}"
            f"  CPU {memory.cpu_seconds:.0f} s"
        )
        yield (
            f"  {memory.role:<13} {memory.first:7.1f} → {memory.last:.1f} MiB, most {memory.most:.1f}  {said}"
            f"{of_process if memory.threads[1] else ''}"
        )
    yield (
        f"  jobs ended {dict(phase.ended)}, pipelines {phase.pipelines}, logs read {phase.log_bytes_read / MIB:.1f} MiB,"
        f" disk {phase.disk[0]:.0f} → {phase.disk[1]:.0f} MiB"
    )
    for text, count in phase.errors.items():
        yield f"  WRONG {count} times: {text}"


def lines_of(report: Report) -> Iterator[str]:
    """Yield a report as lines of text, without its phases."""
    shown = ", ".join(f"{name} {value}" for name, value in report.settings.items())
    yield f"\nsoak: {shown}"
    if report.kills:
        yield f"\n{report.kills} kills; lost: {list(report.missing) or 'nothing'}"
    yield ""
    for goal in goals_of(report):
        verdict = {True: "met", False: "MISSED", None: "too short to say"}[goal.met]
        yield f"{verdict:<16} {goal.text}"
    if report.freed is not None:
        yield f"after clean: {report.freed:.1f} MiB on the disk"


def as_json(report: Report) -> dict[str, Any]:
    """Return the report as JSON, with its goals."""
    return asdict(report) | {"goals": [asdict(goal) for goal in goals_of(report)]}
