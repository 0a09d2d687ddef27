"""Clean up a project's images in the registry: read, plan, execute."""

from __future__ import annotations

import datetime
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from aml_train.azure.image_uses import read_image_uses
from aml_train.azure.target import WorkspaceTarget
from aml_train.core.errors import ImageError, InvalidError, ServiceError
from aml_train.core.events import Listener
from aml_train.core.trust import PROPOSALS_SUFFIX
from aml_train.image.prune.plan import Inventory, PrunePlan, PrunePolicy, Use, plan_prune, volume
from aml_train.image.prune.registry import PruneOutcome, read_entries
from aml_train.image.registry.client import Registry
from aml_train.pipeline.resolve import read_project
from aml_train.pipeline.target import Host, open_workspace

if TYPE_CHECKING:
    from aml_train.config.model import Config
    from aml_train.config.sections.targets import TargetConfig

_NOTHING = "Nothing was deleted."


def prepare_prune(
    config: Config, targets: Sequence[TargetConfig], host: Host, policy: PrunePolicy, emit: Listener
) -> tuple[PrunePlan, Registry]:
    """Read the registry and everything that uses its images; return what goes and what stays, and where.

    Args:
        config: the project, whose repository is cleaned up.
        targets: every target of the configuration: workspaces with the same registry are read, too.
        host: this process.
        policy: what stays besides what is in use; images of jobs of the same time do, too.
        emit: receives what is started.

    Raises:
        InvalidError: the configuration has no image, or a target is incomplete.
        ServiceError: a workspace cannot be read.
        ImageError: the registry cannot be read.
    """
    if config.image is None:
        raise InvalidError(
            "The configuration has no `image:`, so there are no images of it in a registry.",
            hint="Write `image:` with a `base:`, or `aml-train init` for an example.",
        )
    image = config.image.named(read_project(config.directory, host.environ).repository)
    repository = str(image.repository)
    connection = open_workspace(host, config.target, config.directory, emit)
    name = connection.registries.host()
    connections = [connection, *_others(config, targets, host, name, emit)]
    location = connection.registries.administered(name)
    if location is None:
        raise ImageError(f"the registry {name} cannot be reached from here")
    registry = location.client()
    if not registry.can_lock:
        raise ImageError(
            f"the registry {name} does not list its manifests as an Azure Container Registry does. {_NOTHING}",
            hint="Clean it up by its own rules of retention.",
        )
    # The registry first: an image that is pushed meanwhile has no entry, and a job that is submitted meanwhile is a use.
    now = time.time()
    try:
        places = (f"{repository}{of}{kind}" for of in ("", PROPOSALS_SUFFIX) for kind in ("", "-candidate"))
        entries = tuple(entry for place in places for entry in read_entries(registry, place))
    except ImageError as error:
        raise ImageError(f"{error.message}. {_NOTHING}", hint=error.hint) from error
    uses = _read_uses(connections, name, policy.older_than)
    inventory = Inventory(host=name, entries=entries, uses=uses, now=now)
    return plan_prune(inventory, replace(policy, templates=image.tags)), registry


def _read_uses(connections: Sequence[WorkspaceTarget], registry: str, seconds: float) -> tuple[Use, ...]:
    """Return who uses which image, by all workspaces."""
    since = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=seconds)
    try:
        return tuple(use for one in connections for use in read_image_uses(one.service, registry, since=since))
    except ServiceError as error:
        problem = f"Who uses the images cannot be read, so no image is deleted: {error.message}"
        raise ServiceError(problem, hint=error.hint, transient=error.transient) from error


def _others(
    config: Config, targets: Sequence[TargetConfig], host: Host, name: str, emit: Listener
) -> list[WorkspaceTarget]:
    """Return the other workspaces whose images are in the registry *name*."""
    if config.target.kind == "local":
        return []
    found = []
    for target in targets:
        if target.kind == "azure" and target.name != config.target.name:
            connection = open_workspace(host, target, config.directory, emit)
            if connection.registries.host().lower() == name.lower():
                found.append(connection)
    return found


def prune_facts(plan: PrunePlan, outcomes: Sequence[PruneOutcome] | None) -> dict[str, Any]:
    """Return a clean-up as plain values, for JSON."""
    done = None if outcomes is None else [one.deletion for one in outcomes if one.state == "deleted"]
    return {
        "registry": plan.inventory.host,
        "dry_run": outcomes is None,
        "manifests": len(plan.inventory.entries),
        "bytes": volume(plan.delete if done is None else done),
        "delete": [one.facts() for one in (plan.delete if outcomes is None else outcomes)],
        "keep": [{"repository": one.repository, "digest": one.digest, "reason": reason} for one, reason in plan.keep],
    }
