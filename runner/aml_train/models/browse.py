"""List models, show a version whole, and find a version by its name."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aml_train.core.errors import InvalidError
from aml_train.core.tags import Tag
from aml_train.jobs.workspace import ModelView, Workspace
from aml_train.models.catalogue import Catalogue, no_model
from aml_train.models.promotion.record import Change, Record

_ADDRESS: Final = re.compile(r"(?P<name>[^:@\s]+)(?::(?P<version>[^:@\s]+)|@(?P<stage>[^:@\s]+))?")


@dataclass(frozen=True, kw_only=True)
class ModelFilter:
    """Which versions are wanted; everything that is given must hold.

    Attributes:
        stage: in lower case; None for any.
        tags: all of these, with these values; None for any value.
    """

    stage: str | None = None
    tags: Mapping[str, str | None] | None = None

    def takes(self, version: ModelView) -> bool:
        """Return whether *version* is wanted."""
        if self.stage is not None and version.staged != self.stage:
            return False
        wanted = (self.tags or {}).items()
        return all(key in version.tags and value in (None, version.tags[key]) for key, value in wanted)


def metrics_of(version: ModelView) -> dict[str, float]:
    """Return a version's metrics, as they were when it was registered."""
    tags = version.tags.items()
    return {name.removeprefix(Tag.METRIC): float(value) for name, value in tags if name.startswith(Tag.METRIC)}


@dataclass(frozen=True, kw_only=True)
class ModelRow:
    """A model, for a list: its versions that are wanted, the newest first."""

    name: str
    versions: Sequence[ModelView]

    @property
    def stages(self) -> dict[str, list[str]]:
        """Which versions are in which stage; archived ones are left out."""
        found: dict[str, list[str]] = {}
        for version in self.versions:
            if version.staged not in (None, "archived"):
                found.setdefault(str(version.staged), []).append(version.version)
        return found

    def facts(self) -> dict[str, Any]:
        """Return it as plain values, for JSON."""
        return {
            "name": self.name,
            "versions": len(self.versions),
            "latest": self.versions[0].version,
            "stages": self.stages,
        }


def list_models(
    service: Workspace, catalogue: Catalogue, pattern: str | None, wanted: ModelFilter
) -> Iterator[ModelRow]:
    """Yield the models that have a wanted version, in the workspace's order.

    Args:
        pattern: of names, with ``*`` and ``?``; None for all.

    Raises:
        ServiceError: the service refuses or does not answer.
    """
    for name in catalogue.names():
        if pattern is not None and not fnmatch.fnmatchcase(name.lower(), pattern.lower()):
            continue
        versions = [version for version in service.models(name) if wanted.takes(version)]
        if versions:
            yield ModelRow(name=name, versions=versions)


def find_model(service: Workspace, catalogue: Catalogue, address: str) -> ModelView:
    """Return the version that *address* names.

    Raises:
        InvalidError: there is no such version.
        ServiceError: the service does not answer.
    """
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise InvalidError(f"{address!r} names no model.", hint="Write NAME, NAME:VERSION or NAME@STAGE.")
    versions = service.models(match["name"])
    if not versions:
        raise no_model(catalogue, match["name"])
    version, stage = match["version"], match["stage"]
    for one in versions:
        if version in (None, one.version) and (stage is None or one.staged == stage.lower()):
            return one
    known = ", ".join(f"{one.version} ({one.staged or 'no stage'})" for one in versions[:8])
    wanted = f"version {version}" if version else f"version in {stage}"
    raise InvalidError(f"The model {match['name']} has no {wanted}.", hint=f"The newest are: {known}.")


def describe_model(version: ModelView, record: Record | None = None) -> dict[str, Any]:
    """Return the facts of a version, the most important first, without empty ones.

    Args:
        version: the version.
        record: the model's promotions; None where they are not read.
    """
    ours = (Tag.METRIC, Tag.PARAMETER)
    fields: dict[str, Any] = {
        "name": version.name,
        "version": version.version,
        "stage": version.staged,
        "gate": version.tags.get(Tag.GATE),
        "metrics": metrics_of(version),
        "parameters": {
            name.removeprefix(Tag.PARAMETER): value
            for name, value in sorted(version.tags.items())
            if name.startswith(Tag.PARAMETER)
        },
        "type": version.type,
        "description": version.description,
        "created": version.created,
        "job": version.origin,
        "path": version.path,
        "promotions": [
            _promotion_fields(change, version.version) for change in record.history if _is_about(change, version)
        ]
        if record is not None
        else None,
        "tags": {name: value for name, value in sorted(version.tags.items()) if not name.startswith(ours)},
    }
    return {key: value for key, value in fields.items() if value not in (None, "", {}, [])}


def _is_about(change: Change, version: ModelView) -> bool:
    return version.version == change.version or version.version in change.previous


def _promotion_fields(change: Change, version: str) -> dict[str, Any]:
    came = version == change.version
    other = (change.previous[0] if change.previous else None) if came else change.version
    fields = {
        "at": change.at,
        "what": f"{change.action} to {change.stage}" if came else f"archived from {change.stage}",
        "copied to": change.to,
        "copy of": change.source if came else None,
        "after" if came else "replaced by": other,
        "actor": change.actor,
        "reason": change.reason,
        "gate": change.gate if came else None,
        "foreign": change.foreign if came else None,
        "run": change.run_url,
        "finished by": change.finished_by,
    }
    return {key: value for key, value in fields.items() if value}
