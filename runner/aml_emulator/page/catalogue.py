"""The pages of assets, computes, datastores and requests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from aml_emulator.api import Call
from aml_emulator.context import Context
from aml_emulator.domain import NotFoundError, known_version
from aml_emulator.page.view import Document, Paging, paged
from aml_emulator.store import AssetVersion, Compute

KINDS = {"models": "Models", "data": "Data", "environments": "Environments", "codes": "Code"}
PAGE = 50

STAGE = "aml-train.stage"
"""The tag by which aml-train says a model's stage; it counts before AzureML's own field."""


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
            values={"kind": kind, "assets": found, "paging": Paging(page=number, size=PAGE, total=total)},
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
                "tags": _texts(properties.get("tags")),
                "properties": _texts(properties.get("properties")),
                "lineage": self._lineage(known) if kind == "models" else None,
            },
        )

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

    def _lineage(self, model: AssetVersion) -> dict[str, Any]:
        """Return the job that a model comes from and the job's image, if known."""
        name = str(model.properties.get("jobName") or "")
        run = self._store.runs.get(name) if name else None
        known = environment_of(self._context, run.job or {}) if run else None
        return {
            "job": name,
            "run": run,
            "environment": (known.name, known.version) if known else None,
            "image": str(known.properties.get("image") or "") if known else "",
        }


def environment_of(context: Context, job: Mapping[str, Any]) -> AssetVersion | None:
    """Return the environment of a job, None if it is not a version of the workspace's."""
    name, _, version = str(job.get("environmentId") or "").partition("/environments/")[2].partition("/versions/")
    return context.store.assets.version("environments", name, version) if version else None


def _kind(call: Call) -> str:
    kind = call.params["kind"]
    if kind not in KINDS:
        raise NotFoundError(f"assets of the kind '{kind}'")
    return kind


def _line(kind: str, version: AssetVersion) -> dict[str, Any]:
    """Return one version as a line of a table."""
    holds = {"models": "modelUri", "data": "dataUri", "environments": "image", "codes": "codeUri"}[kind]
    type_ = {"models": "modelType", "data": "dataType"}.get(kind)
    properties = version.properties
    return {
        "version": version.version,
        "type": str(properties.get(type_) or "") if type_ else "",
        "holds": str(properties.get(holds) or ""),
        "stage": _texts(properties.get("tags")).get(STAGE) or version.stage or "",
        "created": version.created,
        "archived": bool(properties.get("isArchived")),
    }


def _texts(values: object) -> dict[str, str]:
    """Return tags or properties by name, as text."""
    return {key: str(value) for key, value in sorted(values.items())} if isinstance(values, Mapping) else {}
