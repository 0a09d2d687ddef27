"""The pages of models: names, versions, and one version."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from aml_emulator.api.routing import Call
from aml_emulator.context import Context
from aml_emulator.domain.assets import known_version
from aml_emulator.domain.errors import NotFoundError
from aml_emulator.page.charts import text
from aml_emulator.page.gate import TAG_GATE, WORDS, gate_of, texts
from aml_emulator.page.view import Document, Paging, paged
from aml_emulator.store.assets import AssetVersion

KIND: Final = "models"
PAGE: Final = 50

STAGE: Final = "aml-train.stage"
"""The tag by which aml-train says a model's stage; it counts before AzureML's own field."""


class Models:
    """Shows models."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._store = context.store

    def names(self, call: Call) -> Document:
        """Return the names of models, with the newest version in each stage."""
        number = call.integer("page", 1, low=1)
        found, total = self._store.browse.assets(KIND, limit=PAGE, offset=(number - 1) * PAGE)
        return Document(
            template="models.html",
            title="Models",
            section=KIND,
            values={
                "models": found,
                "paging": Paging(page=number, size=PAGE, total=total),
                "stages": {one.name: self._stages(one.name) for one in found},
            },
        )

    def versions(self, call: Call) -> Document:
        """Return the versions of a model."""
        name = call.params["name"]
        versions = self._store.assets.versions(KIND, name)
        if not versions:
            raise NotFoundError(f"models '{name}'")
        shown, paging = paged(call, versions, PAGE)
        return Document(
            template="model.html",
            title=name,
            section=KIND,
            values={"name": name, "versions": [_line(one) for one in shown], "words": WORDS, "paging": paging},
        )

    def version(self, call: Call) -> Document:
        """Return one version: its stage, job, gate and metrics."""
        name, version = call.params["name"], call.params["version"]
        known = known_version(self._context, KIND, name, version)
        tags = texts(known.properties.get("tags"))
        job = str(known.properties.get("jobName") or "")
        facts = {
            key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
            for key, value in sorted(known.properties.items())
            if key not in ("tags", "properties") and value not in (None, "", {}, [])
        }
        return Document(
            template="version.html",
            title=f"{name}, version {version}",
            section=KIND,
            values={
                "name": name,
                "model": known,
                "stage": _stage(known, tags),
                "job": job if self._store.runs.get(job) else "",
                "metrics": [(one.key, text(one.last, digits=6)) for one in self._store.browse.metrics(job)],
                "facts": facts,
                "tags": tags,
                "properties": texts(known.properties.get("properties")),
                "gate": gate_of(tags),
                "words": WORDS,
            },
        )

    def _stages(self, name: str) -> list[tuple[str, str]]:
        """Return the stages of a model, with the newest version in each."""
        found: dict[str, str] = {}
        for one in self._store.assets.versions(KIND, name):
            stage = _stage(one, texts(one.properties.get("tags")))
            if stage and stage.lower() != "archived":
                found.setdefault(stage, one.version)
        return sorted(found.items())


def _line(version: AssetVersion) -> dict[str, Any]:
    """Return one version as a line of a table."""
    properties, tags = version.properties, texts(version.properties.get("tags"))
    return {
        "version": version.version,
        "type": str(properties.get("modelType") or ""),
        "job": str(properties.get("jobName") or ""),
        "stage": _stage(version, tags),
        "gate": tags.get(TAG_GATE, ""),
        "created": version.created,
        "archived": bool(properties.get("isArchived")),
    }


def _stage(version: AssetVersion, tags: Mapping[str, str]) -> str:
    return tags.get(STAGE) or version.stage or ""
