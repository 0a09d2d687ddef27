"""What the checks of Azure conclude: subjects, roles, tokens."""

from __future__ import annotations

import azure.identity  # noqa: F401 - its import looks for processes, which a test may not
import pytest

from aml_train.azure.doctor import Permission, actions_in, allows

SCIENTIST: Permission = {
    "actions": [
        f"Microsoft.MachineLearningServices/workspaces/*/{one}" for one in ("read", "action", "delete", "write")
    ],
    "notActions": [
        "Microsoft.MachineLearningServices/workspaces/delete",
        "Microsoft.MachineLearningServices/workspaces/computes/*/write",
    ],
}
ML = "Microsoft.MachineLearningServices/workspaces"


@pytest.mark.parametrize(
    ("permission", "action", "expected"),
    [
        (SCIENTIST, f"{ML}/jobs/write", True),
        (SCIENTIST, f"{ML.upper()}/jobs/WRITE", True),
        (SCIENTIST, f"{ML}/computes/read", True),
        (SCIENTIST, f"{ML}/computes/write", False),
        (SCIENTIST, f"{ML}/computes/start/write", False),
        (SCIENTIST, f"{ML}/delete", False),
        ({"actions": ["*/read"]}, f"{ML}/jobs/write", False),
        ({"actions": ["*"]}, f"{ML}/computes/write", True),
        ({}, f"{ML}/jobs/write", False),
    ],
)
def test_what_a_permission_allows(permission: Permission, action: str, expected: bool) -> None:
    assert allows(permission, action) is expected


@pytest.mark.parametrize(
    ("access", "expected"),
    [
        ([{"name": "r", "actions": ["pull"]}], {"pull"}),
        ([{"name": "r", "actions": ["pull"]}, {"name": "r", "actions": ["push"]}], {"pull", "push"}),
        ([{"name": "r", "actions": ["*"]}], {"*", "pull", "push", "delete"}),
        ([{"name": "other", "actions": ["pull"]}], set()),
        ([5, {"name": "r"}, {"name": "r", "actions": "pull"}], set()),
        ("pull", set()),
        (None, set()),
    ],
)
def test_what_a_token_of_a_registry_allows(access: object, expected: set[str]) -> None:
    assert actions_in({"access": access}, "r") == expected
