"""The pages of a run: all of it, a metric, a log, a file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from azure.core.exceptions import ResourceNotFoundError

from aml_emulator.api import Call
from aml_emulator.context import Context
from aml_emulator.domain import NotFoundError, compute_name, known_run
from aml_emulator.page.charts import Chart, draw, text
from aml_emulator.page.composed import composed_values
from aml_emulator.page.files import gallery_of
from aml_emulator.page.gate import WORDS, gate_of_run
from aml_emulator.page.lineage import environment_of
from aml_emulator.page.logged import logged_of
from aml_emulator.page.view import Content, Document, Paging, duration, plain
from aml_emulator.store import Artifact, Metric, MetricSummary, Run

CHARTS = 12
"""Charts on one page of a run."""

VALUES = 200
"""Rows of the table of a metric's values."""

TABLE = 50
"""Rows of the table behind a chart on a run's page."""

LOG_BYTES = 256 * 1024
"""The shown part of a log: its end."""

PIECE_BYTES = 1024 * 1024
"""The most that a script is given of a log at once."""


class RunPages:
    """Shows runs."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._store = context.store

    def run(self, call: Call) -> Document:
        """Return one run with all there is to it."""
        run = known_run(self._context, call.params["run"])
        summaries = self._store.browse.metrics(run.id)
        curves = [summary for summary in summaries if summary.count > 1]
        number = call.integer("charts", 1, low=1)
        paging = Paging(page=number, size=CHARTS, total=len(curves))
        artifacts = self._store.runs.artifacts(run.id)
        logs = [item for item in artifacts if item.log]
        main = main_log(logs)
        job = run.job or {}
        compute = compute_name(run) or ""
        logged, more_logged = logged_of(self._context, run)
        return Document(
            template="run.html",
            title=run.display_name,
            section="runs",
            refresh=not run.terminal,
            values={
                "run": run,
                "job": job,
                "timeline": timeline(run, self._context.clock()),
                "latest": [
                    {"key": one.key, "value": text(one.last), "step": one.step, "count": one.count}
                    for one in summaries
                ],
                "charts": self._charts(run.id, curves[paging.offset : paging.offset + paging.size]),
                "paging": paging,
                "logged": logged,
                "more_logged": more_logged,
                "params": self._store.metrics.params(run.id),
                "inputs": _inputs(job),
                "outputs": _outputs(job, run),
                "settings": _settings(job),
                "hidden_variables": sorted(job.get("environmentVariables") or {}),
                "environment": self._environment(job),
                "compute": compute,
                "logs": logs,
                "main_log": main.path if main else "",
                # The script that keeps the page fresh has the log already.
                "log": self._tail(run, main) if main and call.query.get("log") != "no" else None,
                "waits": self._waits(run, compute),
                "tree": tree(artifacts),
                "command": job.get("command") or (job.get("trial") or {}).get("command"),
                "now": self._context.clock(),
                "sorting": {name: call.query.get(name, "") for name in ("sort", "order")},
                **composed_values(self._context, run, call),
                "models": self._store.browse.models_of(run.id),
                "gallery": gallery_of(artifacts, logged, call),
                "gate": gate_of_run(self._context, run),
                "words": WORDS,
            },
        )

    def metric(self, call: Call) -> Document:
        """Return one metric, with its chart and all of its values in pages."""
        run, key = known_run(self._context, call.params["run"]), call.query.get("key", "")
        series = self._store.browse.series(run.id, key)
        if series is None:
            raise NotFoundError(f"metric '{key}' of run '{run.id}'")
        number = call.integer("page", 1, low=1)
        paging = Paging(page=number, size=VALUES, total=series.count)
        values = self._store.browse.values(run.id, key, limit=VALUES, offset=paging.offset)
        return Document(
            template="metric.html",
            title=f"{key} of {run.display_name}",
            section="runs",
            refresh=not run.terminal,
            values={"run": run, "key": key, "chart": draw(series), "rows": _rows(values), "paging": paging},
        )

    def metric_csv(self, call: Call) -> Content:
        """Return all values of a metric: step, time in milliseconds, value."""
        run, key = known_run(self._context, call.params["run"]), call.query.get("key", "")
        values = self._store.browse.values(run.id, key, limit=-1, offset=0)
        written = io.StringIO()
        table = csv.writer(written)
        table.writerow(("step", "timestamp_ms", "value"))
        table.writerows((value.step, value.timestamp, repr(value.value)) for value in values)
        return Content(
            type="text/csv; charset=utf-8",
            body=written.getvalue().encode("utf-8"),
            headers=(attachment(f"{key.replace('/', '-')}.csv"),),
        )

    def log(self, call: Call) -> Document:
        """Return the end of a log, which grows while the run continues."""
        run = known_run(self._context, call.params["run"])
        artifact = self._artifact(run, call)
        return Document(
            template="log.html",
            title=f"{artifact.path} of {run.display_name}",
            section="runs",
            refresh=not run.terminal,
            values={"run": run, "log": self._tail(run, artifact)},
        )

    def log_text(self, call: Call) -> Content:
        """Return a log from byte ``from`` on, in whole lines while the run continues.

        ``X-Next`` is the position of the next byte.
        """
        run = known_run(self._context, call.params["run"])
        artifact = self._artifact(run, call)
        start = call.integer("from", 0, high=2**62)
        data = self._piece(run, artifact, start, PIECE_BYTES)
        if not run.terminal:
            data = whole_lines(data, most=PIECE_BYTES)
        return Content(
            type="text/plain; charset=utf-8",
            body=plain(data.decode("utf-8", "replace")).encode("utf-8"),
            headers=(("X-Next", str(start + len(data))), ("X-Status", run.status)),
            shown=True,
        )

    def file(self, call: Call) -> Content:
        """Return a file of the run as a download, so that no browser opens it as a page."""
        run = known_run(self._context, call.params["run"])
        artifact = self._artifact(run, call)
        folder = self._context.files_of(run)
        name = folder.name_of(artifact.path)
        length = self._context.blobs.size(folder.container, name)
        if length is None:
            raise NotFoundError(f"contents of '{artifact.path}' of run '{run.id}': made known, and not uploaded")
        return Content(
            type="application/octet-stream",
            body=self._context.blobs.read(folder.container, name) if call.method == "GET" else b"",
            length=length,
            headers=(attachment(artifact.path.rpartition("/")[2]),),
        )

    def _artifact(self, run: Run, call: Call) -> Artifact:
        path = call.query.get("path", "")
        found = self._store.runs.artifact(run.id, path)
        if found is None:
            raise NotFoundError(f"file '{path}' of run '{run.id}'")
        return found

    def _piece(self, run: Run, artifact: Artifact, start: int, length: int) -> bytes:
        folder = self._context.files_of(run)
        try:
            return self._context.blobs.read_range(folder.container, folder.name_of(artifact.path), start, length)
        except ResourceNotFoundError:
            return b""

    def _tail(self, run: Run, artifact: Artifact) -> dict[str, Any]:
        folder = self._context.files_of(run)
        size = self._context.blobs.size(folder.container, folder.name_of(artifact.path)) or 0
        start = max(0, size - LOG_BYTES)
        data = self._piece(run, artifact, start, LOG_BYTES)
        if start:
            # Begin with a whole line, where there is one.
            skipped = data.find(b"\n") + 1
            start, data = start + skipped, data[skipped:]
        if not run.terminal:
            data = whole_lines(data, most=LOG_BYTES)
        return {
            "path": artifact.path,
            "text": plain(data.decode("utf-8", "replace")),
            "skipped": start,
            "next": start + len(data),
        }

    def _charts(self, run_id: str, summaries: Sequence[MetricSummary]) -> list[tuple[Chart, list[dict[str, Any]]]]:
        found = []
        for summary in summaries:
            series = self._store.browse.series(run_id, summary.key)
            if series is not None:
                values = self._store.browse.values(run_id, summary.key, limit=TABLE, offset=0)
                found.append((draw(series), _rows(values)))
        return found

    def _waits(self, run: Run, compute: str) -> str:
        """Return a job's place in its cluster's queue, empty if it does not wait."""
        view = self._context.fleet.view(compute) if compute and run.status in ("Starting", "Queued") else None
        if view is None or run.id not in view.queue:
            return ""
        return f"place {view.queue.index(run.id) + 1} of {len(view.queue)} in the queue of {compute}"

    def _environment(self, job: Mapping[str, Any]) -> dict[str, str]:
        """Return the environment's name, version and image, as far as they are known."""
        given, known = str(job.get("environmentId") or ""), environment_of(self._context, job)
        if known is None:
            return {"id": given, "name": "", "version": "", "image": ""}
        image = str(known.properties.get("image") or "")
        return {"id": given, "name": known.name, "version": known.version, "image": image}


