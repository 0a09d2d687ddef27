"""MLflow's runs: https://mlflow.org/docs/latest/rest-api.html, over the same runs."""

from __future__ import annotations

import math
import uuid
from collections.abc import Sequence
from typing import Any

from aml_emulator.api.mlflow.experiments import (
    PAIRS,
    known_experiment,
    missing,
    mlflow_routes,
    next_page,
    pairs,
    tags_view,
)
from aml_emulator.api.mlflow.search import RUNS, Searchable, find
from aml_emulator.api.routing import Answers, Call, Reply, Route, in_transaction
from aml_emulator.api.shapes import USER, cut, millis
from aml_emulator.context import Context
from aml_emulator.domain.metrics import RUN_NAME, log_to_run, logged_by, metric_page
from aml_emulator.schema import LIST, MILLISECONDS, NUMBER, TEXT, WHOLE, WORD, Fields, ListOf, Shape
from aml_emulator.store.metrics import Metric
from aml_emulator.store.runs import Run

STATUS = {
    "NotStarted": "SCHEDULED",
    "Queued": "SCHEDULED",
    "Preparing": "SCHEDULED",
    "Starting": "SCHEDULED",
    "Running": "RUNNING",
    "CancelRequested": "RUNNING",
    "Finalizing": "RUNNING",
    "Completed": "FINISHED",
    "Failed": "FAILED",
    "Canceled": "KILLED",
}
"""MLflow's word for each of AzureML's."""

ENDINGS = {"FINISHED": "Completed", "FAILED": "Failed", "KILLED": "Canceled"}

MAX_HISTORY = 25_000
MAX_RUNS = 50_000


METRIC = {"key": WORD, "value": NUMBER, "timestamp": MILLISECONDS, "step": WHOLE}

SEARCH = Fields(
    {
        "filter": WORD,
        "run_view_type": WORD,
        "experiment_ids": ListOf(WORD),
        "order_by": ListOf(TEXT),
        "page_token": WHOLE,
        "max_results": WHOLE,
    }
)


def routes(context: Context) -> Sequence[Route]:
    """Return the routes of MLflow's runs, under both versions of AzureML's prefix."""
    tracking = Tracking(context)
    return mlflow_routes(
        ("POST", "runs/create", tracking.create_run),
        ("GET", "runs/get", tracking.get_run),
        ("POST", "runs/update", tracking.update_run),
        ("POST", "runs/delete", tracking.delete_run),
        ("POST", "runs/restore", tracking.restore_run),
        ("POST", "runs/search", tracking.search_runs),
        ("POST", "runs/set-tag", tracking.set_tag),
        ("POST", "runs/delete-tag", tracking.delete_tag),
        ("POST", "runs/log-parameter", tracking.log_parameter),
        ("POST", "runs/log-metric", tracking.log_metric),
        ("POST", "runs/log-batch", tracking.log_batch),
        ("POST", "runs/log-model", tracking.log_model),
        ("POST", "runs/log-inputs", tracking.accept),
        ("POST", "runs/outputs", tracking.accept),
        ("GET", "metrics/get-history", tracking.history),
        ("POST", "logged-models", tracking.logged_models),
        *((method, "logged-models/{path*}", tracking.logged_models) for method in ("GET", "POST", "PATCH", "DELETE")),
        ("POST", "runs/log-batch-async", tracking.log_batch_async, "preview/"),
        ("GET", "runs/get-run-data-status", tracking.data_status, "preview/"),
    )


