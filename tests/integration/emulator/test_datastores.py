"""Datastores by the unmodified azure-ai-ml, with everything real: by key, by SAS, and by the caller's own identity."""

from __future__ import annotations

import pytest

from tests.integration.conftest import BASE
from tests.support.emulator_process import Emulator


@pytest.mark.full
def test_datastores_of_each_kind_are_registered_and_used(emulator: Emulator) -> None:
    seen = emulator.client("datastores", script="data_steps.py", image=BASE)
    assert seen["secrets"] == {
        "bykey": "AccountKeyConfiguration",
        "bysas": "SasTokenConfiguration",
        "byidentity": "NoneCredentialConfiguration",
    }
    assert all(f"/datastores/{name}/paths/LocalUpload/" in path for name, path in seen["uploaded"].items())
    assert seen["ended"] == "Completed"
    assert "bykeybysasbyidentity" in seen["log"]
    assert seen["lake"] == ["AzureDataLakeGen2", "x", "yyy", "NoneCredentialConfiguration"]
    assert seen["share"] == ["AzureFile", "x", "zzz", "AccountKeyConfiguration"]
    own = ["workspaceblobstore", "workspaceartifactstore", "workspacefilestore", "workspaceworkingdirectory"]
    assert seen["left"] == [*own, "bykey", "byidentity", "lake", "share"]
    assert seen["assets"] == ["byidentity", "bysas"]
