"""The pages of a run: all of it, a log, a file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from azure.core.exceptions import ResourceNotFoundError

from aml_emulator.api.routing import Call
from aml_emulator.context import Context
from aml_emulator.domain.errors import NotFoundError
from aml_emulator.domain.jobs.composed import NODE_ID, SWEEP, composed_kind
from aml_emulator.domain.jobs.compute import compute_name
from aml_emulator.domain.jobs.sweeps.runs import BEST, HYPERPARAMETERS, objective_of
from aml_emulator.domain.runs import known_run
from aml_emulator.domain.workspace import REUSED_RUN
from aml_emulator.page.charts import Chart, Given, draw, text
from aml_emulator.page.gate import WORDS, gate_of
from aml_emulator.page.view import Content, Document, Paging, duration, plain
from aml_emulator.store.browse import MetricSummary
from aml_emulator.store.runs import Artifact, Run

CHARTS: Final = 24
"""Charts on the page of a run; the table has the last value of each metric."""

CHILDREN: Final = 200
"""Children on one page of a run."""

FILES: Final = 2000
"""So many files are listed; a run may have any number."""

LOG_BYTES: Final = 256 * 1024
"""The shown part of a log: its end."""

PIECE_BYTES: Final = 1024 * 1024
"""The most that a script is given of a log at once."""

SETTINGS: Final = (
    "codeId",
    "resources",
    "limits",
    "distribution",
    "queueSettings",
    "identity",
    "objective",
    "samplingAlgorithm",
    "searchSpace",
    "earlyTermination",
    "settings",
)
"""Settings of a job that are shown as JSON."""


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
        artifacts = self._store.runs.artifacts(run.id)
        logs = [item for item in artifacts if item.log]
        main = main_log(logs)
        job = run.job or {}
        compute = compute_name(run) or ""
        return Document(
            template="run.html",
            title=run.display_name,
            section="runs",
            refresh=not run.terminal,
            values={
                "run": run,
                "job": job,
                "lasted": lasted_of(run.started, run.ended, self._context.clock()),
                "latest": [
                    {"key": one.key, "value": text(one.last), "step": one.step, "count": one.count}
                    for one in summaries
                ],
                "charts": self._charts(run.id, curves[:CHARTS]),
                "charts_left_out": max(0, len(curves) - CHARTS),
                "params": self._store.metrics.params(run.id),
                "inputs": _inputs(job),
                "outputs": _outputs(job, run),
                "settings": _settings(job),
                "hidden_variables": sorted(job.get("environmentVariables") or {}),
                "environment": environment_of(self._context, job),
                "compute": compute,
                "logs": logs,
                "main_log": main.path if main else "",
                # The script that keeps the page fresh has the log already.
                "log": self._tail(run, main) if main and call.query.get("log") != "no" else None,
                "waits": self._waits(run, compute),
                "files": artifacts[:FILES],
                "files_left_out": max(0, len(artifacts) - FILES),
                "command": job.get("command") or (job.get("trial") or {}).get("command"),
                "parent": None if run.parent_id is None else self._store.runs.get(run.parent_id),
                "reuses": run.properties.get(REUSED_RUN, ""),
                "hyperparameters": hyperparameters_of(run),
                **self._children(run, call),
                "models": self._store.listing.models([run.id])[run.id],
                "gate": gate_of(run.tags),
                "words": WORDS,
            },
        )

    def _children(self, run: Run, call: Call) -> dict[str, Any]:
        """Return the nodes of a pipeline, the trials of a sweep, or the nested runs, and their position."""
        sweep = composed_kind(run.job) == SWEEP
        # A reused sweep has the trials of the earlier one.
        owner = run.properties.get(REUSED_RUN, run.id) if sweep else run.id
        children = self._store.runs.children(owner)
        paging = Paging(page=call.integer("children", 1, low=1), size=CHILDREN, total=len(children))
        shown = children[paging.offset : paging.offset + paging.size]
        metric = objective_of(run.job or {})[0] if sweep else ""
        values = self._store.listing.metric([child.id for child in shown], metric) if metric else {}
        return {
            "children": [
                {
                    "run": child,
                    "name": child.properties.get(NODE_ID) or child.display_name or child.id,
                    "reuses": child.properties.get(REUSED_RUN, ""),
                    "best": child.id == run.properties.get(BEST),
                    "sampled": ", ".join(f"{name} = {value}" for name, value in hyperparameters_of(child).items()),
                    "metric": text(values[child.id], digits=6) if child.id in values else "",
                    "lasted": lasted_of(child.started, child.ended, self._context.clock()),
                }
                for child in shown
            ],
            "children_metric": metric,
            "children_paging": paging,
        }

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

    def _charts(self, run_id: str, summaries: Sequence[MetricSummary]) -> list[Chart]:
        found = [(one.key, self._store.browse.series(run_id, one.key)) for one in summaries]
        return [draw(key, [Given(number=0, title=key, series=series)]) for key, series in found if series is not None]

    def _waits(self, run: Run, compute: str) -> str:
        """Return a job's place in its cluster's queue, empty if it does not wait."""
        view = self._context.fleet.view(compute) if compute and run.status in ("Starting", "Queued") else None
        if view is None or run.id not in view.queue:
            return ""
        return f"place {view.queue.index(run.id) + 1} of {len(view.queue)} in the queue of {compute}"


def environment_of(context: Context, job: Mapping[str, Any]) -> dict[str, str]:
    """Return title and image of a job's environment, as far as they are known."""
    given = str(job.get("environmentId") or "")
    name, _, version = given.partition("/environments/")[2].partition("/versions/")
    known = context.store.assets.version("environments", name, version) if version else None
    if known is None:
        return {"title": given, "image": ""}
    return {"title": f"{name}:{version}", "image": str(known.properties.get("image") or "")}


def hyperparameters_of(run: Run) -> dict[str, str]:
    """Return the hyperparameters of a trial; none of another run."""
    try:
        found = json.loads(run.properties.get(HYPERPARAMETERS, "{}"))
    except ValueError:
        # A client may give its runs any properties.
        return {}
    return {name: str(value) for name, value in found.items()} if isinstance(found, dict) else {}


def main_log(logs: Sequence[Artifact]) -> Artifact | None:
    """Return the first shown log: the command's, else the image build's, else any."""
    for folder in ("user_logs/", "azureml-logs/", ""):
        found = next((log for log in logs if log.path.startswith(folder)), None)
        if found is not None:
            return found
    return None


def lasted_of(started: float | None, ended: float | None, now: float) -> str:
    """Return how long a run has run, empty before its start."""
    return "" if started is None else duration((now if ended is None else ended) - started)


def whole_lines(data: bytes, *, most: int) -> bytes:
    """Return data up to its last line end, or all of *most* bytes without one."""
    end = data.rfind(b"\n") + 1
    return data if not end and len(data) >= most else data[:end]


def attachment(name: str) -> tuple[str, str]:
    """Return the header that makes a browser save a file under *name* (RFC 6266)."""
    return "Content-Disposition", f"attachment; filename*=UTF-8''{quote(name, safe='')}"


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
    return [
        (name, job[name] if isinstance(job[name], str) else json.dumps(job[name], ensure_ascii=False, sort_keys=True))
        for name in SETTINGS
        if job.get(name)
    ]
