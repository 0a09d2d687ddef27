"""What a cluster is to be, beside what it is. Pure.

Shapes are those of AmlCompute in Azure Resource Manager, as AzureML's REST API shows it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from aml_train.config import ClusterConfig
from aml_train.core.answers import Answer
from aml_train.core.errors import InvalidError

_LONGEST_DURATION: Final = 40
_DURATION: Final = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.\d+)?S)?)?")
_TIERS: Final = {"dedicated": "dedicated", "lowpriority": "spot"}


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One setting, in the words of aml-train.yml. *fixed*: AzureML changes it for no cluster that is there."""

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
    """Return in what *found*, a compute of Azure Resource Manager, is not as *cluster* says. A case of letters is none."""
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
        ("ssh.user", cluster.ssh.user if cluster.ssh else "none", _user(inner), True),
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


def check_kind(cluster: ClusterConfig, found: Answer) -> None:
    """Look whether the compute that has the cluster's name is one.

    Raises:
        InvalidError: it is something else.
    """
    kind = found.optional_text("properties.computeType")
    if kind != "AmlCompute":
        raise InvalidError(
            f"{cluster.where}: the compute {cluster.name} is there and is a {kind}, not a cluster.",
            hint="Give the cluster another name, or write the compute's name alone.",
        )


def left_alone(cluster: ClusterConfig, changes: tuple[Difference, ...]) -> str:
    """Return what is told where a cluster differs and is used as it is."""
    text = f"The compute {cluster.name} is not what {cluster.where} says: {'; '.join(map(str, changes))}. It is used as it is."
    if any(change.fixed for change in changes):
        return text
    return f"{text} `update: true` there changes it."


def check_changes(cluster: ClusterConfig, changes: tuple[Difference, ...]) -> None:
    """Look whether AzureML can make these changes.

    Raises:
        InvalidError: not all of them.
    """
    fixed = [change for change in changes if change.fixed]
    if fixed:
        raise InvalidError(
            f"{cluster.where}: the compute {cluster.name} cannot become what is said there: {'; '.join(map(str, fixed))}.",
            hint="AzureML changes that for no cluster that is there: give the cluster another name, or delete it.",
        )


def iso_seconds(text: str) -> float | None:
    """Return a duration such as ``PT2M`` in seconds, None where it is none."""
    match = _DURATION.fullmatch(text[:_LONGEST_DURATION])
    if match is None or not any(match.groups()):
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def _identities(given: tuple[str, ...]) -> str:
    return ", ".join(sorted(one.lower() for one in given)) or "none"


def _found_identity(identity: Answer) -> tuple[str, ...]:
    users = [name for name, _ in identity.members("userAssignedIdentities")]
    return (*(("system",) if "systemassigned" in (identity.optional_text("type") or "").lower() else ()), *users)


def _user(inner: Answer) -> str:
    return inner.optional_text("userAccountCredentials.adminUserName") or "none"


def _same_subnet(wanted: str | None, found: str) -> bool:
    if wanted is None:
        return not found
    if wanted.startswith("/"):
        return wanted.lower() == found.lower()
    vnet, _, subnet = wanted.partition("/")
    return found.lower().endswith(f"/virtualnetworks/{vnet}/subnets/{subnet}".lower())
