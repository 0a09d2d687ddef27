"""MLflow's experiments, which are those of the jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aml_emulator.api.errors import MlflowError
from aml_emulator.api.mlflow.search import EXPERIMENTS, Searchable, Value, find
from aml_emulator.api.routing import Answers, Call, Handler, Route, in_transaction
from aml_emulator.api.shapes import cut, millis
from aml_emulator.context import Context
from aml_emulator.schema import TEXT, WHOLE, WORD, Fields, ListOf
from aml_emulator.store.runs import Experiment

MAX_EXPERIMENTS = 50_000
"""The largest page that MLflow asks for."""


PAIR = Fields({"key": WORD, "value": WORD}, required=("key",))
PAIRS = ListOf(PAIR)
"""MLflow's tags and parameters."""

SEARCH = Fields(
    {"filter": WORD, "order_by": ListOf(TEXT), "view_type": WORD, "page_token": WHOLE, "max_results": WHOLE}
)


def mlflow_routes(*operations: tuple[str, str, Handler] | tuple[str, str, Handler, str]) -> list[Route]:
    """Return the routes of operations, below both prefixes.

    Args:
        operations: method, path, handler, and a folder above ``mlflow/`` if there is one.
    """
    return [
        Route(method, f"/mlflow/{version}{{WS}}/api/2.0/{''.join(above)}mlflow/{path}", handler)
        for version in ("v2.0", "v1.0")
        for method, path, handler, *above in operations
    ]


def routes(context: Context) -> Sequence[Route]:
    """Return the routes of MLflow's experiments, under both of AzureML's prefixes."""
    experiments = Experiments(context)
    return mlflow_routes(
        ("GET", "experiments/get", experiments.get_experiment),
        ("GET", "experiments/get-by-name", experiments.get_experiment_by_name),
        ("POST", "experiments/create", experiments.create_experiment),
        ("POST", "experiments/search", experiments.search_experiments),
        ("POST", "experiments/update", experiments.update_experiment),
        ("POST", "experiments/set-experiment-tag", experiments.tag_experiment),
        ("POST", "experiments/delete", experiments.delete_experiment),
        ("POST", "experiments/restore", experiments.restore_experiment),
    )