def main_log(logs: Sequence[Artifact]) -> Artifact | None:
    """Return the first shown log: the command's, else the image build's, else any."""
    for folder in ("user_logs/", "azureml-logs/", ""):
        found = next((log for log in logs if log.path.startswith(folder)), None)
        if found is not None:
            return found
    return None


@dataclass(frozen=True, kw_only=True)
class Moment:
    """An event of a run, its time in seconds since the epoch, and the time after it."""

    what: str
    at: float
    then: str = ""


def timeline(run: Run, now: float) -> list[Moment]:
    """Return what happened to a run, in order."""
    reached = [("Created", run.created, "waited")]
    if run.started is not None:
        reached.append(("Started", run.started, "ran"))
    if run.ended is not None:
        reached.append((run.status, run.ended, ""))
    found = []
    for number, (what, at, word) in enumerate(reached):
        following = reached[number + 1][1] if number + 1 < len(reached) else None
        then = ""
        if following is not None:
            then = f"{word} {duration(following - at)}"
        elif run.ended is None:
            then = f"{run.status} for {duration(now - at)}"
        found.append(Moment(what=what, at=at, then=then))
    return found


def whole_lines(data: bytes, *, most: int) -> bytes:
    """Return data up to its last line end, or all of *most* bytes without one."""
    end = data.rfind(b"\n") + 1
    return data if not end and len(data) >= most else data[:end]


