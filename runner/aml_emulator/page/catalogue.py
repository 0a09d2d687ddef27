"""The pages of assets, computes, datastores and requests."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from aml_emulator.api import Call
from aml_emulator.context import Context
from aml_emulator.domain import NotFoundError, known_version
from aml_emulator.page.charts import text
from aml_emulator.page.gate import TAG_GATE, WORDS, gate_of_model, texts
from aml_emulator.page.lineage import draw_lineage, lineage_of
from aml_emulator.page.view import Document, Paging, paged
from aml_emulator.store import AssetVersion, Compute

KINDS = {"models": "Models", "data": "Data", "environments": "Environments", "codes": "Code"}
PAGE = 50

STAGE = "aml-train.stage"
"""The tag by which aml-train says a model's stage; it counts before AzureML's own field."""

METRIC: Final = "aml-train.metric."
"""Followed by a name: a metric at the registration of a model."""

COLUMNS: Final = 4
"""Metrics in the table of a model's versions: those of most versions."""

PROMOTION: Final = {
    "aml-train.promoted-at": "Promoted",
    "aml-train.promoted-by": "By",
    "aml-train.promotion-reason": "Reason",
    "aml-train.promoted-after": "After version",
    "aml-train.promotion-run": "Workflow run",
    "aml-train.archived-at": "Archived",
    "aml-train.archived-by": "Archived by",
    "aml-train.replaced-by": "Replaced by version",
}
"""The tags that a promotion writes (docs/promotion.md), with their titles."""


