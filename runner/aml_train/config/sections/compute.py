"""The grammar of a target's ``compute`` in aml-train.yml: a name, or a cluster that is made where it is missing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from aml_train.config.model import ClusterConfig, SshConfig, TargetConfig
from aml_train.config.yaml.nodes import Faults, MapNode, find, place
from aml_train.config.yaml.shapes import Choice, Duration, Flag, Number, Text
from aml_train.config.yaml.structures import Either, Items, Key, Record

SYSTEM: Final = "system"

_IDENTITY: Final = Text(
    noun="`system`, or the resource id of a user-assigned identity",
    pattern=r"system|/subscriptions/[^/\s]+/.+/userAssignedIdentities/[^/\s]+",
    remedy="write `system`, or /subscriptions/…/userAssignedIdentities/NAME",
)
_COUNT: Final = Number(noun="a number of nodes", minimum=0, maximum=65_000)

CLUSTER: Final = Record(
    noun="a mapping with `name` and `size`",
    keys={
        "name": Key(
            Text(
                noun="2 to 32 letters, digits and `-`, beginning with a letter",
                pattern=r"[A-Za-z][A-Za-z0-9-]{0,30}[A-Za-z0-9]",
            ),
            "Name of the cluster.",
            required=True,
        ),
        "size": Key(
            Text(noun="a VM size, such as `Standard_NC6s_v3`", pattern=r"[A-Za-z0-9_-]{2,64}"),
            "VM size of its nodes.",
            required=True,
        ),
        "min-nodes": Key(_COUNT, "Nodes that are kept, and paid for, when there is nothing to do; 0 by default."),
        "max-nodes": Key(_COUNT, "Nodes that it grows to; 1 by default."),
        "idle": Key(Duration(), "How long a node is kept that has nothing to do; `2m` by default."),
        "tier": Key(
            Choice(words=("dedicated", "spot")),
            "`dedicated` (the default), or `spot`: cheaper, and may be taken away at any time.",
        ),
        "identity": Key(
            Either(
                noun="`system`, a resource id, or a list of them",
                scalar=_IDENTITY,
                items=Items(item=_IDENTITY, noun="a list of identities", least=1),
            ),
            "Identity of its nodes: `system`, or resource ids of user-assigned identities; none by default.",
        ),
        "subnet": Key(
            Text(
                noun="`VNET/SUBNET`, or a subnet's resource id",
                pattern=r"[^/\s]+/[^/\s]+|/subscriptions/[^/\s]+/.+/subnets/[^/\s]+",
            ),
            "Subnet that its nodes are in: `VNET/SUBNET` of the workspace's resource group, or a resource id.",
        ),
        "ssh": Key(
            Record(
                noun="a mapping with `user` and `public-key-file`",
                keys={
                    "user": Key(
                        Text(noun="a user's name", pattern=r"[a-z_][a-z0-9_-]{0,31}"), "User.", required=True
                    ),
                    "public-key-file": Key(
                        Text(noun="a path"),
                        "File with the user's public key, relative to this file.",
                        required=True,
                    ),
                },
                hints={"password": "a password would stand in the file: give `public-key-file`"},
            ),
            "User who may sign in to its nodes; none by default.",
        ),
        "update": Key(
            Flag(),
            "Whether a cluster that is there is changed to what is said here, where it may be; false by default: it is used as it is.",
        ),
    },
    hints={"idle-seconds": "it is called `idle` here, such as `idle: 2m`"},
)

COMPUTE: Final = Key(
    Either(
        noun="a compute's name, or a mapping with `name` and `size`",
        scalar=Text(noun="a compute's name"),
        keys=CLUSTER,
    ),
    "Compute that replaces the job's: its name, or a cluster that is made where it is missing.",
)


def compute_of(
    tree: MapNode, target: str, found: Any, *, directory: Path, faults: Faults
) -> tuple[str | None, ClusterConfig | None]:
    """Return the compute's name, and the cluster where more than that is said.

    Args:
        tree: the file.
        target: the target's name.
        found: the checked value of its ``compute``.
        directory: what paths are relative to.
        faults: takes what is wrong between several keys.
    """
    if not isinstance(found, Mapping):
        return found, None
    node = find(tree, "targets", target, "compute")
    mark = place(node, "name") if isinstance(node, MapNode) else tree.mark
    low = found.get("min-nodes", ClusterConfig.min_nodes)
    high = found.get("max-nodes", max(low, ClusterConfig.max_nodes))
    if low > high and isinstance(node, MapNode):
        faults.add(
            place(node, "min-nodes"),
            f"`min-nodes` is {low}, more than `max-nodes`, {high}",
            remedy=f"give `max-nodes` at least {low}",
        )
    ssh = found.get("ssh")
    key = None
    if isinstance(ssh, Mapping) and "public-key-file" in ssh and "user" in ssh:
        key = directory / Path(ssh["public-key-file"]).expanduser()
        if not key.is_file() and isinstance(node, MapNode):
            faults.add(
                place(node, "ssh"), f"there is no file {ssh['public-key-file']}", why="it is to hold a public key"
            )
    identity = found.get("identity", ())
    if "name" not in found or "size" not in found:
        return found.get("name"), None
    return found["name"], ClusterConfig(
        name=found["name"],
        size=found["size"],
        min_nodes=low,
        max_nodes=high,
        idle_seconds=found.get("idle", ClusterConfig.idle_seconds),
        tier=found.get("tier", ClusterConfig.tier),
        identity=(identity,) if isinstance(identity, str) else tuple(identity),
        subnet=found.get("subnet"),
        ssh=SshConfig(user=ssh["user"], public_key_file=key)
        if key is not None and isinstance(ssh, Mapping)
        else None,
        update=found.get("update", False),
        where=mark.where,
    )


def check_nodes(tree: MapNode, target: TargetConfig, document: Mapping[str, Any], faults: Faults) -> None:
    """Check that a job fits on the cluster that its target describes: the service would refuse it only after the image is made.

    Args:
        tree: the file.
        target: the target, whose compute the job runs on.
        document: the job's document.
        faults: takes what is wrong.
    """
    nodes = (document.get("resources") or {}).get("instance_count", 1)
    cluster = target.cluster
    if cluster is None or not isinstance(nodes, int) or nodes <= max(1, cluster.max_nodes):
        return
    node = find(tree, "targets", target.name, "compute")
    faults.add(
        place(node, "max-nodes") if isinstance(node, MapNode) else tree.mark,
        f"`{cluster.name}` grows to {cluster.max_nodes} node{'s' * (cluster.max_nodes != 1)}",
        why=f"the job's `resources.instance_count` is {nodes}",
        remedy=f"give `max-nodes` at least {nodes}",
    )