class Experiments(Answers):
    """Answers for experiments."""

    def get_experiment(self, call: Call) -> dict[str, Any]:
        """Return an experiment by its GUID; ``0``, MLflow's default, is ``Default``."""
        return {"experiment": self._view(known_experiment(self._context, call.query.get("experiment_id", "")))}

    def get_experiment_by_name(self, call: Call) -> dict[str, Any]:
        """Return an experiment by its name."""
        name = call.query.get("experiment_name", "")
        experiment = self._context.store.runs.experiment(name)
        if experiment is None:
            raise missing(f"experiment '{name}'")
        return {"experiment": self._view(experiment)}

    @in_transaction
    def create_experiment(self, call: Call) -> dict[str, Any]:
        """Create an experiment."""
        body = call.json(Fields({"name": WORD, "tags": PAIRS}))
        name = str(body.get("name") or "")
        if not name:
            raise MlflowError(400, "INVALID_PARAMETER_VALUE", "An experiment needs a name.")
        store = self._context.store.runs
        if store.experiment(name) is not None:
            raise MlflowError(400, "RESOURCE_ALREADY_EXISTS", f"The experiment '{name}' exists already.")
        experiment = store.ensure_experiment(name)
        store.tag_experiment(experiment.id, pairs(body.get("tags")))
        return {"experiment_id": experiment.id}

    def search_experiments(self, call: Call) -> dict[str, Any]:
        """Return experiments that match a filter, by default newest first, in pages."""
        body = call.json(SEARCH)
        stages = {"DELETED_ONLY": ("deleted",), "ALL": ("active", "deleted")}.get(
            str(body.get("view_type")), ("active",)
        )
        found = find(
            [item for item in self._context.store.runs.experiments() if item.stage in stages],
            filter_text=str(body.get("filter") or ""),
            order_by=body.get("order_by") or (),
            grammar=EXPERIMENTS,
            searchable=_searchable,
        )
        start, size = int(body.get("page_token") or 0), int(body.get("max_results") or MAX_EXPERIMENTS)
        shown, following = cut(found, start, max(1, min(size, MAX_EXPERIMENTS)))
        return {"experiments": [self._view(item) for item in shown], **next_page(following)}

    @in_transaction
    def update_experiment(self, call: Call) -> dict[str, Any]:
        """Give an experiment another name."""
        body = call.json(Fields({"experiment_id": WORD, "new_name": TEXT}, required=("experiment_id", "new_name")))
        experiment = known_experiment(self._context, str(body["experiment_id"]))
        other = self._context.store.runs.experiment(body["new_name"])
        if other is not None and other.id != experiment.id:
            raise MlflowError(400, "RESOURCE_ALREADY_EXISTS", f"The experiment '{other.name}' exists already.")
        self._context.store.runs.rename_experiment(experiment.id, body["new_name"])
        return {}

    def tag_experiment(self, call: Call) -> dict[str, Any]:
        """Set a tag of an experiment."""
        body = call.json(Fields({"experiment_id": WORD, "key": WORD, "value": WORD}, required=("key",)))
        experiment = known_experiment(self._context, str(body.get("experiment_id")))
        self._context.store.runs.tag_experiment(experiment.id, {str(body["key"]): str(body.get("value", ""))})
        return {}

    def delete_experiment(self, call: Call) -> dict[str, Any]:
        """Mark an experiment as deleted; its runs stay."""
        return self._move(call, "deleted")

    def restore_experiment(self, call: Call) -> dict[str, Any]:
        """Take back the mark of a deleted experiment."""
        return self._move(call, "active")

    def _move(self, call: Call, stage: str) -> dict[str, Any]:
        body = call.json(Fields({"experiment_id": WORD}, required=("experiment_id",)))
        experiment = known_experiment(self._context, str(body["experiment_id"]))
        self._context.store.runs.move_experiment(experiment.id, stage)
        return {}

    def _view(self, experiment: Experiment) -> dict[str, Any]:
        return {
            "experiment_id": experiment.id,
            "name": experiment.name,
            "artifact_location": "",
            "lifecycle_stage": experiment.stage,
            "creation_time": millis(experiment.created),
            "last_update_time": millis(experiment.created),
            "tags": tags_view(experiment.tags),
        }


def _searchable(experiment: Experiment) -> Searchable:
    created = float(experiment.created * 1000)
    attributes: dict[str, Value] = {
        "name": experiment.name,
        "experiment_id": experiment.id,
        "creation_time": created,
        "last_update_time": created,
    }
    return Searchable(attributes=attributes, tags=experiment.tags)


def known_experiment(context: Context, guid: str) -> Experiment:
    """Return an experiment by its GUID; ``0``, MLflow's default, is ``Default``.

    Raises:
        MlflowError: there is none.
    """
    store = context.store.runs
    experiment = store.ensure_experiment("Default") if guid == "0" else store.experiment_by_id(guid)
    if experiment is None:
        raise missing(f"experiment '{guid}'")
    return experiment


def missing(what: str) -> MlflowError:
    """Return MLflow's error for something that is not there."""
    return MlflowError(404, "RESOURCE_DOES_NOT_EXIST", f"There is no {what}.")


def next_page(following: int | None) -> dict[str, str]:
    """Return the field with which MLflow's client requests the next page."""
    return {} if following is None else {"next_page_token": str(following)}


def pairs(items: list[dict[str, Any]] | None) -> dict[str, str]:
    """Return MLflow\'s list of keys and values as a mapping."""
    return {str(item["key"]): str(item.get("value", "")) for item in items or []}


def tags_view(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """Return a mapping as MLflow\'s list of keys and values."""
    return [{"key": key, "value": value} for key, value in tags.items()]
