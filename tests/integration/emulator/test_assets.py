"""Assets by the unmodified azure-ai-ml, as Azure answered it in 2026."""

from __future__ import annotations

from tests.support.emulator_process import Emulator


def test_assets_are_registered_validated_and_archived(instant: Emulator) -> None:
    assert instant.client("assets", script="asset_steps.py") == {
        "active": ["2"],
        "labels": {"azureml.labels": "latest"},
        "stage": "Development",
        "validated": True,
        "described": "says it",
        "missing": ["ModelNotFound"],
    }
