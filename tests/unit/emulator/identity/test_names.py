"""The names of workspaces, and the file that keeps them."""

from __future__ import annotations

from pathlib import Path

import pytest

from aml_emulator.identity.identity import WorkspaceNames
from tests.unit.emulator.parts import IDENTITY


def test_a_workspace_has_ids_of_its_own_and_the_first_one_s_place() -> None:
    names = WorkspaceNames(IDENTITY)
    made = names.create("Team-A")
    assert made.workspace_arm_id.endswith("/workspaces/Team-A")
    assert made.resource_group_id == IDENTITY.resource_group_id
    assert made.client_secret == IDENTITY.client_secret
    own = {made.workspace_id, made.instance, made.blob_container, made.artifact_container, made.file_share}
    assert own.isdisjoint({IDENTITY.workspace_id, IDENTITY.instance, IDENTITY.blob_container, "azureml"})
    assert names.get("team-a") is made
    assert names.all() == (IDENTITY, made)


@pytest.mark.parametrize("name", ["", "ab", "-abc", "a b c", "a/b/c", "x" * 34, "añb"])
def test_names_that_azure_takes_not(name: str) -> None:
    with pytest.raises(ValueError, match=r"3 to 33 letters, digits, '-' and '_'"):
        WorkspaceNames(IDENTITY).create(name)


def test_they_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "workspaces.json"
    names = WorkspaceNames(IDENTITY, file)
    one, two = names.create("one"), names.create("two")
    names.remove("ONE")
    names.remove("unknown")
    names.remove("local")
    assert file.stat().st_mode & 0o777 == 0o600
    assert WorkspaceNames(IDENTITY, file).all() == (IDENTITY, two)
    assert one.owns(one.file_share)
    assert one.owns(f"0123-{one.instance}-codes-4567")
    assert not one.owns(two.blob_container)
