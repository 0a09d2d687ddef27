"""Clusters that jobs run on: compared, created if missing, changed if allowed.

Shapes are those of AmlCompute in Azure Resource Manager, as AzureML's REST API shows it. An interrupted run leaves a cluster that is
complete or that Azure continues to create; the next run finds it and waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from aml_train.azure.names import nearest_of
from aml_train.azure.sdk_v2 import AzureV2, brief, translate
from aml_train.config.sections.targets import ClusterConfig
from aml_train.core.answers import Answer
from aml_train.core.clock import Clock
from aml_train.core.errors import AmlTrainError, InvalidError, ServiceError
from aml_train.core.events import Listener, Notice
from aml_train.core.text import iso_seconds

if TYPE_CHECKING:
    from azure.ai.ml.entities import AmlCompute

_TIERS: Final = {"dedicated": "dedicated", "lowpriority": "spot"}


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One setting, by its key in aml-train.yml. *fixed*: AzureML never changes it."""

    key: str
    wanted: str
    found: str
    fixed: bool

    def __str__(self) -> str:
        return f"{self.key} is {self.found}, not {self.wanted}"


def title(cluster: ClusterConfig) -> str:
    """Return a cluster in a few words."""
    nodes = f"{cluster.min_nodes} to {cluster.max_nodes} nodes"
    return f"{cluster.name} ({cluster.size}, {nodes}, {cluster.tier})"


def differences(cluster: ClusterConfig, found: Answer) -> tuple[Difference, ...]:
    """Return the settings of *found* that differ from *cluster*, ignoring case."""
    inner = found.at("properties.properties")
    scale = inner.at("scaleSettings")
    idle = iso_seconds(scale.optional_text("nodeIdleTimeBeforeScaleDown") or "")
    tier = inner.optional_text("vmPriority") or "Dedicated"
    pairs = (
        ("size", cluster.size, inner.optional_text("vmSize") or "unknown", True),
        ("tier", cluster.tier, _TIERS.get(tier.lower(), tier), True),
        ("min-nodes", str(cluster.min_nodes), str(scale.whole("minNodeCount") or 0), False),
        ("max-nodes", str(cluster.max_nodes), str(scale.whole("maxNodeCount")), False),
        ("idle", f"{cluster.idle_seconds:g}s", "unknown" if idle is None else f"{idle:g}s", False),
        ("identity", _identities(cluster.identity), _identities(_found_identity(found.at("identity"))), False),
    )
    differing = [
        Difference(key=key, wanted=wanted, found=there, fixed=fixed)
        for key, wanted, there, fixed in pairs
        if wanted.lower() != there.lower()
    ]
    subnet = inner.optional_text("subnet.id") or ""
    if not _same_subnet(cluster.subnet, subnet):
        differing.append(
            Difference(key="subnet", wanted=cluster.subnet or "none", found=subnet or "none", fixed=True)
        )
    return tuple(differing)


def _identities(given: tuple[str, ...]) -> str:
    return ", ".join(sorted(one.lower() for one in given)) or "none"


def _found_identity(identity: Answer) -> tuple[str, ...]:
    users = [name for name, _ in identity.members("userAssignedIdentities")]
    return (*(("system",) if "systemassigned" in (identity.optional_text("type") or "").lower() else ()), *users)


def _same_subnet(wanted: str | None, found: str) -> bool:
    if wanted is None:
        return not found
    if wanted.startswith("/"):
        return wanted.lower() == found.lower()
    vnet, _, subnet = wanted.partition("/")
    return found.lower().endswith(f"/virtualnetworks/{vnet}/subnets/{subnet}".lower())


PATIENCE_SECONDS: Final = 30 * 60.0
"""How long a cluster may take until it is there: Azure takes a minute or two."""

_POLLS: Final = (0.2, 0.5, 1.0, 2.0, 5.0)
_REPORT_SECONDS: Final = 30.0
_QUOTAS: Final = "https://learn.microsoft.com/azure/machine-learning/how-to-manage-quotas"


def ensure_cluster(service: AzureV2, cluster: ClusterConfig, *, listener: Listener, clock: Clock) -> None:
    """Have the cluster there.

    Raises:
        InvalidError: there is no such size, or a cluster of that name cannot become what is said.
        ServiceError: the quota does not hold it, Azure refuses it, or it does not get ready.
    """
    found = _settled(service, cluster, listener=listener, clock=clock)
    if found is None:
        _check_size(service, cluster)
        listener(Notice(text=f"Making the compute {title(cluster)}."))
        _put(service, cluster)
        _settled(service, cluster, listener=listener, clock=clock, wanted=True)
        listener(Notice(text=f"The compute {cluster.name} is there."))
        return
    if to_be_changed(cluster, found, listener):
        _put(service, cluster)
        _settled(service, cluster, listener=listener, clock=clock, wanted=True)


