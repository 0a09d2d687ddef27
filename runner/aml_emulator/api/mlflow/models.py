"""MLflow's model registry, over ARM's models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from aml_emulator.api.errors import MlflowError
from aml_emulator.api.mlflow.experiments import PAIRS, mlflow_routes, next_page, pairs, tags_view
from aml_emulator.api.mlflow.search import MODEL_VERSIONS, REGISTERED_MODELS, Grammar, Searchable, find
from aml_emulator.api.routing import Answers, Call, Route, in_transaction
from aml_emulator.api.shapes import USER, Item, cut, millis
from aml_emulator.context import Context
from aml_emulator.domain.assets import put_container
from aml_emulator.domain.errors import NotFoundError
from aml_emulator.domain.models import (
    aliases_of,
    delete_alias,
    delete_registered_version,
    download_address,
    known_model,
    locate_model,
    move_to_stage,
    newest_in_stages,
    set_alias,
    stage_of,
    version_by_alias,
)
from aml_emulator.schema import FLAG, TEXT, WORD, Fields, ListOf
from aml_emulator.store.assets import AssetContainer, AssetVersion

MAX_RESULTS: Final = {"registered-models": (100, 1_000), "model-versions": (10_000, 200_000)}
"""By default and at most: ``SEARCH_…_MAX_RESULTS_…`` of ``mlflow/store/model_registry/__init__.py``."""

PROMPT_TAG: Final = "mlflow.prompt.is_prompt"
"""Models are searched as those that have it not: missing, it means false (``mlflow/prompt/constants.py``)."""

NAME = Fields({"name": WORD}, required=("name",))
VERSION = {"name": WORD, "version": WORD}
TAG = {"key": WORD, "value": WORD}


def routes(context: Context) -> Sequence[Route]:
    """Return the routes of the model registry, under both of AzureML's prefixes."""
    models, versions = RegisteredModels(context), ModelVersions(context)
    return mlflow_routes(
        ("POST", "registered-models/create", models.create),
        ("GET", "registered-models/get", models.get),
        ("GET", "registered-models/search", models.search),
        # The client has one after the other: mlflow/store/model_registry/rest_store.py, call_all_endpoints.
        ("POST", "registered-models/get-latest-versions", models.latest),
        ("GET", "registered-models/get-latest-versions", models.latest),
        ("PATCH", "registered-models/update", models.update),
        ("POST", "registered-models/set-tag", models.set_tag),
        ("DELETE", "registered-models/delete-tag", models.delete_tag),
        ("POST", "registered-models/alias", models.set_alias),
        ("DELETE", "registered-models/alias", models.delete_alias),
        ("GET", "registered-models/alias", models.by_alias),
        ("POST", "model-versions/create", versions.create),
        ("GET", "model-versions/get", versions.get),
        ("GET", "model-versions/search", versions.search),
        ("GET", "model-versions/get-download-uri", versions.download_uri),
        ("PATCH", "model-versions/update", versions.update),
        ("POST", "model-versions/transition-stage", versions.transition),
        ("DELETE", "model-versions/delete", versions.delete),
        ("POST", "model-versions/set-tag", versions.set_tag),
        ("DELETE", "model-versions/delete-tag", versions.delete_tag),
    )


