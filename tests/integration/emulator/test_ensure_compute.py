"""A target's cluster is made before a job is submitted: the command line against a real emulator in Azure's place."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.emulator_client import SECONDS, signed_in
from tests.support.emulator_process import CLIENT_SECONDS, Emulator, running

pytestmark = pytest.mark.full

JOB = """\
command: echo trained
environment: {image: 'python:3.11-slim-bookworm'}
experiment_name: clusters
"""
USER = "/subscriptions/s/resourcegroups/g/providers/Microsoft.ManagedIdentity/userAssignedIdentities/trainer"


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    with running(
        Emulator(
            tmp_path_factory.mktemp("emulator"), environment={"AML_EMULATOR_QUOTA": "standardNDASv4_A100Family=0"}
        )
    ) as service:
        yield service


def aml_train(
    emulator: Emulator, folder: Path, compute: dict[str, Any], *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Run the command on a project whose target has *compute*."""
    info = emulator.info
    target = {
        "subscription-id": info["subscription_id"],
        "resource-group": info["resource_group"],
        "workspace": info["workspace"],
        "compute": compute,
    }
    (folder / "job.yml").write_text(JOB)
    text = f"job: job.yml\ntarget: azure\ntargets: {json.dumps({'azure': target})}\n"
    (folder / "aml-train.yml").write_text(text)
    argv = [sys.executable, "-m", "aml_train", *arguments]
    environment = {**emulator.environment(), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    return subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True, timeout=CLIENT_SECONDS)


def shown(emulator: Emulator, name: str) -> dict[str, Any] | None:
    """Return what the emulator tells of a cluster."""
    found: dict[str, Any] | None = emulator.admin("GET", "status").json()["clusters"].get(name)
    return found


def arm(emulator: Emulator, name: str) -> dict[str, Any]:
    """Return a cluster as Azure Resource Manager shows it."""
    environment, info = emulator.environment(), emulator.info
    with signed_in(environment) as session:
        path = (
            f"/subscriptions/{info['subscription_id']}/resourceGroups/{info['resource_group']}/providers"
            f"/Microsoft.MachineLearningServices/workspaces/{info['workspace']}/computes/{name}?api-version=2024-10-01"
        )
        answer = session.get(f"https://management.azure.com{path}", timeout=SECONDS)
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
        return found


def test_a_cluster_is_made_used_again_and_changed(emulator: Emulator, tmp_path: Path) -> None:
    cluster = {
        "name": "trainers",
        "size": "Standard_NC6s_v3",
        "max-nodes": 2,
        "idle": "1h",
        "tier": "spot",
        "identity": USER,
        "subnet": "net/sub",
    }
    planned = aml_train(emulator, tmp_path, cluster, "plan")
    assert "compute   trainers: Standard_NC6s_v3, 0 to 2 nodes, spot; made where it is missing" in planned.stdout
    assert shown(emulator, "trainers") is None
    first = aml_train(emulator, tmp_path, cluster, "run")
    assert first.returncode == 0, first.stdout + first.stderr
    said = first.stdout + first.stderr
    assert "Making the compute trainers (Standard_NC6s_v3, 0 to 2 nodes, spot)" in said
    assert "The compute trainers is there." in said
    found = arm(emulator, "trainers")
    inner = found["properties"]["properties"]
    assert inner["vmPriority"] == "LowPriority"
    assert inner["scaleSettings"] == {"minNodeCount": 0, "maxNodeCount": 2, "nodeIdleTimeBeforeScaleDown": "PT1H"}
    assert inner["subnet"]["id"].endswith("/virtualNetworks/net/subnets/sub")
    assert (found["identity"]["type"], list(found["identity"]["userAssignedIdentities"])) == ("UserAssigned", [USER])
    # The node is free once the job's container is gone, which is after the job's end.
    deadline = time.monotonic() + SECONDS
    while (seen := shown(emulator, "trainers")) and seen["nodes"]["running"] and time.monotonic() < deadline:
        time.sleep(0.1)
    assert seen is not None
    assert seen["nodes"] == {"preparing": 0, "idle": 1, "running": 0}
    again = aml_train(emulator, tmp_path, {**cluster, "max-nodes": 3}, "run", "--fresh", "--no-wait")
    assert "max-nodes is 2, not 3. It is used as it is." in again.stdout + again.stderr
    changed = aml_train(emulator, tmp_path, {**cluster, "max-nodes": 3, "update": True}, "run", "--fresh")
    assert changed.returncode == 0, changed.stdout + changed.stderr
    assert "Changing the compute trainers: max-nodes is 2, not 3." in changed.stdout + changed.stderr
    assert arm(emulator, "trainers")["properties"]["properties"]["scaleSettings"]["maxNodeCount"] == 3
    attached = aml_train(emulator, tmp_path, {**cluster, "max-nodes": 1}, "run")
    assert "is not what" not in attached.stdout + attached.stderr
