"""A target's compute: a name, or a cluster that is made where it is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from aml_train.config.load import load_config
from aml_train.config.sections.targets import ClusterConfig, TargetConfig
from aml_train.core.errors import InvalidError

USER = "/subscriptions/s/resourceGroups/g/providers/Microsoft.ManagedIdentity/userAssignedIdentities/trainer"


def target(folder: Path, compute: str, name: str = "azure") -> TargetConfig:
    (folder / "aml-train.yml").write_text(
        f"job: {{command: 'true', environment: {{image: 'x:1'}}}}\ntarget: {name}\ntargets:\n  {name}:\n    compute: {compute}\n"
    )
    return load_config(None, directory=folder).target


def test_a_name_is_a_name(tmp_path: Path) -> None:
    found = target(tmp_path, "gpu-cluster")
    assert (found.compute, found.cluster) == ("gpu-cluster", None)


@pytest.mark.parametrize("name", ["azure", "local"])
def test_a_cluster_has_defaults(name: str, tmp_path: Path) -> None:
    found = target(tmp_path, "{name: gpu, size: Standard_NC6s_v3}", name)
    assert found.compute == "gpu"
    assert found.cluster == ClusterConfig(name="gpu", size="Standard_NC6s_v3", where="aml-train.yml:5")


def test_one_identity_is_a_list_of_one(tmp_path: Path) -> None:
    found = target(tmp_path, "{name: gpu, size: Standard_NC6s_v3, identity: system}")
    assert found.cluster is not None
    assert found.cluster.identity == ("system",)


def test_a_cluster_can_say_everything(tmp_path: Path) -> None:
    found = target(
        tmp_path,
        f"{{name: gpu, size: Standard_NC6s_v3, min-nodes: 2, max-nodes: 4, idle: 5m, tier: spot, identity: [system, {USER}],"
        " subnet: net/sub, update: true}",
    )
    assert found.cluster == ClusterConfig(
        name="gpu",
        size="Standard_NC6s_v3",
        min_nodes=2,
        max_nodes=4,
        idle_seconds=300,
        tier="spot",
        identity=("system", USER),
        subnet="net/sub",
        update=True,
        where="aml-train.yml:5",
    )


@pytest.mark.parametrize(
    ("compute", "message"),
    [
        ("{name: gpu}", "aml-train.yml:5: the key `size` of `targets.azure.compute` is missing"),
        ("{name: gpu, size: S_1, min-nodes: 3, max-nodes: 2}", "aml-train.yml:5: `min-nodes` is 3, more than"),
        ("{name: gpu, size: S_1, identity: me}", "write `system`, or /subscriptions/"),
        ("{name: gpu, size: S_1, idle-seconds: 5}", "it is called `idle` here"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(compute: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidError) as raised:
        target(tmp_path, compute)
    assert message in raised.value.message