class Tracking(Answers):
    """Answers for runs and what they log."""

    @in_transaction
    def create_run(self, call: Call) -> dict[str, Any]:
        """Start a run outside of any job, or a child of the run in a tag."""
        fields = {"experiment_id": WORD, "tags": PAIRS, "run_name": WORD, "start_time": MILLISECONDS}
        body = call.json(Fields(fields))
        experiment = known_experiment(self._context, str(body.get("experiment_id") or "0"))
        tags = pairs(body.get("tags"))
        parent = tags.get("mlflow.parentRunId")
        if parent is not None and self._context.store.runs.get(parent) is None:
            raise missing(f"run '{parent}'")
        run_id = str(uuid.uuid4())
        started = body.get("start_time")
        run = self._context.store.runs.create(
            run_id=run_id,
            experiment_id=experiment.id,
            display_name=str(body.get("run_name") or tags.get(RUN_NAME) or run_id),
            status="Running",
            parent_id=parent,
            tags={key: value for key, value in tags.items() if key != RUN_NAME},
            started=int(started) / 1000 if started else self._context.clock(),
        )
        return {"run": self._view(run)}

    def get_run(self, call: Call) -> dict[str, Any]:
        """Return a run with its latest metrics, parameters and tags."""
        return {"run": self._view(self._run(call.query.get("run_id") or call.query.get("run_uuid", "")))}

    @in_transaction
    def update_run(self, call: Call) -> dict[str, Any]:
        """Rename a run, or end it; how a job ends is for the service to say."""
        body = call.json(_of_run(run_name=WORD, status=WORD, end_time=MILLISECONDS))
        run = self._body_run(body)
        store = self._context.store.runs
        if body.get("run_name"):
            store.change(run.id, display_name=str(body["run_name"]))
        ending = ENDINGS.get(str(body.get("status")))
        if ending is not None and run.job is None:
            ended = body.get("end_time")
            store.finish(run.id, ending, ended=int(ended) / 1000 if ended else None)
        return {"run_info": self._view(store.require(run.id))["info"]}

    @in_transaction
    def delete_run(self, call: Call) -> dict[str, Any]:
        """Hide a run."""
        self._context.store.runs.change(self._body_run(call.json(_of_run())).id, deleted=True)
        return {}

    @in_transaction
    def restore_run(self, call: Call) -> dict[str, Any]:
        """Show a hidden run again."""
        self._context.store.runs.change(self._body_run(call.json(_of_run())).id, deleted=False)
        return {}

    def search_runs(self, call: Call) -> dict[str, Any]:
        """Return runs of experiments that match a filter, in pages."""
        body = call.json(SEARCH)
        hidden = {"ACTIVE_ONLY": (False,), "DELETED_ONLY": (True,)}.get(
            str(body.get("run_view_type") or "ACTIVE_ONLY"), (False, True)
        )
        guids = tuple(str(guid) for guid in body.get("experiment_ids") or [])
        found = find(
            [run for run in self._context.store.runs.runs_of(guids) if run.deleted in hidden],
            filter_text=str(body.get("filter") or ""),
            order_by=body.get("order_by") or (),
            grammar=RUNS,
            searchable=self._searchable,
        )
        size = min(int(body.get("max_results") or 1000), MAX_RUNS)
        shown, following = cut(found, int(body.get("page_token") or 0), size)
        return {"runs": [self._view(run) for run in shown], **next_page(following)}

    def set_tag(self, call: Call) -> dict[str, Any]:
        """Set a tag; ``mlflow.runName`` is the run's name."""
        body = call.json(_of_run("key", key=WORD, value=WORD))
        return self._log(body, tags=pairs([body]))

    @in_transaction
    def delete_tag(self, call: Call) -> dict[str, Any]:
        """Remove a tag."""
        body = call.json(_of_run("key", key=WORD))
        run = self._body_run(body)
        key = str(body.get("key"))
        if key not in run.tags:
            raise missing(f"tag '{key}' of run '{run.id}'")
        self._context.store.runs.tag(run.id, {key: None})
        return {}

    # Metrics, parameters and tags of runs

    def log_parameter(self, call: Call) -> dict[str, Any]:
        """Set a parameter."""
        body = call.json(_of_run("key", key=WORD, value=WORD))
        return self._log(body, params=list(pairs([body]).items()))

    def log_metric(self, call: Call) -> dict[str, Any]:
        """Log one value of a metric."""
        body = call.json(_of_run("key", **METRIC), not_finite=True)
        return self._log(body, metrics=[self._metric(body)])

    def log_batch(self, call: Call) -> dict[str, Any]:
        """Log many metrics, parameters and tags: all of them or none."""
        metric = Fields(METRIC, required=("key",))
        shape = _of_run(metrics=ListOf(metric), params=PAIRS, tags=PAIRS)
        body = call.json(shape, not_finite=True)
        return self._log(
            body,
            metrics=[self._metric(item) for item in body.get("metrics") or []],
            params=[(str(item["key"]), str(item.get("value", ""))) for item in body.get("params") or []],
            tags=pairs(body.get("tags")),
        )

    def log_batch_async(self, call: Call) -> dict[str, Any]:
        """Log as `log_batch` does, and return an id to poll if there are metrics.

        Only metrics have one, "as params and tags are persisted in sync fashion always" (azureml-mlflow 1.62,
        ``azureml/mlflow/_store/tracking/store.py``, which declares this operation and the next one).
        """
        self.log_batch(call)
        metrics = call.json(Fields({"metrics": LIST}), not_finite=True).get("metrics")
        return {"batch_tracking_id": str(uuid.uuid4()) if metrics else ""}

    def data_status(self, call: Call) -> dict[str, Any]:
        """Return that logged metrics are stored: acknowledged ones always are."""
        self._run(call.query.get("run_id", ""))
        return {"is_complete": True}

    @in_transaction
    def log_model(self, call: Call) -> dict[str, Any]:
        """Record that a model was logged, where MLflow keeps it: in a tag of the run."""
        body = call.json(_of_run(model_json=WORD))
        run = self._body_run(body)
        before = run.tags.get("mlflow.log-model.history", "[]")
        entry = str(body.get("model_json") or "{}")
        history = f"[{entry}]" if before == "[]" else f"{before[:-1]},{entry}]"
        self._context.store.runs.tag(run.id, {"mlflow.log-model.history": history})
        return {}

    def accept(self, call: Call) -> dict[str, Any]:
        """Take note of a run's input data sets or output models; they are shown nowhere."""
        self._body_run(call.json(_of_run()))
        return {}

    def history(self, call: Call) -> dict[str, Any]:
        """Return all values of a metric, in pages."""
        run = self._run(call.query.get("run_id") or call.query.get("run_uuid", ""))
        limit = call.integer("max_results", MAX_HISTORY, low=1, high=MAX_HISTORY)
        after = call.integer("page_token", 0, high=2**62)
        key = call.query.get("metric_key", "")
        metrics, following = metric_page(self._context, run, key, limit=limit, after=after)
        return {"metrics": [_metric_view(metric) for metric in metrics], **next_page(following)}

    def logged_models(self, call: Call) -> Reply:
        """Answer as AzureML does: it has no logged models, and its 404 has no body.

        As reported in https://github.com/Azure/azure-sdk-for-python/issues/44896 (January 2026), and still so in
        https://github.com/Azure/azureml-examples/pull/3902 (May 2026).
        """
        return Reply(status=404)

    def _log(self, body: dict[str, Any], **what: Any) -> dict[str, Any]:
        with self._context.store.transaction():
            log_to_run(self._context, self._body_run(body), **what)
        return {}

    def _metric(self, item: dict[str, Any]) -> Metric:
        return Metric(
            key=str(item["key"]),
            value=float(item.get("value") or 0),
            timestamp=int(item.get("timestamp") or self._context.clock() * 1000),
            step=int(item.get("step") or 0),
        )

    def _body_run(self, body: dict[str, Any]) -> Run:
        return self._run(str(body.get("run_id") or body.get("run_uuid") or ""))

    def _run(self, run_id: str) -> Run:
        run = self._context.store.runs.get(run_id)
        if run is None:
            raise missing(f"run '{run_id}'")
        return run

    def _view(self, run: Run) -> dict[str, Any]:
        logged = logged_by(self._context, run)
        return {
            "info": {
                "run_id": run.id,
                "run_uuid": run.id,
                "run_name": run.display_name,
                "experiment_id": run.experiment_id,
                "user_id": USER,
                "status": STATUS[run.status],
                "start_time": millis(run.started or run.created),
                "end_time": millis(run.ended),
                "lifecycle_stage": "deleted" if run.deleted else "active",
                "artifact_uri": self._artifacts(run),
            },
            "data": {
                "metrics": [_metric_view(metric) for metric in logged.metrics],
                "params": tags_view(logged.params),
                "tags": tags_view({**_own_tags(run), **run.tags}),
            },
            "inputs": {},
        }

    def _searchable(self, run: Run) -> Searchable:
        logged = logged_by(self._context, run)
        return Searchable(
            metrics={metric.key: metric.value for metric in logged.metrics},
            params=logged.params,
            tags={**_own_tags(run), **run.tags},
            attributes={
                "run_id": run.id,
                "run_name": run.display_name,
                "status": STATUS[run.status],
                "user_id": USER,
                "artifact_uri": self._artifacts(run),
                "creation_time": millis(run.created),
                "start_time": millis(run.started or run.created),
                "end_time": millis(run.ended),
                "duration": None if run.ended is None else millis(run.ended - (run.started or run.created)),
            },
        )

    def _artifacts(self, run: Run) -> str:
        identity = self._context.identity
        return (
            f"azureml://{identity.api_host}/mlflow/v2.0{identity.workspace_arm_id}"
            f"/experiments/{run.experiment_id}/runs/{run.id}/artifacts"
        )


def _of_run(*required: str, **fields: Shape) -> Fields:
    """Return the type of a body that names a run."""
    return Fields({"run_id": WORD, "run_uuid": WORD, **fields}, required=required)


def _own_tags(run: Run) -> dict[str, str]:
    """Return the tags that a run has by itself, also one that MLflow did not make."""
    parent = {"mlflow.parentRunId": run.parent_id} if run.parent_id else {}
    return {RUN_NAME: run.display_name, "mlflow.user": USER, **parent}


def _metric_view(metric: Metric) -> dict[str, Any]:
    return {"key": metric.key, "value": _number(metric.value), "timestamp": metric.timestamp, "step": metric.step}


def _number(value: float) -> float | str:
    """Return a number in protobuf's JSON: NaN and infinities as text."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value
