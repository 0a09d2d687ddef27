"""Removes the remains of ended jobs, and code that was uploaded for them.

Kept is whatever a registered model, a data asset or a job that has not ended refers to, everything that a client stored
in a datastore by itself, and the images in the registry.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from aml_emulator.domain.errors import DomainError, InvalidError
from aml_emulator.domain.folder_index import FolderIndex
from aml_emulator.domain.locations import JobOutput, parse_location
from aml_emulator.domain.workspace import REGISTRIES, REUSED_RUN, Workspace, shelf
from aml_emulator.executor import BlobEntry, Folder
from aml_emulator.store import AssetVersion, RunOutline

logger = logging.getLogger(__name__)

FRESH_SECONDS = 3600.0
"""A newer upload may belong to a job that is being submitted."""

ADDRESSES = {"models": "modelUri", "data": "dataUri", "codes": "codeUri"}


HOLD_SECONDS = 0.25
"""How long other requests wait that change something."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """Runs, assets and folders that are removed together.

    Attributes:
        runs: a run and its descendants.
        assets: versions of code and of anonymous data.
        folders: their places in Blob storage.
    """

    runs: tuple[RunOutline, ...] = ()
    assets: tuple[AssetVersion, ...] = ()
    folders: tuple[Folder, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The parts to remove, and why other runs that are old enough stay, by their ids."""

    parts: tuple[Part, ...]
    kept: Mapping[str, str]


@dataclass
class _Removed:
    """The removed runs, assets and blobs."""

    runs: list[str] = field(default_factory=list)
    assets: Counter[str] = field(default_factory=Counter)
    blobs: int = 0
    bytes: int = 0

    def add(self, part: Part, entries: Iterable[BlobEntry]) -> None:
        """Count a part with its blobs."""
        for entry in entries:
            self.blobs, self.bytes = self.blobs + 1, self.bytes + entry.size
        self.runs += [run.id for run in part.runs]
        self.assets.update(one.kind for one in part.assets)


def clean_workspace(workspace: Workspace, *, older_than: float, keep: int, dry_run: bool) -> dict[str, Any]:
    """Remove old, unreferenced items and return them; with *dry_run* only return them.

    Args:
        older_than: seconds since a run ended or an asset was made.
        keep: so many of the newest runs stay, however old.
        dry_run: change nothing.
    """
    removed = _Removed()
    if dry_run:
        choice = choose(workspace, older_than=older_than, keep=keep)
        for part in choice.parts:
            removed.add(part, chain(*(workspace.blobs.walk(one.container, one.prefix) for one in part.folders)))
    else:
        choice = _remove(workspace, removed, older_than=older_than, keep=keep)
        logger.warning(
            "cleaned: %d runs, %d assets, %d blobs, %d bytes",
            *(len(removed.runs), removed.assets.total(), removed.blobs, removed.bytes),
        )
    return {
        "dry_run": dry_run,
        "runs": removed.runs,
        "kept": dict(choice.kept),
        "assets": {kind: removed.assets[kind] for kind in ("codes", "data")},
        "blobs": removed.blobs,
        "bytes": removed.bytes,
    }


def _remove(workspace: Workspace, removed: _Removed, *, older_than: float, keep: int) -> Choice:
    """Remove everything, and return the last choice, which has no parts.

    It is chosen and removed in one transaction: a request that refers to it meanwhile waits, and is refused. As other requests wait as
    well, there are several transactions, with pauses.
    """
    store = workspace.store
    while True:
        began = time.monotonic()
        with store.transaction():
            choice = choose(workspace, older_than=older_than, keep=keep)
            end = time.monotonic() + HOLD_SECONDS
            for part in choice.parts:
                removed.add(part, _remove_part(workspace, part))
                if time.monotonic() >= end:
                    break
            if not choice.parts:
                store.assets.forget_operations(workspace.clock() - older_than)
        if not choice.parts:
            break
        time.sleep(time.monotonic() - began)
    store.compact()
    return choice


def _remove_part(workspace: Workspace, part: Part) -> list[BlobEntry]:
    """Remove a part, and return its blobs."""
    store = workspace.store
    # Blobs first: a killed process can clean again.
    entries: list[BlobEntry] = []
    for one in part.folders:
        entries += workspace.blobs.delete_prefix(one.container, one.prefix)
    for version in part.assets:
        store.assets.delete_version(version.kind, version.name, version.version)
        if not store.assets.versions(version.kind, version.name):
            store.assets.delete(version.kind, version.name)
    for run in reversed(part.runs):
        store.runs.delete(run.id)
    return entries