def to_be_changed(cluster: ClusterConfig, found: Answer, listener: Listener) -> bool:
    """Return whether the compute that has the cluster's name is to be changed; report how it differs.

    Raises:
        InvalidError: it is no cluster, or one that cannot become what is said.
    """
    kind = found.optional_text("properties.computeType")
    if kind != "AmlCompute":
        raise InvalidError(
            f"{cluster.where}: the compute {cluster.name} is there and is a {kind}, not a cluster.",
            hint="Give the cluster another name, or write the compute's name alone.",
        )
    changes = differences(cluster, found)
    fixed = [change for change in changes if change.fixed]
    if changes and not cluster.update:
        text = f"The compute {cluster.name} is not what {cluster.where} says: {'; '.join(map(str, changes))}. It is used as it is."
        listener(Notice(text=text if fixed else f"{text} `update: true` there changes it."))
        return False
    if fixed:
        raise InvalidError(
            f"{cluster.where}: the compute {cluster.name} cannot become what is said there: {'; '.join(map(str, fixed))}.",
            hint="AzureML changes that for no cluster that is there: give the cluster another name, or delete it.",
        )
    if changes:
        listener(Notice(text=f"Changing the compute {cluster.name}: {'; '.join(map(str, changes))}."))
    return bool(changes)


def _settled(
    service: AzureV2, cluster: ClusterConfig, *, listener: Listener, clock: Clock, wanted: bool = False
) -> Answer | None:
    """Return the compute, *wanted* if it was just created, once Azure is done with it.

    Raises:
        ServiceError: it failed, or takes too long.
    """
    began = reported = clock.now()
    polls = iter(_POLLS)
    pause = _POLLS[-1]
    while True:
        found = service.find_compute(cluster.name)
        state = (None if found is None else found.optional_text("properties.provisioningState")) or "Succeeded"
        if found is None and not wanted:
            return None
        if found is not None and state == "Succeeded":
            return found
        if found is not None and state in ("Failed", "Canceled"):
            raise ServiceError(
                f"The compute {cluster.name} could not be made: {_why(found)}",
                hint=f"Delete it (az ml compute delete --name {cluster.name}) and run again, or use another size.",
            )
        now = clock.now()
        if now - began > PATIENCE_SECONDS:
            raise ServiceError(
                f"The compute {cluster.name} is still {state} after {PATIENCE_SECONDS / 60:g} minutes.",
                hint="Look at it in Azure's portal; running again continues to wait.",
                transient=True,
            )
        if now - reported >= _REPORT_SECONDS:
            listener(Notice(text=f"The compute {cluster.name} is {state}, for {now - began:.0f} s."))
            reported = now
        pause = next(polls, pause)
        clock.sleep(pause)


def _why(found: Answer) -> str:
    """Return what Azure says of a compute that failed."""
    errors = [one.at("error") if one.has("error") else one for one in found.each("properties.provisioningErrors")]
    return " ".join(one.optional_text("message") or "" for one in errors).strip() or "Azure does not say why."


def _check_size(service: AzureV2, cluster: ClusterConfig) -> None:
    """Check that the size exists, if the identity may list sizes.

    Raises:
        InvalidError: there is none.
    """
    try:
        names = [size.text("name") for size in service.vm_sizes()]
    except ServiceError as error:
        if error.transient:
            raise
        return
    if names and cluster.size.lower() not in {name.lower() for name in names}:
        near = nearest_of(cluster.size.upper(), (name.upper() for name in names))
        raise InvalidError(f"{cluster.where}: there is no VM size {cluster.size!r} in {service.location()}. {near}")


def _put(service: AzureV2, cluster: ClusterConfig) -> None:
    """Send the cluster to AzureML, and return once it has taken it.

    Raises:
        InvalidError: AzureML refuses what is said of it.
        ServiceError: the quota does not hold it, or AzureML cannot be reached.
    """
    entity = _entity(cluster)
    try:
        # The poller that it returns is not needed: whether the cluster is there is read as everything else is.
        service.client.compute.begin_create_or_update(entity)
    except Exception as error:
        status = getattr(error, "status_code", None)
        if status == 409:
            return  # Another process creates it at this moment.
        raise _refusal(cluster, error, status) from error


def _refusal(cluster: ClusterConfig, error: Exception, status: object) -> AmlTrainError:
    translated = translate(error, f"Making the compute {cluster.name}")
    if status != 400:
        return translated
    said = brief(str(getattr(error, "message", error)))
    if "quota" in said.lower():
        return ServiceError(
            f"{cluster.where}: the quota does not hold the compute {title(cluster)}: {said}",
            hint=f"Ask for more quota ({_QUOTAS}), or use another size or tier, or fewer `min-nodes`.",
        )
    return InvalidError(f"{cluster.where}: AzureML refuses the compute {title(cluster)}: {said}")


def _entity(cluster: ClusterConfig) -> AmlCompute:
    from azure.ai.ml.entities import (
        AmlCompute,
        IdentityConfiguration,
        ManagedIdentityConfiguration,
        NetworkSettings,
    )

    users = [ManagedIdentityConfiguration(resource_id=one) for one in cluster.identity if one != "system"]
    kinds = [*(["SystemAssigned"] if "system" in cluster.identity else []), *(["UserAssigned"] if users else [])]
    identity = IdentityConfiguration(type=",".join(kinds), user_assigned_identities=users or None) if kinds else None
    network = None
    if cluster.subnet is not None:
        vnet, _, subnet = cluster.subnet.partition("/") if not cluster.subnet.startswith("/") else ("", "", "")
        network = NetworkSettings(vnet_name=vnet or None, subnet=subnet or cluster.subnet)
    return AmlCompute(
        name=cluster.name,
        size=cluster.size,
        min_instances=cluster.min_nodes,
        max_instances=cluster.max_nodes,
        idle_time_before_scale_down=int(cluster.idle_seconds),
        tier="low_priority" if cluster.tier == "spot" else "dedicated",
        identity=identity,
        network_settings=network,
    )
