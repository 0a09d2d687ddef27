"""Assets by the unmodified azure-ai-ml, as Azure answered it in 2026."""

from __future__ import annotations

from tests.support.emulator_process import Emulator


def test_assets_are_validated_and_archived(instant: Emulator) -> None:
    found = instant.client("assets", script="asset_steps.py")
    assert found == {"active": ["2"], "validated": True, "missing": ["ModelNotFound"]}
