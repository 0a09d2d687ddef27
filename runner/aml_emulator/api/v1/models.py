"""The model service of azureml-core, ``/modelmanagement/v1.0``: the same models that azure-ai-ml and MLflow register.

A client first makes an asset, a list of prefixes of artifacts, and then a model of it. Models that the others registered
have an asset as well, which is told from where their files lie.
"""

from __future__ import annotations

import posixpath
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from aml_emulator.api.bodies import TEXT, WORD, WORDS, Fields, ListOf
from aml_emulator.api.routing import Call, Reply, Route
from aml_emulator.api.shapes import USER, iso
from aml_emulator.context import Services
from aml_emulator.errors import NotSupportedError, ServiceError, bad_request
from aml_emulator.executor.spec import Folder
from aml_emulator.store.assets import AssetVersion

ASSETS = "v1-assets"
"""The kind under which assets are kept, by their ids."""

MODELS = "v1-models"
"""The kind under which is kept what azureml-core alone says of a model, by ``name:version``."""

PREFIX = "aml://asset/"
PAGE = 500

OWN_FIELDS = (
    "framework",
    "frameworkVersion",
    "url",
    "mimeType",
    "unpack",
    "experimentName",
    "datasets",
    "sampleInputData",
    "sampleOutputData",
    "resourceRequirements",
)
"""What azureml-core says of a model and the others have no place for."""

PATCHED = {"kvTags": "tags", "properties": "properties", "description": "description"}
"""What may be changed of a model, and what azure-ai-ml calls it; of `OWN_FIELDS`, all but where its files are."""


MODEL = Fields(
    {"name": WORD, "url": WORD, "kvTags": WORDS, "properties": WORDS, "description": TEXT, "runId": TEXT}
    | dict.fromkeys(("framework", "frameworkVersion", "mimeType", "experimentName"), TEXT)
)


def routes(services: Services) -> Sequence[Route]:
    """Return the routes of models and of their assets."""
    models = Models(services)
    base = "/modelmanagement/v1.0{WS}"
    return (
        Route(method="POST", path=f"{base}/assets", handler=models.create_asset),
        Route(method="GET", path=f"{base}/assets/{{id}}", handler=models.asset),
        Route(method="POST", path=f"{base}/models", handler=models.register),
        Route(method="GET", path=f"{base}/models", handler=models.list),
        Route(method="GET", path=f"{base}/models/{{id}}", handler=models.get),
        Route(method="PATCH", path=f"{base}/models/{{id}}", handler=models.patch),
        Route(method="DELETE", path=f"{base}/models/{{id}}", handler=models.delete),
    )


