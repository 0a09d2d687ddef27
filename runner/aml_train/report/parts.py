"""Read the parts of a report from a workspace: pictures, logs, trials, curves."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from aml_train.core.events import Event, GraphNode, LogTail, RuleVerdict
from aml_train.core.tags import Tag
from aml_train.core.text import LineBlocks, harmless, states
from aml_train.core.threads import map_parallel
from aml_train.gate.history import MetricPoint
from aml_train.gate.recompute import fault_of_rule, read_recorded
from aml_train.jobs.composed import ChildView, Objective, ambiguous, best_trial
from aml_train.jobs.logs.follow import LogReader, log_addresses
from aml_train.jobs.logs.names import log_name
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView, StorageUnreachableError, Workspace, seconds_of
from aml_train.report import values
from aml_train.report.series import by_step

MOST_CURVES: Final = 50
MOST_PICTURES: Final = 12
_PICTURE_BYTES: Final = 400_000
_ALL_PICTURES: Final = 600_000
_SEEN_FILES: Final = 5_000
_SUFFIXES: Final = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_MOST_RUNS: Final = 30
_LOGGED_RUNS: Final = 6
_MOST_LOGS: Final = 12
_LOG_LINES: Final = 40
_LOG_BYTES: Final = 1 << 28
_MOST_TRIALS: Final = 200
_READ_METRICS: Final = 150

PictureType = Literal["image/png", "image/jpeg", "image/gif", "image/webp"]


def picture_type(content: bytes) -> PictureType | None:
    """Return the media type of an image by its first bytes; None for other files."""
    if content.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if content.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if content.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if content[:4] == b"RIFF" and content[8:12] == b"WEBP" else None


def read_pictures(
    service: Workspace, view: JobView, children: Sequence[ChildView]
) -> tuple[list[values.Picture], list[str]]:
    """Return the images that a job or its nodes wrote, and sentences on those that are left out.

    Raises:
        ServiceError: the service does not answer.
    """
    runs = [("", view.name)]
    if view.kind == "pipeline":
        leaves = [child for child in children if child.kind != "pipeline"]
        runs += [(f"{child.node}/", child.source) for child in leaves[:_MOST_RUNS]]
    if view.kind == "sweep" and (best := service.results_run(view.name)) != view.name:
        runs.append(("best/", best))
    found: list[values.Picture] = []
    remarks: list[str] = []
    room, more = _ALL_PICTURES, 0
    for before, run in runs:
        paths = itertools.islice(service.artifact_paths(run, ""), _SEEN_FILES)
        for path in sorted(path for path in paths if path.lower().endswith(_SUFFIXES)):
            if len(found) == MOST_PICTURES:
                more += 1
                continue
            content = service.read_artifact(run, path, most=_PICTURE_BYTES)
            if content is None:
                continue
            kind = picture_type(content)
            if len(content) > min(_PICTURE_BYTES, room):
                remarks.append(f"{before}{path} is too large for a report")
            elif kind is None:
                remarks.append(f"{before}{path} is no PNG, JPEG, GIF or WebP image")
            else:
                room -= len(content)
                found.append(values.Picture(name=before + path, type=kind, data=content))
    return found, [*remarks, *([f"{more} more images are not shown"] if more else [])]


def read_logs(
    service: Workspace,
    view: JobView,
    children: Sequence[ChildView],
    mask: Callable[[str], str],
    listener: Callable[[Event], None],
) -> list[LogTail]:
    """Return the last lines of the logs of a job and its nodes, failed nodes first; those of their commands first.

    Args:
        service: the workspace.
        view: the job, with the addresses of its logs.
        children: its nodes or trials.
        mask: hides secrets, before a line is cut.
        listener: receives what cannot be read.

    Raises:
        ServiceError: a log cannot be read.
    """
    leaves = [child for child in children if child.kind != "pipeline" and child.status is not JobStatus.NOT_STARTED]
    leaves.sort(key=lambda child: child.status is JobStatus.COMPLETED)
    details = map_parallel(lambda child: service.details(child.source), leaves[:_LOGGED_RUNS], "logs")
    views = [("", view)] + [(f"{child.node}/", one) for child, one in zip(leaves, details, strict=False)]
    found: list[LogTail] = []
    for before, one in views:
        names = sorted(map(log_name, one.log_files), key=lambda name: name.order)
        names = [name for name in names if not name.system] or names
        addresses = tuple(log_addresses(names[: _MOST_LOGS - len(found)], one.log_files))
        reader = LogReader(service, one.name, listener)
        reader.know(addresses)
        for name, url in addresses:
            try:
                size, lines = _tail(reader.read_log(url, 0), mask)
            except StorageUnreachableError:
                break  # it was reported
            if lines:
                found.append(LogTail(origin=before + name.path, rank=name.rank, size=size, lines=tuple(lines)))
    return found


def _tail(content: Iterable[bytes], mask: Callable[[str], str]) -> tuple[int, list[str]]:
    """Return how many bytes a log has, and its last lines; memory is bounded."""
    blocks, kept, size = LineBlocks(), deque[str](maxlen=_LOG_LINES), 0

    def keep(pieces: Iterable[Any]) -> None:
        for piece in pieces:
            kept.extend(piece.text.split("\n")[-_LOG_LINES:])

    for data in content:
        size += len(data)
        keep(blocks.feed(data))
        if size >= _LOG_BYTES:
            break
    keep(blocks.feed(b"", final=True))
    return size, [harmless(mask(states(line)[-1]))[:2_000] for line in kept]


def read_trials(
    service: Workspace, trials: Sequence[ChildView], objective: Objective | None
) -> tuple[tuple[values.Trial, ...], int]:
    """Return the trials of a sweep, the best one marked, and how many more there are.

    Raises:
        ServiceError: the service does not answer.
    """
    shown = trials[:_MOST_TRIALS]
    histories: Mapping[str, Sequence[float]] = {}
    if objective is not None:

        def of(trial: ChildView) -> list[float]:
            return [point.value for point in service.metric_history(trial.source, objective.metric)]

        histories = dict(zip([one.name for one in shown], map_parallel(of, shown, "trials"), strict=True))
    best = best_trial(shown, histories, objective) if objective is not None else None
    found = []
    for trial in shown:
        value = objective.best(histories[trial.name]) if objective is not None else None
        found.append(
            values.Trial(
                name=trial.name,
                status=trial.status.value,
                value=value,
                best=best is not None and best[0].name == trial.name,
                seconds=seconds_of(trial),
                parameters=dict(trial.parameters),
            )
        )
    return tuple(found), len(trials) - len(shown)


def nodes_of(view: JobView, children: Sequence[ChildView], needs: Mapping[str, Sequence[str]]) -> list[GraphNode]:
    """Return the nodes of a pipeline in the order of their needs; where each ran is not known. Pure.

    Args:
        view: the pipeline.
        children: the runs of its nodes.
        needs: the nodes that each needs, by the configuration; else by the job itself.
    """
    known = needs or view.needs
    runs = {child.node: child for child in children}
    found = []
    for name in dict.fromkeys([*known, *runs]):
        node = GraphNode(name=name, needs=tuple(known.get(name, ())), environment="")
        if (child := runs.get(name)) is not None:
            node = replace(
                node,
                status=child.status.value,
                run=child.name,
                reused=child.reused_from is not None,
                seconds=seconds_of(child),
                error=child.error or "",
            )
        found.append(node)
    return found


def chosen_metrics(metrics: Iterable[str], gated: Sequence[str]) -> list[str]:
    """Return the metrics whose curves are read, those of the gate first. Pure.

    A pipeline has the metrics of its nodes twice, as ``NODE/METRIC`` and by their bare names: one of both is left out.
    """
    known = set(metrics)
    doubled = {
        full if name in gated else name
        for name in known
        for full in ambiguous(name, known)
        if len(ambiguous(name, known)) == 1
    }
    others = sorted(known - set(gated) - doubled, key=lambda name: (name.startswith("system/"), name))
    return [*(name for name in dict.fromkeys(gated) if name in known), *others][:_READ_METRICS]


CurveSide = tuple[str, Literal["job", "baseline", "other"], Callable[[str], Sequence[MetricPoint]]]
"""Title, role, and what reads the values of a metric."""


def read_curves(
    names: Sequence[str],
    sides: Sequence[CurveSide],
    limits: Mapping[str, Sequence[float]],
) -> tuple[list[values.Curve], int]:
    """Return the curves of metrics with two steps or more, and how many are left.

    Args:
        names: the metrics.
        sides: the job first.
        limits: those of the gate, by the metric.

    Raises:
        ServiceError: the service does not answer.
    """
    found: list[values.Curve] = []

    def read(name: str) -> list[values.Series]:
        points = [(title, role, by_step([(one.step, one.value) for one in of(name)])) for title, role, of in sides]
        return [values.Series(title=title, role=role, points=values.thin(one.items())) for title, role, one in points]

    for start in range(0, len(names), 8):
        part = names[start : start + 8]
        for name, lines in zip(part, map_parallel(read, part, "curves"), strict=True):
            if len(lines[0].points) > 1:
                drawn = tuple(line for line in lines if line.points)
                found.append(values.Curve(metric=name, series=drawn, limits=tuple(limits.get(name, ()))))
        if len(found) >= MOST_CURVES:
            return found[:MOST_CURVES], len(names) - start - len(part) + len(found) - MOST_CURVES
    return found, 0


def recorded_rules(
    tags: Mapping[str, str], histories: Callable[[str], Sequence[MetricPoint]]
) -> Iterator[RuleVerdict]:
    """Yield the rules of the verdict in the tags of a job or a model, each checked with the job's metrics.

    Raises:
        ServiceError: the service does not answer.
    """
    for rule in read_recorded(tags.get(Tag.RULES, "")):
        label, stopped = f"{rule.metric} {rule.rule}: ", tags.get(Tag.STOPPED, "")
        if stopped.startswith(label):
            yield replace(rule, reason=f"the job was stopped for it: {stopped.removeprefix(label)}")
            continue
        fault = fault_of_rule(rule, {rule.metric: histories(rule.metric)})
        reason = f"recorded with the verdict{'' if fault is None else f'; {fault}'}"
        yield replace(rule, reason=reason)
