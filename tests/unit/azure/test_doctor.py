"""What the checks of Azure conclude: subjects, roles, tokens."""

from __future__ import annotations

import azure.identity  # noqa: F401 - its import looks for processes, which a test may not
import pytest

from aml_train.azure.clouds import AZURE_PUBLIC
from aml_train.azure.doctor.probe import Probe, Wanted
from aml_train.azure.doctor.registry import actions_in
from aml_train.azure.doctor.workspace import Permission, allows
from aml_train.azure.http import WorkspaceId
from aml_train.config.sections.targets import TargetConfig
from aml_train.core.errors import ServiceError

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


def probe(compute: str | None = "c", size: str | None = None, repository: str | None = None) -> Probe:
    place = WorkspaceId(subscription_id="s", resource_group="g", name="w")
    wanted = Wanted(
        target=TargetConfig(name="azure", kind="azure"),
        workspace=place,
        compute=compute,
        size=size,
        repository=repository,
    )
    return Probe(wanted, AZURE_PUBLIC, environ={}, assertion=None, fetched=lambda _token: None)


def test_a_resource_id_that_would_lead_elsewhere_gets_no_token() -> None:
    with pytest.raises(ServiceError, match="is no resource id"):
        probe().get(".evil.example/x", "Looking", "2024-01-01")
