"""Registries by the unmodified azure-ai-ml; jobs need no containers here."""

from __future__ import annotations

import pytest

from tests.support.emulator_process import Emulator

pytestmark = pytest.mark.full

#: The images that play curated environments, by pattern of their names.
IMAGES = {"sklearn-1.5": "sklearn:1", "AzureML-*": "other:1"}


@pytest.fixture(scope="module")
def emulator(instant: Emulator) -> Emulator:
    for pattern, image in IMAGES.items():
        assert instant.admin("POST", f"environments?pattern={pattern}&image={image}").status_code == 200
    return instant


def test_curated_environments_are_listed_and_got(emulator: Emulator) -> None:
    seen = emulator.client("curated", script="shared_steps.py")
    assert {"sklearn-1.5", "AzureML-sklearn-1.5"} <= set(seen["names"])
    assert "lightgbm-3.3" not in seen["names"]
    assert seen["versions"] == ["1"]
    assert seen["latest"] == [
        "sklearn-1.5",
        "1",
        "sklearn:1",
        "azureml://registries/azureml/environments/sklearn-1.5/versions/1",
    ]
    assert (seen["exact"], seen["workspace"], seen["ended"]) == ("30", "other:1", "Completed")


def test_a_registry_holds_assets_that_jobs_use(emulator: Emulator) -> None:
    assert emulator.admin("POST", "registries?name=shared").json() == {"registries": {"azureml": 5, "shared": 0}}
    seen = emulator.client("registry", script="shared_steps.py", registry="shared")
    base = "azureml://registries/shared"
    assert seen["ids"] == [
        f"{base}/environments/plain/versions/1",
        f"{base}/models/m/versions/1",
        f"{base}/data/d/versions/1",
        f"{base}/components/c/versions/1",
    ]
    assert seen["names"] == ["built", "conda", "plain"]
    assert seen["conda"] == {"dependencies": ["python=3.11"]}
    assert (seen["build"], seen["component"]) == (True, "python run.py")
    assert seen["shared"][:2] == ["theirs", "7"]
    assert seen["downloaded"] == ["weights.txt"]
    assert (seen["compute"], seen["tier"], seen["ended"]) == (None, "standard", "Completed")
    assert seen["registries"] == ["shared"]
