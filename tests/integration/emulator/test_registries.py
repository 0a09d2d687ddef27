"""Registries by the unmodified azure-ai-ml; jobs need no containers here."""

from __future__ import annotations

import pytest

from tests.support.emulator_process import Emulator

pytestmark = pytest.mark.full


def test_a_registry_holds_assets_that_jobs_use(instant: Emulator) -> None:
    assert instant.admin("POST", "registries?name=shared").json()["registries"]["shared"] == 0
    seen = instant.client("registry", script="shared_steps.py", registry="shared")
    base = "azureml://registries/shared"
    assert seen["ids"] == [
        f"{base}/environments/plain/versions/1",
        f"{base}/models/m/versions/1",
        f"{base}/data/d/versions/1",
        f"{base}/components/c/versions/1",
    ]
    assert seen["names"] == ["built", "conda", "plain"]
    assert seen["conda"] == {"dependencies": ["python=3.11"]}
    assert (seen["build"], seen["validated"], seen["component"]) == (True, True, "python run.py")
    assert seen["shared"][:2] == ["theirs", "7"]
    assert seen["downloaded"] == ["weights.txt"]
    assert (seen["compute"], seen["tier"], seen["ended"]) == (None, "standard", "Completed")
    assert seen["registries"] == ["shared"]
