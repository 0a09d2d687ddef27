"""The model service of azureml-core, ``/modelmanagement/v1.0``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aml_emulator.api.errors import ServiceError
from aml_emulator.api.routing import Answers, Call, Reply, Route, in_transaction
from aml_emulator.api.shapes import USER, address_of, cut, iso
from aml_emulator.context import Context
from aml_emulator.domain.errors import NotSupportedError
from aml_emulator.domain.models import (
    ASSET_PREFIX,
    MODEL_ASSETS,
    create_model_asset,
    delete_model,
    model_artifact_prefix,
    own_model_fields,
    patch_model,
    register_model,
)
from aml_emulator.schema import TEXT, WORD, WORDS, Fields, ListOf
from aml_emulator.store.assets import AssetContainer, AssetVersion

PAGE = 500

MODEL = Fields(
    {"name": WORD, "url": WORD, "kvTags": WORDS, "properties": WORDS, "description": TEXT, "runId": TEXT}
    | dict.fromkeys(("framework", "frameworkVersion", "mimeType", "experimentName"), TEXT)
)


def routes(context: Context) -> Sequence[Route]:
    """Return the routes of models and of their assets."""
    answers = Models(context)
    base = "/modelmanagement/v1.0{WS}"
    return (
        Route("POST", f"{base}/assets", answers.create_asset),
        Route("GET", f"{base}/assets/{{id}}", answers.asset),
        Route("POST", f"{base}/models", answers.register),
        Route("GET", f"{base}/models", answers.list),
        Route("GET", f"{base}/models/{{id}}", answers.get),
        Route("PATCH", f"{base}/models/{{id}}", answers.patch),
        Route("DELETE", f"{base}/models/{{id}}", answers.delete),
    )


class Models(Answers):
    """Answers for models and their assets."""

    # Assets

    def create_asset(self, call: Call) -> dict[str, Any]:
        """Store which artifacts belong together."""
        given = call.json(Fields({"artifacts": ListOf(Fields({"prefix": WORD, "id": WORD}))}))
        return _asset(create_model_asset(self._context, given))

    def asset(self, call: Call) -> dict[str, Any]:
        """Return an asset; another client's model is its own asset."""
        stored = self._context.store.assets.container(MODEL_ASSETS, call.params["id"])
        if stored is not None:
            return _asset(stored)
        version = self._known(call)
        return {
            "id": call.params["id"],
            "name": version.name,
            "artifacts": [{"prefix": model_artifact_prefix(self._context, version)}],
            "createdTime": iso(version.created),
        }

    # Models

    def register(self, call: Call) -> dict[str, Any]:
        """Register the next version of a model, of an asset's artifacts."""
        return self._view(register_model(self._context, call.json(MODEL)))

    def list(self, call: Call) -> dict[str, Any]:
        """Return models with numeric versions, newest first, in pages."""
        if call.option("datasetId"):
            raise NotSupportedError("listing models by dataset")
        found = [
            version
            for version in reversed(self._context.store.assets.all_versions("models"))
            if version.version.isdecimal() and not version.properties.get("isArchived")
        ]
        name, run, framework = call.option("name"), call.option("runId"), call.option("framework")
        tags, properties = call.option("tags") or call.option("tag"), call.option("properties")
        found = [one for one in found if name in ("", one.name) and run in ("", one.properties.get("jobName"))]
        found = [one for one in found if _has(one.properties.get("tags"), tags)]
        found = [one for one in found if _has(one.properties.get("properties"), properties)]
        if framework:
            found = [one for one in found if self._view(one)["framework"] == framework]
        if call.option("latestVersionOnly").lower() == "true":
            found = list({one.name: one for one in reversed(found)}.values())
        skip, size = call.integer("$skipToken", 0), call.integer("count", PAGE, low=1, high=PAGE)
        shown, following = cut(found, skip, size)
        next_link = None
        if following is not None:
            next_link = address_of(call, {"$skipToken": str(following), "count": str(size)})
        return {"value": [self._view(one) for one in shown], "nextLink": next_link}

    def get(self, call: Call) -> dict[str, Any]:
        """Return one model."""
        return self._view(self._known(call))

    @in_transaction
    def patch(self, call: Call) -> dict[str, Any]:
        """Change a model by a JSON patch (RFC 6902)."""
        operations = call.value(ListOf(Fields({"path": WORD, "op": WORD})), [])
        return self._view(patch_model(self._context, self._known(call), operations))

    def delete(self, call: Call) -> Reply:
        """Delete one version; its files stay."""
        delete_model(self._context, self._known(call))
        return Reply(status=200)

    def _known(self, call: Call) -> AssetVersion:
        name, _, version = call.params["id"].rpartition(":")
        known = self._context.store.assets.version("models", name, version)
        if known is None:
            # The client recognises a missing model by the status in the body.
            raise _ModelNotFoundError(call.params["id"])
        return known

    def _view(self, version: AssetVersion) -> dict[str, Any]:
        properties, own = version.properties, own_model_fields(self._context, version)
        identifier = f"{version.name}:{version.version}"
        return {
            "id": identifier,
            "name": version.name,
            "version": int(version.version),
            "framework": own.get("framework") or "Custom",
            "frameworkVersion": own.get("frameworkVersion"),
            "kvTags": dict(properties.get("tags") or {}),
            "properties": dict(properties.get("properties") or {}),
            "url": own.get("url") or f"{ASSET_PREFIX}{identifier}",
            "mimeType": own.get("mimeType") or "application/x-python",
            "description": properties.get("description"),
            "createdTime": iso(version.created),
            "modifiedTime": iso(version.modified),
            "unpack": bool(own.get("unpack")),
            "runId": properties.get("jobName"),
            "experimentName": own.get("experimentName") or self._experiment_of(properties),
            "datasets": own.get("datasets") or [],
            "resourceRequirements": own.get("resourceRequirements"),
            "parentModelId": None,
            "createdBy": {"userName": USER},
            "sampleInputData": own.get("sampleInputData"),
            "sampleOutputData": own.get("sampleOutputData"),
        }

    def _experiment_of(self, properties: Mapping[str, Any]) -> str | None:
        run = self._context.store.runs.get(str(properties.get("jobName") or ""))
        return run.experiment if run is not None else None


class _ModelNotFoundError(ServiceError):
    """A model that is not there, in the words of the model service."""

    def __init__(self, identifier: str) -> None:
        message = f"Model {identifier} not found."
        super().__init__(404, "NotFound", message)
        self._message = message

    def body(self) -> dict[str, Any]:
        details = [{"code": "ModelNotFound", "message": self._message}]
        return {
            "code": "NotFound",
            "statusCode": 404,
            "message": self._message,
            "details": details,
            "correlation": {},
        }


def _asset(stored: AssetContainer) -> dict[str, Any]:
    return {**stored.properties, "createdTime": iso(stored.created)}


def _has(given: Any, wanted: str) -> bool:
    """Return whether tags or properties have all terms ``name`` or ``name=value``."""
    for term in filter(None, wanted.split(",")):
        name, equals, value = term.partition("=")
        if name not in (given or {}) or (equals and given[name] != value):
            return False
    return True
