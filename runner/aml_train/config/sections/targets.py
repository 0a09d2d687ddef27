"""``target:`` and ``targets:``: where jobs run, and clusters to make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from aml_train.config.section import VARIABLE_NAME, CheckedTree, key, keys_of, make, record, section
from aml_train.config.yaml.nodes import MapNode, Mark, find, shown
from aml_train.config.yaml.shapes import Choice, Duration, Flag, Number, Text, nearest
from aml_train.config.yaml.structures import Either, Items, Key, Record, Table

#: Ways to sign in to Azure: those of azure-identity, and ``environment`` for a choice among the variables that are set.
SIGN_INS: Final = (
    "cli", "oidc", "workload-identity", "managed-identity", "secret", "creds", "environment",
)  # fmt: skip
LOCAL: Final = "local"
AZURE: Final = "azure"

_HOST: Final = (
    r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)+(?::[0-9]{1,5})?"
)
_PUSH_HOST: Final = rf"(?:{_HOST}|localhost:[0-9]{{1,5}})"
_GUID: Final = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
_IDENTITY: Final = Text(
    noun="`system`, or the resource id of a user-assigned identity",
    pattern=r"system|/subscriptions/[^/\s]+/.+/userAssignedIdentities/[^/\s]+",
    remedy="write `system`, or /subscriptions/…/userAssignedIdentities/NAME",
)
WORKSPACE: Final = Text(noun="a workspace's name", pattern=r"[A-Za-z0-9][A-Za-z0-9_-]{1,254}")
_COUNT: Final = Number(noun="a number of nodes", minimum=0, maximum=65_000)


@section
class ClusterConfig:
    """A target's ``compute:`` that is made if it is missing.

    *where* is ``file:line``.
    """

    name: str = key(
        Text(
            noun="2 to 32 letters, digits and `-`, beginning with a letter",
            pattern=r"[A-Za-z][A-Za-z0-9-]{0,30}[A-Za-z0-9]",
        ),
        "Name of the cluster.",
    )
    size: str = key(
        Text(noun="a VM size, such as `Standard_NC6s_v3`", pattern=r"[A-Za-z0-9_-]{2,64}"), "VM size of its nodes."
    )
    min_nodes: int = key(
        _COUNT, "Nodes that are kept, and paid for, when there is nothing to do; 0 by default.", default=0
    )
    max_nodes: int = key(_COUNT, "Nodes that it grows to; 1 by default.", default=1)
    idle_seconds: float = key(
        Duration(), "How long a node is kept that has nothing to do; `2m` by default.", default=120.0, name="idle"
    )
    tier: Literal["dedicated", "spot"] = key(
        Choice(words=("dedicated", "spot")),
        "`dedicated` (the default), or `spot`: cheaper, and may be taken away at any time.",
        default="dedicated",
    )
    identity: tuple[str, ...] = key(
        Either(
            noun="`system`, a resource id, or a list of them",
            scalar=_IDENTITY,
            items=Items(item=_IDENTITY, noun="a list of identities", least=1),
        ),
        "Identity of its nodes: `system`, or resource ids of user-assigned identities; none by default.",
        default=(),
    )
    subnet: str | None = key(
        Text(
            noun="`VNET/SUBNET`, or a subnet's resource id",
            pattern=r"[^/\s]+/[^/\s]+|/subscriptions/[^/\s]+/.+/subnets/[^/\s]+",
        ),
        "Subnet that its nodes are in: `VNET/SUBNET` of the workspace's resource group, or a resource id.",
        default=None,
    )
    update: bool = key(
        Flag(),
        "Whether an existing cluster is changed to these settings, as far as Azure allows it; false by default.",
        default=False,
    )
    where: str = ""


_COMPUTE: Final = Either(
    noun="a compute's name, or a mapping with `name` and `size`",
    scalar=Text(noun="a compute's name"),
    keys=record(
        ClusterConfig,
        noun="a mapping with `name` and `size`",
        hints={"idle-seconds": "it is called `idle` here, such as `idle: 2m`"},
    ),
    short="name",
)


@section
class TargetConfig:
    """One of ``targets:``.

    Attributes:
        name: ``local`` is the local AzureML; any other name is a workspace in Azure.
        kind: which of the two it is.
        compute: the name of the compute that replaces the job's; None leaves the job's.
        cluster: that compute as the file describes it; None if the file has only its name.
        environments: for ``local``, images instead of curated environments, by pattern.
    """

    name: str
    kind: Literal["local", "azure"]
    subscription_id: str | None = key(
        Text(noun="a subscription's GUID", pattern=_GUID),
        "Subscription; by default that of `config.json`.",
        default=None,
    )
    resource_group: str | None = key(
        Text(noun="a resource group's name", pattern=r"[\w().-]{1,90}"),
        "Resource group; by default that of `config.json`.",
        default=None,
    )
    workspace: str | None = key(
        WORKSPACE,
        "Workspace; by default that of `config.json`.",
        default=None,
    )
    sign_in: str | None = key(
        Choice(words=SIGN_INS),
        "Way to sign in to Azure: `cli`, `oidc`, `workload-identity`, `managed-identity`, `secret`, `creds` or "
        "`environment`; `AML_TRAIN_SIGN_IN` wins. By default it follows from what is set: docs/azure.md.",
        default=None,
    )
    registry: str | None = key(
        Text(noun="a registry's host, such as `myregistry.azurecr.io`", pattern=_HOST),
        "Registry that the image is pushed to; the workspace's own by default.",
        default=None,
    )
    push_registry: str | None = key(
        Text(noun="a registry's host, such as `localhost:5000`", pattern=_PUSH_HOST),
        "Name by which the Docker engine reaches that registry, if it is another.",
        default=None,
    )
    registry_user: str | None = key(
        Text(noun="a user's name", pattern=r"[^\s:]{1,255}"),
        "User who signs in to that registry with a password: an admin user, a registry's token, or another registry's user.",
        default=None,
    )
    registry_password_variable: str = key(
        Text(noun="an environment variable's name", pattern=VARIABLE_NAME),
        "Environment variable that holds that password; `AML_TRAIN_REGISTRY_PASSWORD` by default.",
        default="AML_TRAIN_REGISTRY_PASSWORD",
    )
    compute: str | None = key(
        _COMPUTE,
        "Compute that replaces the job's: its name, or a cluster that is made if it is missing.",
        default=None,
    )
    cluster: ClusterConfig | None = None
    environments: Mapping[str, str] = key(
        Table(
            noun="a mapping of patterns to images",
            value=Text(noun="an image of this machine, such as `my-image:1`", pattern=r"[^\s]+"),
            key=Text(noun="a pattern of names, such as `AzureML-acpt-*`", pattern=r"[^\s=,]+"),
        ),
        "Images of this machine that replace Azure's curated environments, by patterns of their `NAME` or `NAME:VERSION`.",
        factory=dict,
    )


_KEYS: Final = keys_of(TargetConfig)
_OF_LOCAL: Final = ("compute", "environments")
TARGET: Final = Text(noun="a target's name")
TARGETS: Final = Table(
    noun="a mapping of targets",
    key=Text(noun="letters, digits, `_` and `-`", pattern=r"[A-Za-z0-9][A-Za-z0-9_-]*"),
    value=Record(
        noun="a mapping with such keys as `workspace`",
        keys={name: one for name, one in _KEYS.items() if name != "environments"},
    ),
    special={
        LOCAL: Key(
            Either(
                noun="a mapping, or nothing",
                nothing=True,
                keys=Record(
                    noun="a mapping",
                    keys={name: _KEYS[name] for name in _OF_LOCAL},
                    hints=dict.fromkeys(
                        ("subscription-id", "resource-group", "workspace"), "the local target needs no workspace"
                    ),
                ),
            ),
            "",
        )
    },
)


def choose_target(checked: CheckedTree, given: str | None) -> TargetConfig | None:
    """Choose the target: *given*, else the file's, else the local AzureML.

    ``azure`` needs no entry: config.json or the environment may name its workspace. None after a fault.
    """
    name = given if given is not None else checked.values.get("target", LOCAL)
    found = checked.section("targets").get(name)
    if name == LOCAL:
        return _target(checked, name, found or {})
    if checked.has("targets", name):
        return configured_target(checked, name)
    if name == AZURE:
        return TargetConfig(name=AZURE, kind="azure")
    written = find(checked.tree, "targets")
    names = dict.fromkeys([LOCAL, *(written.entries if isinstance(written, MapNode) else ()), AZURE])
    near = nearest(name, tuple(names))
    remedy = f"did you mean `{near}`?" if near else f"known are {', '.join(f'`{shown(one)}`' for one in names)}"
    mark = Mark(file="--target") if given is not None else checked.mark("target")
    checked.faults.add(mark, f"the target `{shown(name)}` is not configured", remedy=remedy)
    return None


def configured_target(checked: CheckedTree, name: str) -> TargetConfig | None:
    """Return the entry of ``targets`` of that name; None if there is none."""
    found = checked.section("targets").get(name)
    return _target(checked, name, found) if isinstance(found, dict) else None


def _target(checked: CheckedTree, name: str, found: Mapping[str, Any]) -> TargetConfig:
    kind, compute = "local" if name == LOCAL else "azure", found.get("compute", {})
    cluster = _cluster(checked, name, compute)
    return make(TargetConfig, found, name=name, kind=kind, compute=compute.get("name"), cluster=cluster)


def _cluster(checked: CheckedTree, target: str, found: Mapping[str, Any]) -> ClusterConfig | None:
    """Make the cluster of a target; None after a fault in its name or size."""
    keys = ("targets", target, "compute")
    low = found.get("min-nodes", ClusterConfig.min_nodes)
    high = found.get("max-nodes", max(low, ClusterConfig.max_nodes))
    if low > high:
        what = f"`min-nodes` is {low}, more than `max-nodes`, {high}"
        checked.fault(what, *keys, "min-nodes", remedy=f"give `max-nodes` at least {low}")
    if not found.keys() >= {"name", "size"}:
        return None
    return make(ClusterConfig, found, max_nodes=high, where=checked.place(*keys, "name").where)


def check_nodes(checked: CheckedTree, target: TargetConfig, job: Mapping[str, Any]) -> None:
    """Check that the job fits on the cluster of its target.

    The service would refuse it only after the image is built.
    """
    nodes, cluster = (job.get("resources") or {}).get("instance_count", 1), target.cluster
    if cluster is not None and isinstance(nodes, int) and nodes > max(1, cluster.max_nodes):
        checked.fault(
            f"`{cluster.name}` grows to {cluster.max_nodes} node{'s' * (cluster.max_nodes != 1)}",
            *("targets", target.name, "compute", "max-nodes"),
            why=f"the job's `resources.instance_count` is {nodes}",
            remedy=f"give `max-nodes` at least {nodes}",
        )