class _Registry(Answers):
    """Base of the answers for models and for their versions."""

    def _version(self, version: AssetVersion) -> dict[str, Any]:
        aliases = aliases_of(self._context, version.name)
        return {
            "name": version.name,
            "version": version.version,
            "creation_timestamp": millis(version.created),
            "last_updated_timestamp": millis(version.modified),
            "user_id": USER,
            "current_stage": stage_of(self._context, version),
            "description": version.properties.get("description") or "",
            "source": version.properties.get("modelUri"),
            "run_id": version.properties.get("jobName") or "",
            "status": "READY",
            "tags": tags_view(version.properties.get("tags") or {}),
            "aliases": [alias for alias, number in aliases.items() if number == version.version],
        }

    @in_transaction
    def set_tag(self, call: Call) -> dict[str, Any]:
        """Set a tag of a model, or of a version."""
        body = call.json(Fields({**VERSION, **TAG}, required=("key",)))
        tags = self._known(body).properties.get("tags") or {}
        self._change(body, tags={**tags, str(body["key"]): str(body.get("value", ""))})
        return {}

    @in_transaction
    def delete_tag(self, call: Call) -> dict[str, Any]:
        """Remove a tag of a model, or of a version."""
        body = {**call.query, **call.json(Fields({**VERSION, **TAG}))}
        tags = self._known(body).properties.get("tags") or {}
        self._change(body, tags={key: value for key, value in tags.items() if key != str(body.get("key"))})
        return {}

    def _known(self, names: Mapping[str, Any]) -> AssetContainer | AssetVersion:
        return self._known_version(names)

    def _change(self, names: Mapping[str, Any], **changes: Any) -> Any:
        known = self._known_version(names)
        return self._context.store.assets.put("models", known.name, known.version, {**known.properties, **changes})

    def _known_version(self, names: Mapping[str, Any]) -> AssetVersion:
        name, number = str(names.get("name", "")), str(names.get("version", ""))
        version = self._context.store.assets.version("models", name, number)
        if version is None:
            raise NotFoundError(f"Model Version (name={name}, version={number})")
        return version

    def _searched(
        self,
        call: Call,
        kind: str,
        items: Sequence[Item],
        *,
        grammar: Grammar,
        searchable: Callable[[Item], Searchable],
    ) -> tuple[Sequence[Item], dict[str, str]]:
        """Return a page of the items found, and the field that leads to the next one."""
        default, most = MAX_RESULTS[kind]
        size, start = call.integer("max_results", default, low=1, high=most), call.integer("page_token", 0)
        found = find(
            items,
            filter_text=call.query.get("filter", ""),
            order_by=call.query.getlist("order_by"),
            grammar=grammar,
            searchable=searchable,
        )
        shown, following = cut(found, start, size)
        return shown, next_page(following)


class RegisteredModels(_Registry):
    """Answers for models as a whole: names, with what is common to their versions."""

    @in_transaction
    def create(self, call: Call) -> dict[str, Any]:
        """Make a name known."""
        body = call.json(Fields({"name": WORD, "tags": PAIRS, "description": TEXT}))
        name = str(body.get("name") or "")
        if not name:
            raise MlflowError(400, "INVALID_PARAMETER_VALUE", "A model needs a name.")
        if self._context.store.assets.container("models", name) is not None:
            raise MlflowError(400, "RESOURCE_ALREADY_EXISTS", f"The model '{name}' exists already.")
        properties = {"tags": pairs(body.get("tags")), "description": body.get("description")}
        model, _ = put_container(self._context, "models", name, properties)
        return {"registered_model": self._view(model)}

    def get(self, call: Call) -> dict[str, Any]:
        """Return a model with the newest version of each stage."""
        return {"registered_model": self._view(known_model(self._context, call.query.get("name", "")))}

    def search(self, call: Call) -> dict[str, Any]:
        """Return models that match a filter, by default by name, in pages."""
        models = self._context.store.assets.containers("models")
        shown, more = self._searched(
            call, "registered-models", models, grammar=REGISTERED_MODELS, searchable=_searchable_model
        )
        return {"registered_models": [self._view(model) for model in shown], **more}

    def latest(self, call: Call) -> dict[str, Any]:
        """Return the newest version in each of some stages, or in each one there is."""
        body = call.json(Fields({"name": WORD, "stages": ListOf(TEXT)}))
        name = str(body.get("name") or call.query.get("name", ""))
        known_model(self._context, name)
        stages = body.get("stages") or call.query.getlist("stages")
        return {"model_versions": [self._version(one) for one in newest_in_stages(self._context, name, stages)]}

    @in_transaction
    def update(self, call: Call) -> dict[str, Any]:
        """Change a model's description."""
        body = call.json(Fields({"name": WORD, "description": TEXT}, required=("name",)))
        return {"registered_model": self._view(self._change(body, description=body.get("description")))}

    @in_transaction
    def set_alias(self, call: Call) -> dict[str, Any]:
        """Point an alias to a version."""
        body = call.json(Fields({**VERSION, "alias": WORD}, required=("name", "version", "alias")))
        known_model(self._context, str(body["name"]))
        set_alias(self._context, self._known_version(body), str(body["alias"]))
        return {}

    @in_transaction
    def delete_alias(self, call: Call) -> dict[str, Any]:
        """Remove an alias."""
        body = {**call.query, **call.json(Fields({"name": WORD, "alias": WORD}))}
        known_model(self._context, str(body.get("name", "")))
        delete_alias(self._context, str(body.get("name", "")), str(body.get("alias", "")))
        return {}

    def by_alias(self, call: Call) -> dict[str, Any]:
        """Return the version that an alias stands for."""
        name = call.query.get("name", "")
        known_model(self._context, name)
        found = version_by_alias(self._context, name, call.query.get("alias", ""))
        return {"model_version": self._version(found)}

    def _known(self, names: Mapping[str, Any]) -> AssetContainer:
        return known_model(self._context, str(names.get("name", "")))

    def _change(self, names: Mapping[str, Any], **changes: Any) -> AssetContainer:
        known = self._known(names)
        return self._context.store.assets.put_container("models", known.name, {**known.properties, **changes})

    def _view(self, model: AssetContainer) -> dict[str, Any]:
        aliases = aliases_of(self._context, model.name)
        return {
            "name": model.name,
            "creation_timestamp": millis(model.created),
            "last_updated_timestamp": millis(model.modified),
            "description": model.properties.get("description") or "",
            "latest_versions": [self._version(one) for one in newest_in_stages(self._context, model.name)],
            "tags": tags_view(model.properties.get("tags") or {}),
            "aliases": [{"alias": alias, "version": version} for alias, version in aliases.items()],
        }