def attachment(name: str) -> tuple[str, str]:
    """Return the header that makes a browser save a file under *name* (RFC 6266)."""
    ascii_name = "".join(letter if letter.isascii() and letter.isprintable() else "_" for letter in name)
    ascii_name = ascii_name.replace('"', "_").replace("\\", "_") or "file"
    return "Content-Disposition", f"attachment; filename=\"{ascii_name}\"; filename*=UTF-8''{quote(name, safe='')}"


def _rows(values: Sequence[Metric]) -> list[dict[str, Any]]:
    return [{"step": one.step, "at": one.timestamp / 1000, "value": text_exactly(one.value)} for one in values]


def text_exactly(value: float) -> str:
    """Return a number with all of its digits; NaN and infinities by their names."""
    short = text(value)
    return short if short in ("NaN", "∞", "-∞") else repr(value)


def _inputs(job: Mapping[str, Any]) -> list[dict[str, str]]:
    return [
        {
            "name": name,
            "type": str(given.get("jobInputType") or ""),
            "mode": str(given.get("mode") or ""),
            "value": str(given.get("uri") or given.get("value") or ""),
        }
        for name, given in sorted((job.get("inputs") or {}).items())
        if isinstance(given, Mapping)
    ]


def _outputs(job: Mapping[str, Any], run: Run) -> list[dict[str, str]]:
    declared = job.get("outputs") or {}
    found = []
    for name, place in sorted(run.outputs.items()):
        given = declared.get(name) or {}
        found.append(
            {
                "name": name,
                "type": str(place.get("kind") or ""),
                "mode": str(given.get("mode") or ""),
                "place": f"{place.get('container')}/{place.get('prefix')}",
                "stored": "yes" if place.get("stored") else "not yet" if not run.terminal else "no",
            }
        )
    return found


def _settings(job: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return further settings of the job, as JSON."""
    shown = (
        "codeId",
        "resources",
        "limits",
        "distribution",
        "services",
        "queueSettings",
        "identity",
        "objective",
        "samplingAlgorithm",
        "searchSpace",
        "earlyTermination",
        "settings",
    )
    return [
        (name, job[name] if isinstance(job[name], str) else json.dumps(job[name], ensure_ascii=False, sort_keys=True))
        for name in shown
        if job.get(name)
    ]


SHOWN = 2000
"""So many files are shown; a run may have any number."""

DEPTH = 12
"""Folders below this depth are written as part of the file's name."""


@dataclass(kw_only=True)
class Folder:
    """A folder of a run's files."""

    name: str
    folders: dict[str, Folder] = field(default_factory=dict)
    files: list[tuple[str, Artifact]] = field(default_factory=list)
    count: int = 0


@dataclass(frozen=True, kw_only=True)
class Tree:
    """The files of a run: the first of them as a tree, and how many there are in all."""

    root: Folder
    shown: int
    total: int


def tree(artifacts: Sequence[Artifact]) -> Tree:
    """Return files as a tree, in the order of their paths."""
    root = Folder(name="")
    shown = artifacts[:SHOWN]
    for artifact in shown:
        *above, name = artifact.path.split("/", DEPTH)
        place = root
        place.count += 1
        for part in above:
            place = place.folders.setdefault(part, Folder(name=part))
            place.count += 1
        place.files.append((name, artifact))
    return Tree(root=root, shown=len(shown), total=len(artifacts))