class Catalogue:
    """Shows assets, computes and unsupported requests."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._store = context.store

    def names(self, call: Call) -> Document:
        """Return the names of one kind of asset."""
        kind = _kind(call)
        number = call.integer("page", 1, low=1)
        found, total = self._store.browse.assets(kind, limit=PAGE, offset=(number - 1) * PAGE)
        return Document(
            template="assets.html",
            title=KINDS[kind],
            section=kind,
            values={
                "kind": kind,
                "assets": found,
                "paging": Paging(page=number, size=PAGE, total=total),
                "stages": {one.name: self._stages(one.name) for one in found} if kind == "models" else {},
            },
        )

    def versions(self, call: Call) -> Document:
        """Return the versions of a name."""
        kind, name = _kind(call), call.params["name"]
        versions = self._store.assets.versions(kind, name)
        if not versions:
            raise NotFoundError(f"{kind} '{name}'")
        shown, paging = paged(call, versions, PAGE)
        return Document(
            template="versions.html",
            title=name,
            section=kind,
            values={
                "kind": kind,
                "kind_title": KINDS[kind],
                "name": name,
                "versions": [_line(kind, one) for one in shown],
                "metrics": _common([texts(one.properties.get("tags")) for one in shown]) if kind == "models" else [],
                "words": WORDS,
                "paging": paging,
            },
        )

    def version(self, call: Call) -> Document:
        """Return one version, and for a model where it comes from."""
        kind, name, version = _kind(call), call.params["name"], call.params["version"]
        known = known_version(self._context, kind, name, version)
        properties = known.properties
        plain = {
            key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
            for key, value in sorted(properties.items())
            if key not in ("tags", "properties") and value not in (None, "", {}, [])
        }
        return Document(
            template="version.html",
            title=f"{name}, version {version}",
            section=kind,
            values={
                "kind": kind,
                "kind_title": KINDS[kind],
                "name": name,
                "asset": known,
                "plain": plain,
                "tags": texts(properties.get("tags")),
                "properties": texts(properties.get("properties")),
                **(self._model(known) if kind == "models" else {"model": None}),
            },
        )

    def _model(self, model: AssetVersion) -> dict[str, Any]:
        """Return what the page of a model's version has besides other assets'."""
        tags = texts(model.properties.get("tags"))
        stage = _stage(model, tags)
        job = str(model.properties.get("jobName") or "")
        origin = lineage_of(self._context, model, stage=stage)
        logged = {one.key: text(one.last, digits=6) for one in self._store.browse.metrics(job)} if job else {}
        registered = _metrics(tags)
        return {
            "model": {
                "stage": stage,
                "promotion": [(title, tags[tag]) for tag, title in PROMOTION.items() if tags.get(tag)],
                "job": job if self._store.runs.get(job) else "",
                "metrics": [
                    (name, registered.get(name, "—"), logged.get(name, "—"))
                    for name in sorted({*registered, *logged})
                ],
            },
            "origin": origin,
            "drawing": draw_lineage(origin),
            "gate": gate_of_model(tags),
            "words": WORDS,
        }

    def _stages(self, name: str) -> list[tuple[str, str]]:
        """Return the stages of a model, with the newest version in each."""
        found: dict[str, str] = {}
        for one in self._store.assets.versions("models", name):
            stage = _stage(one, texts(one.properties.get("tags")))
            if stage and stage.lower() != "archived":
                found.setdefault(stage, one.version)
        return sorted(found.items())

    def computes(self, call: Call) -> Document:
        """Return the clusters, with their nodes and the jobs that wait for one."""
        shown, paging = paged(call, self._store.assets.computes(), PAGE)
        return Document(
            template="computes.html",
            title="Computes",
            section="computes",
            refresh=True,
            values={
                "computes": [self._cluster(one) for one in shown],
                "paging": paging,
                "now": self._context.clock(),
            },
        )

    def datastores(self, call: Call) -> Document:
        """Return the datastores, without what signs in to them."""
        shown, paging = paged(call, self._context.all_datastores(), PAGE)
        return Document(
            template="datastores.html",
            title="Datastores",
            section="datastores",
            values={
                "datastores": [
                    {
                        "name": one.name,
                        "container": one.container,
                        "type": one.kind,
                        "credentials": str((one.properties.get("credentials") or {}).get("credentialsType") or ""),
                        "description": str(one.properties.get("description") or ""),
                    }
                    for one in shown
                ],
                "paging": paging,
            },
        )

    def requests(self, call: Call) -> Document:
        """Return the requests: unsupported ones, faults, and the latest."""
        context = self._context
        failed = call.query.get("failed") == "1"
        last = [one for one in reversed(context.requests.since()) if not failed or (one["status"] or 599) >= 400]
        shown, paging = paged(call, last, PAGE)
        return Document(
            template="requests.html",
            title="Requests",
            section="requests",
            values={
                "seen": sorted(context.unsupported.seen().items(), key=lambda item: (-item[1], item[0])),
                "faults": [json.dumps(one, ensure_ascii=False) for one in context.faults.listed()],
                "requests": shown,
                "paging": paging,
                "failed": failed,
            },
        )

    def _cluster(self, compute: Compute) -> dict[str, Any]:
        given = compute.body.get("properties") or {}
        inner = given.get("properties") or {}
        view = self._context.fleet.view(compute.name)
        return {
            "name": compute.name,
            "type": given.get("computeType") or "",
            "size": inner.get("vmSize") or "",
            "tier": inner.get("vmPriority") or "Dedicated",
            "scale": f"{view.scale.min_nodes} to {view.scale.max_nodes}" if view else "",
            "nodes": view.nodes if view else (),
            "queue": view.queue if view else (),
        }


def _kind(call: Call) -> str:
    kind = call.params["kind"]
    if kind not in KINDS:
        raise NotFoundError(f"assets of the kind '{kind}'")
    return kind


def _line(kind: str, version: AssetVersion) -> dict[str, Any]:
    """Return one version as a line of a table."""
    holds = {"models": "modelUri", "data": "dataUri", "environments": "image", "codes": "codeUri"}[kind]
    type_ = {"models": "modelType", "data": "dataType"}.get(kind)
    properties, tags = version.properties, texts(version.properties.get("tags"))
    return {
        "version": version.version,
        "type": str(properties.get(type_) or "") if type_ else "",
        "holds": str(properties.get(holds) or ""),
        "stage": _stage(version, tags),
        "gate": tags.get(TAG_GATE, ""),
        "metrics": _metrics(tags),
        "created": version.created,
        "archived": bool(properties.get("isArchived")),
    }


def _stage(version: AssetVersion, tags: Mapping[str, str]) -> str:
    return tags.get(STAGE) or version.stage or ""


def _metrics(tags: Mapping[str, str]) -> dict[str, str]:
    """Return the metrics in a model's tags, shortened where they are numbers."""
    return {tag.removeprefix(METRIC): _short(value) for tag, value in tags.items() if tag.startswith(METRIC)}


def _short(value: str) -> str:
    try:
        return text(float(value), digits=6)
    except ValueError:
        return value


def _common(versions: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the metrics that most of the versions have."""
    counts = Counter(name for tags in versions for name in _metrics(tags))
    return sorted(sorted(counts, key=lambda name: (-counts[name], name))[:COLUMNS])
