"""The registry under its Azure name: the unmodified azure-containerregistry, and the engine with a token of Entra ID."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.emulator_process import Emulator

if TYPE_CHECKING:
    pass


@pytest.mark.full
def test_the_sdk_untags_locks_and_deletes(emulator: Emulator) -> None:
    seen = emulator.client("change", script="registry_steps.py")
    assert seen["after"] == ["b", "locked"]
    assert seen["content"] == seen["digest"]
    assert seen["locked"] == [False, False, True]
    assert seen["refused"] == [["put", 405], ["untag", 405], ["manifest", 405], ["repository", 405], ["read", 405]]
    assert seen["left"] == ["b", "locked"]
    assert seen["listed"] == []
    assert seen["gone"]
    assert seen["again"] == [seen["digest"], "kept"]
