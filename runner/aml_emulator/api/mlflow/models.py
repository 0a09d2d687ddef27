"""MLflow's model registry over ARM's models, for ``mlflow.register_model``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aml_emulator.api.errors import MlflowError
from aml_emulator.api.mlflow.experiments import PAIRS, mlflow_routes, pairs, tags_view
from aml_emulator.api.routing import Answers, Call, Route
from aml_emulator.api.shapes import USER, millis
from aml_emulator.context import Context
from aml_emulator.domain import InvalidError, locate_model
from aml_emulator.schema import TEXT, WORD, Fields
from aml_emulator.store import AssetVersion


def routes(context: Context) -> Sequence[Route]:
    """Return the routes of the model registry, under both of AzureML's prefixes."""
    registry = ModelRegistry(context)
    return mlflow_routes(
        ("POST", "registered-models/create", registry.create_model),
        ("GET", "registered-models/get", registry.get_model),
        ("POST", "model-versions/create", registry.create_version),
        ("GET", "model-versions/get", registry.get_version),
        ("GET", "model-versions/get-download-uri", registry.download_uri),
        ("POST", "model-versions/set-tag", registry.set_tag),
        ("DELETE", "model-versions/delete-tag", registry.delete_tag),
    )


class ModelRegistry(Answers):
    """Answers for registered models."""

    def create_model(self, call: Call) -> dict[str, Any]:
        """Make a name known."""
        body = call.json(Fields({"name": WORD, "tags": PAIRS, "description": TEXT}))
        name = str(body.get("name") or "")
        if not name:
            raise MlflowError(400, "INVALID_PARAMETER_VALUE", "A model needs a name.")
        store = self._context.store.assets
        if store.container("models", name) is not None:
            raise MlflowError(400, "RESOURCE_ALREADY_EXISTS", f"The model '{name}' exists already.")
        store.put_container("models", name, {"tags": pairs(body.get("tags")), "description": body.get("description")})
        return {"registered_model": self._model(name)}

    def get_model(self, call: Call) -> dict[str, Any]:
        """Return a model with its newest version."""
        return {"registered_model": self._model(call.query.get("name", ""))}

    def create_version(self, call: Call) -> dict[str, Any]:
        """Register the files at a source as the next version of a model."""
        fields = {"name": WORD, "source": WORD, "tags": PAIRS, "description": TEXT, "run_id": TEXT}
        body = call.json(Fields(fields))
        name, source = str(body.get("name") or ""), str(body.get("source") or "")
        self._model(name)
        try:
            located = {"jobName": body.get("run_id"), **locate_model(self._context, source)}
        except InvalidError as error:
            raise MlflowError(400, "INVALID_PARAMETER_VALUE", error.message) from error
        store = self._context.store.assets
        properties = {
            **located,
            "modelType": "mlflow_model",
            "tags": pairs(body.get("tags")),
            "description": body.get("description"),
        }
        with self._context.store.transaction():
            stored = store.put("models", name, store.next_version("models", name), properties)
        return {"model_version": _version(stored)}

    def get_version(self, call: Call) -> dict[str, Any]:
        """Return one version."""
        return {"model_version": _version(self._known(call.query))}

    def download_uri(self, call: Call) -> dict[str, Any]:
        """Return the address of a version's files."""
        return {"artifact_uri": self._known(call.query).properties["modelUri"]}

    def set_tag(self, call: Call) -> dict[str, Any]:
        """Set a tag of a version."""
        body = call.json(Fields({"name": WORD, "version": WORD, "key": WORD, "value": WORD}, required=("key",)))
        self._tag(self._known(body), {str(body["key"]): str(body.get("value", ""))})
        return {}

    def delete_tag(self, call: Call) -> dict[str, Any]:
        """Remove a tag of a version."""
        body = {**call.query, **call.json(Fields({"name": WORD, "version": WORD, "key": WORD}))}
        self._tag(self._known(body), {str(body.get("key")): None})
        return {}

    def _tag(self, version: AssetVersion, changes: Mapping[str, str | None]) -> None:
        tags = {**(version.properties.get("tags") or {}), **changes}
        kept = {key: value for key, value in tags.items() if value is not None}
        self._context.store.assets.put("models", version.name, version.version, {**version.properties, "tags": kept})

    def _known(self, names: Mapping[str, Any]) -> AssetVersion:
        name, number = str(names.get("name", "")), str(names.get("version", ""))
        version = self._context.store.assets.version("models", name, number)
        if version is None:
            raise MlflowError(404, "RESOURCE_DOES_NOT_EXIST", f"There is no model '{name}', version '{number}'.")
        return version

    def _model(self, name: str) -> dict[str, Any]:
        store = self._context.store.assets
        container = store.container("models", name)
        if container is None:
            raise MlflowError(404, "RESOURCE_DOES_NOT_EXIST", f"There is no model '{name}'.")
        newest = store.versions("models", name)[:1]
        return {
            "name": name,
            "creation_timestamp": millis(container.created),
            "last_updated_timestamp": millis(container.modified),
            "description": container.properties.get("description") or "",
            "latest_versions": [_version(version) for version in newest],
            "tags": tags_view(container.properties.get("tags") or {}),
        }


def _version(version: AssetVersion) -> dict[str, Any]:
    return {
        "name": version.name,
        "version": version.version,
        "creation_timestamp": millis(version.created),
        "last_updated_timestamp": millis(version.modified),
        "user_id": USER,
        "current_stage": "None",
        "description": version.properties.get("description") or "",
        "source": version.properties.get("modelUri"),
        "run_id": version.properties.get("jobName") or "",
        "status": "READY",
        "tags": tags_view(version.properties.get("tags") or {}),
    }
