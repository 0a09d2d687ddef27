"""The truth of a world as values: states of services, payments, endings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from simulation.world.builder import Tried
from simulation.world.ends import Ended
from simulation.world.project import Project
from simulation.world.world import Acknowledged

if TYPE_CHECKING:
    from simulation.world.world import World


@dataclass(frozen=True, kw_only=True)
class TrueJob:
    """A job in the service's database.

    Attributes:
        document: as it was submitted.
        image: the image of its environment.
        executed: how often a compute executed it.
    """

    name: str
    status: str
    created: float
    ended: float | None
    tags: Mapping[str, str]
    document: Mapping[str, Any]
    image: str
    code: str
    executed: int

    @property
    def command(self) -> str:
        """The script."""
        return str(self.document.get("command", ""))

    @property
    def digest(self) -> str:
        """The digest that the environment names; empty without one."""
        return self.image.rpartition("@")[2] if "@" in self.image else ""

    @property
    def terminal(self) -> bool:
        """Whether it has ended."""
        return self.status in ("Completed", "Failed", "Canceled")


@dataclass(frozen=True, kw_only=True)
class TrueModel:
    """A model version in the service's database."""

    name: str
    version: str
    created: float
    tags: Mapping[str, str]
    path: str

    @property
    def stage(self) -> str:
        """The stage that its tags name."""
        return self.tags.get("aml-train.stage", "")


@dataclass(frozen=True, kw_only=True)
class Truth:
    """Everything that the invariants look at.

    Attributes:
        jobs: by their names.
        models: all versions.
        projects: what the clients had checked out, by their keys.
        tags: repository → tag → digest.
        manifests: repository → digests.
        blobs: container and name → content.
        promotions: model → the record of its promotions, as JSON.
        containers: owners of the engine's containers.
        tried: every execution of tests.
        journal: what was acknowledged.
        ends: how the commands ended.
        living: names of clients that still run.
        secrets: every secret, by what it is.
        sinks: texts that others may read, by their places.
        now: seconds since the epoch.
    """

    jobs: Mapping[str, TrueJob] = field(default_factory=dict)
    models: tuple[TrueModel, ...] = ()
    projects: Mapping[str, Project] = field(default_factory=dict)
    tags: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    manifests: Mapping[str, frozenset[str]] = field(default_factory=dict)
    blobs: Mapping[tuple[str, str], bytes] = field(default_factory=dict)
    promotions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    containers: tuple[str, ...] = ()
    tried: tuple[Tried, ...] = ()
    journal: tuple[Acknowledged, ...] = ()
    ends: tuple[Ended, ...] = ()
    living: frozenset[str] = frozenset()
    secrets: Mapping[str, str] = field(default_factory=dict)
    sinks: Mapping[str, str] = field(default_factory=dict)
    now: float = 0.0


def read_truth(world: World, *, living: frozenset[str] = frozenset()) -> Truth:
    """Return the truth of a world whose service runs."""
    world.cluster.advance()
    store = world.azureml.context.store
    registry = world.registry.storage
    executed = [one.run_id for one in world.cluster.executions]
    jobs = {}
    for run in store.runs.all():
        if run.job is None:
            continue
        jobs[run.id] = TrueJob(
            name=run.id,
            status=run.status,
            created=run.created,
            ended=run.ended,
            tags=dict(run.tags),
            document=run.job,
            image=_image_of(world, run.job),
            code=_code_of(world, run.job),
            executed=executed.count(run.id),
        )
    models = tuple(
        TrueModel(
            name=one.name,
            version=one.version,
            created=one.created,
            tags=dict(one.properties.get("tags") or {}),
            path=str(one.properties.get("modelUri", "")),
        )
        for one in store.assets.all_versions("models")
    )
    blobs = read_blobs(world)
    promotions = {
        name.rpartition("/")[2].removesuffix(".json"): json.loads(content)
        for (_, name), content in blobs.items()
        if name.startswith("aml-train/promotion/") and content.strip()
    }
    service = {f"service: {name}": text for name, text in world.secrets.service.items()}
    planted = {f"planted: {name}": text for name, text in world.secrets.planted.items()}
    issued = {f"token {number}": token for number, token in enumerate(sorted(world.secrets.issued))}
    return Truth(
        jobs=jobs,
        models=models,
        projects=dict(world.projects),
        tags={name: {tag: one[0] for tag, one in place.tags.items()} for name, place in registry.content.items()},
        manifests={name: frozenset(place.manifests) for name, place in registry.content.items()},
        blobs=blobs,
        promotions=promotions,
        containers=tuple(one.owner for one in world.engine.containers.values()),
        tried=tuple(world.engine.tried),
        journal=tuple(world.journal),
        ends=tuple(world.ends),
        living=living,
        secrets={**service, **planted, **issued},
        sinks=_sinks(world, jobs, models),
        now=world.clock(),
    )


def _image_of(world: World, job: Mapping[str, Any]) -> str:
    """Return the image of the environment that a job names."""
    parts = str(job.get("environmentId") or "").split("/")
    if "environments" not in parts:
        return ""
    at = parts.index("environments")
    found = world.azureml.context.store.assets.version("environments", parts[at + 1], parts[at + 3])
    return "" if found is None else str(found.properties.get("image", ""))


def _code_of(world: World, job: Mapping[str, Any]) -> str:
    """Return the hash of a job's code, which names its contents."""
    parts = str(job.get("codeId") or "").split("/")
    if "codes" not in parts:
        return ""
    at = parts.index("codes")
    found = world.azureml.context.store.assets.version("codes", parts[at + 1], parts[at + 3])
    return "" if found is None else str((found.properties.get("properties") or {}).get("hash_sha256", ""))


def _sinks(world: World, jobs: Mapping[str, TrueJob], models: tuple[TrueModel, ...]) -> dict[str, str]:
    """Return every text that others than the job's author may read.

    The log of a job is its own: what it writes there is its author's matter, and no sink of the product.
    """
    sinks: dict[str, str] = {}
    for number, end in enumerate(world.ends):
        place = f"{end.command} of {end.client} ({number})"
        sinks[f"events of {place}"] = "\n".join(end.events)
        sinks[f"console of {place}"] = end.console
        sinks[f"message of {place}"] = f"{end.message}\n{end.hint}"
    for job in jobs.values():
        sinks[f"job {job.name}"] = json.dumps([job.document, dict(job.tags)], default=str)
    for model in models:
        sinks[f"model {model.name}:{model.version}"] = json.dumps(dict(model.tags))
    for (container, name), blob in read_blobs(world).items():
        if not name.endswith(".txt"):
            sinks[f"blob {container}/{name}"] = blob.decode("utf-8", "replace")
    for repository, place_ in world.registry.storage.content.items():
        sinks[f"registry {repository}"] = "\n".join(
            one.content.decode("utf-8", "replace") for one in place_.manifests.values()
        )
    for digest, content in world.registry.storage.blobs.items():
        sinks[f"registry blob {digest[:19]}"] = content.decode("utf-8", "replace")
    return sinks


def read_blobs(world: World) -> dict[tuple[str, str], bytes]:
    """Return all blobs by container and name."""
    return {
        (container, name): blob.content
        for container, found in world.storage.containers.items()
        for name, blob in found.items()
    }