class Models:
    """Answers for models and their assets."""

    def __init__(self, services: Services) -> None:
        self._services = services

    # Assets

    def create_asset(self, call: Call) -> dict[str, Any]:
        """Keep which artifacts belong together."""
        given = call.json(Fields({"artifacts": ListOf(Fields({"prefix": WORD, "id": WORD}))}))
        if not given.get("artifacts"):
            raise bad_request("An asset has artifacts.")
        asset = {**given, "id": str(uuid.uuid4()), "createdTime": iso(self._services.clock())}
        self._services.store.assets.put_container(ASSETS, asset["id"], asset)
        return asset

    def asset(self, call: Call) -> dict[str, Any]:
        """Return an asset; that of a model which another client registered goes by the model's own id."""
        kept = self._services.store.assets.container(ASSETS, call.params["id"])
        if kept is not None:
            return dict(kept.properties)
        version = self._known(call)
        folder = self._services.folder(str(version.properties["modelUri"]))
        return {
            "id": call.params["id"],
            "name": version.name,
            "artifacts": [{"prefix": self._prefix_of(folder)}],
            "createdTime": iso(version.created),
        }

    def _prefix_of(self, folder: Folder) -> str:
        """Return by what prefix the artifact service finds a folder.

        Raises:
            ServiceError: 501 for a place that it has no prefix for.
        """
        if folder.container == self._services.identity.artifact_container:
            return folder.prefix
        for datastore in self._services.all_datastores():
            if datastore.container == folder.container:
                return f"{datastore.name}/{folder.prefix}"
        raise NotSupportedError(f"models in the container '{folder.container}' for azureml-core")

    def _place_of(self, asset: Mapping[str, Any]) -> str:
        """Return the address of an asset's files: the folder that all of them lie in, or the one file."""
        prefixes = [str(one.get("prefix") or one.get("id") or "").strip("/") for one in asset["artifacts"]]
        common = prefixes[0] if len(prefixes) == 1 else posixpath.commonpath(prefixes)
        container = self._services.identity.artifact_container
        own = [one for one in self._services.all_datastores() if common.startswith(f"{one.name}/")]
        if own:
            container, common = own[0].container, common.removeprefix(f"{own[0].name}/")
        folder = Folder(container=container, prefix=common)
        return self._services.datastore_uri(folder) or self._services.blobs.url(container, common)

    # Models

    def register(self, call: Call) -> dict[str, Any]:
        """Register the next version of a model, of an asset's artifacts."""
        given, assets = call.json(MODEL), self._services.store.assets
        name, url = str(given.get("name") or ""), str(given.get("url") or "")
        asset = assets.container(ASSETS, url.removeprefix(PREFIX)) if url.startswith(PREFIX) else None
        if not name or asset is None:
            raise bad_request(f"A model has a name and the url of an asset, not '{url}'.")
        properties = {
            "tags": {key: str(value) for key, value in (given.get("kvTags") or {}).items()},
            "properties": {key: str(value) for key, value in (given.get("properties") or {}).items()},
            "description": given.get("description"),
            "isArchived": False,
            "isAnonymous": False,
            "modelUri": self._place_of(asset.properties),
            "modelType": "custom_model",
            "flavors": {},
            **({"jobName": given["runId"]} if given.get("runId") else {}),
        }
        with self._services.store.transaction():
            version = assets.next_version("models", name)
            stored = assets.put("models", name, version, properties)
            assets.put_container(MODELS, f"{name}:{version}", {key: given.get(key) for key in OWN_FIELDS})
        return self._view(stored)

    def list(self, call: Call) -> dict[str, Any]:
        """Return models, newest first, in pages; versions that are no numbers have no place in azureml-core."""
        query = {key.lower(): value for key, value in call.query.items()}
        if query.get("datasetid"):
            raise NotSupportedError("listing models by dataset")
        found = [
            version
            for version in reversed(self._services.store.assets.all_versions("models"))
            if version.version.isdecimal() and not version.properties.get("isArchived")
        ]
        name, run = query.get("name"), query.get("runid")
        found = [one for one in found if name in (None, one.name)]
        found = [one for one in found if run is None or one.properties.get("jobName") == run]
        found = [one for one in found if _has(one.properties.get("tags"), query.get("tags") or query.get("tag"))]
        found = [one for one in found if _has(one.properties.get("properties"), query.get("properties"))]
        if query.get("framework"):
            found = [one for one in found if self._view(one)["framework"] == query["framework"]]
        if query.get("latestversiononly", "").lower() == "true":
            found = list({one.name: one for one in reversed(found)}.values())
        skip, size = call.integer("$skipToken", 0), call.integer("count", PAGE, low=1, high=PAGE)
        more = len(found) > skip + size
        next_link = f"https://{call.host}{call.path}?%24skipToken={skip + size}&count={size}" if more else None
        if next_link:
            kept = {key: value for key, value in call.query.items() if key not in ("$skipToken", "count")}
            next_link += "".join(f"&{key}={value}" for key, value in kept.items())
        return {"value": [self._view(one) for one in found[skip : skip + size]], "nextLink": next_link}

    def get(self, call: Call) -> dict[str, Any]:
        """Return one model."""
        return self._view(self._known(call))

    def patch(self, call: Call) -> dict[str, Any]:
        """Change tags, properties, description and what a model was made of, by a JSON patch (RFC 6902)."""
        operations = call.value(ListOf(Fields({"path": WORD, "op": WORD})), [])
        with self._services.store.transaction():
            known = self._known(call)
            properties, own = dict(known.properties), self._own(known)
            for operation in operations:
                field, action = str(operation.get("path") or "").lstrip("/"), operation.get("op")
                value = None if action == "remove" else operation.get("value")
                if action not in ("add", "replace", "remove"):
                    raise NotSupportedError(f"the operation '{action}' on a model's {field}")
                if field in PATCHED:
                    properties[PATCHED[field]] = value if field == "description" else _texts(value)
                elif field in OWN_FIELDS and field not in ("url", "unpack"):
                    own[field] = value
                else:
                    raise bad_request(f"A model's '{field}' cannot be changed.")
            stored = self._services.store.assets.put("models", known.name, known.version, properties)
            self._services.store.assets.put_container(MODELS, f"{known.name}:{known.version}", own)
        return self._view(stored)

    def delete(self, call: Call) -> Reply:
        """Delete one version; its files stay."""
        known = self._known(call)
        with self._services.store.transaction():
            self._services.store.assets.delete_version("models", known.name, known.version)
            self._services.store.assets.delete(MODELS, f"{known.name}:{known.version}")
        return Reply(status=200)

    def _known(self, call: Call) -> AssetVersion:
        name, _, version = call.params["id"].rpartition(":")
        known = self._services.store.assets.version("models", name, version)
        if known is None:
            # The client tells what is not there by the status in the body.
            raise _ModelNotFoundError(call.params["id"])
        return known

    def _own(self, version: AssetVersion) -> dict[str, Any]:
        kept = self._services.store.assets.container(MODELS, f"{version.name}:{version.version}")
        return {} if kept is None else dict(kept.properties)

    def _view(self, version: AssetVersion) -> dict[str, Any]:
        properties, own = version.properties, self._own(version)
        identifier = f"{version.name}:{version.version}"
        return {
            "id": identifier,
            "name": version.name,
            "version": int(version.version),
            "framework": own.get("framework") or "Custom",
            "frameworkVersion": own.get("frameworkVersion"),
            "kvTags": dict(properties.get("tags") or {}),
            "properties": dict(properties.get("properties") or {}),
            "url": own.get("url") or f"{PREFIX}{identifier}",
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
        run = self._services.store.runs.get(str(properties.get("jobName") or ""))
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


def _texts(value: Any) -> dict[str, str]:
    if not isinstance(value, dict | None):
        raise bad_request("Tags and properties are objects.")
    return {str(key): str(item) for key, item in (value or {}).items()}


def _has(given: Any, wanted: str | None) -> bool:
    """Return whether tags or properties hold all of ``name`` or ``name=value``, which commas part."""
    for term in filter(None, (wanted or "").split(",")):
        name, equals, value = term.partition("=")
        if name not in (given or {}) or (equals and given[name] != value):
            return False
    return True