def choose(workspace: Workspace, *, older_than: float, keep: int) -> Choice:
    """Return what is to go; see `clean_workspace`. Changes nothing.

    Each part may go without those after it.
    """
    now = workspace.clock()
    runs = workspace.store.runs.outlines(reused=REUSED_RUN)
    versions = [version for kind in ADDRESSES for version in workspace.store.assets.all_versions(kind)]
    shared = [
        version
        for registry in workspace.store.assets.containers(REGISTRIES)
        for kind in ADDRESSES
        for version in workspace.store.assets.all_versions(shelf(kind, registry.name))
    ]
    named = [one for one in versions if one.kind != "codes" and not one.properties.get("isAnonymous")]
    families = _families(runs)
    ended = [family for family in families if all(run.terminal for run in family)]
    ended.sort(key=lambda family: family[0].created, reverse=True)
    reasons = _reasons(workspace, runs, [*named, *shared])
    # A node that was reused stays with the pipelines that reuse it, which are newer.
    for family in (*(one for one in families if not all(run.terminal for run in one)), *ended[:keep]):
        _keep_reused(reasons, family)
    going: list[list[RunOutline]] = []
    kept: dict[str, str] = {}
    for family in ended[keep:]:
        if max(run.ended or run.modified for run in family) > now - older_than:
            _keep_reused(reasons, family)
            continue
        why = next((reasons[run.id] for run in family if run.id in reasons), None)
        if why is None:
            going.append(family)
        else:
            kept[family[0].id] = why
            _keep_reused(reasons, family)
    gone = {run.id for family in going for run in family}
    staying = [run for run in runs if run.id not in gone]
    assets = _unused(versions, staying, gone, now=now, older_than=older_than)
    left = {(one.kind, one.name, one.version) for one in assets}
    remaining = [one for one in versions if (one.kind, one.name, one.version) not in left]
    used: FolderIndex[AssetVersion] = FolderIndex()
    for one in (*remaining, *shared):
        if (folder := _folder_of(workspace, one)) is not None:
            used.add(folder, one)

    def unused(folders: Iterable[Folder]) -> tuple[Folder, ...]:
        return tuple(folder for folder in dict.fromkeys(folders) if not any(used.overlapping(folder)))

    # Assets that refer to no job's files go before the jobs that refer to them, the others before the files of their job.
    alone = [
        Part(assets=(one,), folders=unused(filter(None, (_folder_of(workspace, one),))))
        for one in assets
        if _job_of(one) is None
    ]
    within: dict[str, list[AssetVersion]] = {}
    for one in assets:
        if (job := _job_of(one)) is not None:
            within.setdefault(job, []).append(one)
    return Choice(
        parts=(
            *alone,
            *(
                Part(
                    runs=tuple(family),
                    assets=tuple(one for run in family for one in within.get(run.id, ())),
                    folders=unused(folder for run in family for folder in _folders_of(workspace, run)),
                )
                for family in going
            ),
        ),
        kept=kept,
    )


def _families(runs: Iterable[RunOutline]) -> list[list[RunOutline]]:
    """Return each run without a parent together with its descendants."""
    by_id = {run.id: run for run in runs}
    families: dict[str, list[RunOutline]] = {}
    for run in by_id.values():
        root = run
        while root.parent_id is not None and root.parent_id in by_id:
            root = by_id[root.parent_id]
        family = families.setdefault(root.id, [root])
        if run is not root:
            family.append(run)
    return list(families.values())


def _keep_reused(reasons: dict[str, str], family: Iterable[RunOutline]) -> None:
    """Add why the earlier runs stay that the nodes of a pipeline which stays reuse."""
    for run in family:
        if run.reused is not None:
            reasons.setdefault(run.reused, f"run {run.id} reuses it")


def _reasons(workspace: Workspace, runs: Iterable[RunOutline], named: Iterable[AssetVersion]) -> dict[str, str]:
    """Return why runs stay, by their ids: outputs with a name, or another's inputs."""
    runs = list(runs)
    reasons: dict[str, str] = {}
    places: FolderIndex[str] = FolderIndex()
    for run in runs:
        for place in _folders_of(workspace, run):
            places.add(place, run.id)
    for version in named:
        label = f"{version.kind.rstrip('s')} {version.name}:{version.version}"
        job = _job_of(version) or version.properties.get("jobName")
        if job is not None:
            reasons.setdefault(str(job), f"{label} is in its outputs")
        folder = _folder_of(workspace, version)
        for run_id in () if folder is None else places.overlapping(folder):
            reasons.setdefault(run_id, f"{label} is in its outputs")
    for run in runs:
        for address in run.addresses if not run.terminal else ():
            job = _job_in(address)
            if job is not None:
                reasons.setdefault(job, f"job {run.id} reads its outputs")
    return reasons


def _unused(
    versions: Iterable[AssetVersion], staying: Iterable[RunOutline], gone: set[str], *, now: float, older_than: float
) -> list[AssetVersion]:
    """Return the code and the anonymous data that no run which stays refers to."""
    texts = "\n".join(address for run in staying for address in run.addresses).lower()
    found = []
    for one in versions:
        if one.kind == "models" or (one.kind == "data" and not one.properties.get("isAnonymous")):
            continue
        if _job_of(one) in gone:
            found.append(one)
        elif one.modified <= now - max(older_than, FRESH_SECONDS) and _job_of(one) is None:
            long, short = f"/{one.kind}/{one.name}/versions/{one.version}", f"azureml:{one.name}:{one.version}"
            if long.lower() not in texts and short.lower() not in texts:
                found.append(one)
    return found


def _folders_of(workspace: Workspace, run: RunOutline) -> list[Folder]:
    """Return the places of a run's own files, without outputs that the job placed."""
    places = [Folder(container=str(one["container"]), prefix=str(one["prefix"])) for one in run.outputs.values()]
    own = [place for place in places if run.id in place.prefix.split("/")]
    return [workspace.artifacts_of(run.id), *own]


def _folder_of(workspace: Workspace, version: AssetVersion) -> Folder | None:
    """Return an asset's place, None if there is none any more."""
    try:
        return workspace.folder(_address(version))
    except DomainError:
        return None


def _address(version: AssetVersion) -> str:
    # The kind of a registry's asset begins with the registry.
    return str(version.properties.get(ADDRESSES[version.kind.rpartition("/")[2]]) or "")


def _job_of(version: AssetVersion) -> str | None:
    """Return the job whose outputs contain an asset by its address."""
    return _job_in(_address(version))


def _job_in(address: str) -> str | None:
    try:
        location = parse_location(address)
    except InvalidError:
        return None
    return location.job if isinstance(location, JobOutput) else None