class ModelVersions(_Registry):
    """Answers for versions of models."""

    @in_transaction
    def create(self, call: Call) -> dict[str, Any]:
        """Register the files at a source as the next version of a model."""
        fields = {"name": WORD, "source": WORD, "tags": PAIRS, "description": TEXT, "run_id": TEXT}
        body = call.json(Fields(fields))
        name, source = str(body.get("name") or ""), str(body.get("source") or "")
        known_model(self._context, name)
        store = self._context.store.assets
        properties = {
            "jobName": body.get("run_id"),
            **locate_model(self._context, source),
            "modelType": "mlflow_model",
            "tags": pairs(body.get("tags")),
            "description": body.get("description"),
        }
        stored = store.put("models", name, store.next_version("models", name), properties)
        return {"model_version": self._version(stored)}

    def get(self, call: Call) -> dict[str, Any]:
        """Return one version."""
        return {"model_version": self._version(self._known_version(call.query))}

    def search(self, call: Call) -> dict[str, Any]:
        """Return versions that match a filter, by name and newest first, in pages."""
        versions = self._context.store.assets.all_versions("models")
        versions.reverse()
        versions.sort(key=lambda version: version.name)
        shown, more = self._searched(
            call, "model-versions", versions, grammar=MODEL_VERSIONS, searchable=_searchable_version
        )
        return {"model_versions": [self._version(version) for version in shown], **more}

    def download_uri(self, call: Call) -> dict[str, Any]:
        """Return the address of a version's files."""
        return {"artifact_uri": download_address(self._context, self._known_version(call.query))}

    @in_transaction
    def update(self, call: Call) -> dict[str, Any]:
        """Change a version's description."""
        body = call.json(Fields({**VERSION, "description": TEXT}, required=("name", "version")))
        return {"model_version": self._version(self._change(body, description=body.get("description")))}

    @in_transaction
    def transition(self, call: Call) -> dict[str, Any]:
        """Put a version into a stage."""
        fields = {**VERSION, "stage": TEXT, "archive_existing_versions": FLAG}
        body = call.json(Fields(fields, required=("name", "version", "stage")))
        version = self._known_version(body)
        others = bool(body.get("archive_existing_versions"))
        move_to_stage(self._context, version, str(body["stage"]), archive_others=others)
        return {"model_version": self._version(version)}

    @in_transaction
    def delete(self, call: Call) -> dict[str, Any]:
        """Delete a version; its files stay."""
        body = {**call.query, **call.json(Fields(VERSION))}
        delete_registered_version(self._context, self._known_version(body))
        return {}


def _searchable_model(model: AssetContainer) -> Searchable:
    return Searchable(attributes={"name": model.name, **_times(model)}, tags=_tags(model))


def _searchable_version(version: AssetVersion) -> Searchable:
    return Searchable(
        attributes={
            "name": version.name,
            "run_id": version.properties.get("jobName"),
            "source_path": version.properties.get("modelUri"),
            "version_number": float(version.version) if version.version.isdecimal() else None,
            **_times(version),
        },
        tags=_tags(version),
    )


def _times(item: AssetContainer | AssetVersion) -> dict[str, float]:
    return {"creation_timestamp": item.created * 1000, "last_updated_timestamp": item.modified * 1000}


def _tags(item: AssetContainer | AssetVersion) -> dict[str, str]:
    return {PROMPT_TAG: "false", **(item.properties.get("tags") or {})}
