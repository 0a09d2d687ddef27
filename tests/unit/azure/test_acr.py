"""Who signs in to the registry of the target azure, and whether the compute may pull."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from aml_train.azure import acr
from aml_train.azure.acr import location_of, password_of, pull_doubt
from aml_train.azure.clouds import AZURE_PUBLIC
from aml_train.azure.workspace import AzureRest
from aml_train.config.sections.targets import TargetConfig
from aml_train.core.errors import ServiceError
from aml_train.core.events import Event, Notice
from aml_train.image.registry.auth import RegistryAuth
from aml_train.image.registry.client import RegistryLocation
from tests.support.plain_answers import answered
from tests.unit.azure.test_target import WORKSPACE, identity

ARM = "https://management.azure.com"
GROUP = "/subscriptions/sub/resourceGroups/group"
REGISTRY = f"{GROUP}/providers/Microsoft.ContainerRegistry/registries/mine"
OTHER = f"{GROUP}/providers/Microsoft.ContainerRegistry/registries/other"
SPACE = f"{ARM}{GROUP}/providers/Microsoft.MachineLearningServices/workspaces/space"
LISTED = f"{ARM}/subscriptions/sub/providers/Microsoft.ContainerRegistry/registries"
ROLE = "/subscriptions/sub/providers/Microsoft.Authorization/roleDefinitions/role"
ACR_PULL = {"actions": ["Microsoft.ContainerRegistry/registries/pull/read"]}
HOST = "mine.azurecr.io"


def located(
    host: str, settings: TargetConfig, *, password: str | None = None, **outer: str
) -> tuple[RegistryLocation, list[Event], list[str]]:
    received: list[Event] = []
    fetched: list[str] = []
    location = location_of(
        host,
        settings,
        password=password,
        sign_in=identity(),
        scope=AZURE_PUBLIC.registry_scope,
        outer=outer,
        listener=received.append,
        fetched=fetched.append,
    )
    return location, received, fetched


def refusing(monkeypatch: pytest.MonkeyPatch, *, transient: bool = False) -> None:
    def refuse(_self: acr.AcrLogin) -> RegistryAuth:
        raise ServiceError(f"The registry {HOST} refused the sign-in: it answered 401.", transient=transient)

    monkeypatch.setattr(acr.AcrLogin, "__call__", refuse)


@pytest.mark.parametrize("host", [HOST, "registry.example"])
def test_a_user_with_a_password_wins(host: str) -> None:
    settings = TargetConfig(name="azure", kind="azure", registry_user="me", push_registry="localhost:5000")
    assert password_of(settings, {"AML_TRAIN_REGISTRY_PASSWORD": "secret-word"}) == "secret-word"
    location, _, fetched = located(host, settings, password="secret-word")
    auth = location.credentials()
    assert auth is not None
    assert (auth.username, auth.password, location.push_name) == ("me", "secret-word", "localhost:5000")
    assert fetched == ["secret-word"]
    assert not location.renew()


def test_docker_login_stands_in_for_an_identity_that_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    refusing(monkeypatch)
    settings = TargetConfig(name="azure", kind="azure")
    with pytest.raises(ServiceError, match="refused the sign-in"):
        located(HOST, settings, DOCKER_CONFIG=str(tmp_path))
    (tmp_path / "config.json").write_text(f'{{"auths": {{"{HOST}": {{"auth": "bWU6d29yZA=="}}}}}}')
    location, received, _ = located(HOST, settings, DOCKER_CONFIG=str(tmp_path))
    auth = location.credentials()
    assert auth is not None
    assert (auth.username, auth.password) == ("me", "word")
    (notice,) = received
    assert isinstance(notice, Notice)
    assert notice.level == "warning"
    assert notice.text.endswith(f"The credentials that docker login keeps for {HOST} are used instead.")
    refusing(monkeypatch, transient=True)
    with pytest.raises(ServiceError, match="refused the sign-in"):
        located(HOST, settings, DOCKER_CONFIG=str(tmp_path))


def asked(
    monkeypatch: pytest.MonkeyPatch,
    answers: Mapping[str, Any],
    *,
    host: str = HOST,
    compute: str | None = "azureml:cpu",
) -> Notice | None:
    def read(_self: AzureRest, url: str, _what: str, *, params: Mapping[str, str] | None = None, **_more: Any) -> Any:
        if url.endswith("/roleAssignments"):
            url += "?" + (params or {})["$filter"]
        answer = answers.get(url)
        if isinstance(answer, Exception):
            raise answer
        return answered(answer)

    monkeypatch.setattr(AzureRest, "read", read)
    found = pull_doubt(AzureRest(WORKSPACE, identity()), host, compute)
    if found is None:
        return None
    return Notice(text=f"{found.reason} {found.command}".rstrip(), level="warning" if found.command else "info")


def world(**changes: Any) -> dict[str, Any]:
    """A compute with an identity that has AcrPull on the workspace's own registry."""
    assignments = f"{ARM}{REGISTRY}/providers/Microsoft.Authorization/roleAssignments?assignedTo('compute-id')"
    return {
        SPACE: {"properties": {"containerRegistry": REGISTRY}, "identity": {"principalId": "space-id"}},
        f"{SPACE}/computes/cpu": {"identity": {"principalId": "compute-id"}},
        f"{ARM}{REGISTRY}": {"id": REGISTRY, "properties": {"loginServer": HOST}},
        assignments: {"value": [{"properties": {"roleDefinitionId": ROLE, "scope": GROUP}}]},
        f"{ARM}{ROLE}": {"properties": {"permissions": [ACR_PULL]}},
        **changes,
    }


def assigned(principal: str, registry: str = REGISTRY) -> str:
    return f"{ARM}{registry}/providers/Microsoft.Authorization/roleAssignments?assignedTo('{principal}')"


def test_a_compute_that_may_pull(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked(monkeypatch, world()) is None
    user_assigned = {"identity": {"userAssignedIdentities": {"x": {"principalId": "compute-id"}, "y": None}}}
    assert asked(monkeypatch, world(**{f"{SPACE}/computes/cpu": user_assigned})) is None


def test_a_compute_that_may_not(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[dict[str, Any]] = [
        {"value": []},
        {"value": [{"properties": {"roleDefinitionId": ROLE, "scope": f"{REGISTRY}/repositories/a"}}]},
        {"value": [{"properties": {"roleDefinitionId": "/gone", "scope": "/"}}]},
    ]
    for answer in answers:
        notice = asked(monkeypatch, world(**{assigned("compute-id"): answer}))
        assert notice is not None
        assert notice.level == "warning"
        assert "compute cpu's identity has no role that lets it pull from mine.azurecr.io" in notice.text
        assert (
            f"--assignee-object-id compute-id --assignee-principal-type ServicePrincipal --role AcrPull --scope {REGISTRY}"
            in notice.text
        )


def test_without_an_identity_of_its_own_the_workspaces_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    plain: dict[str, Any] = {f"{SPACE}/computes/cpu": {"properties": {}}}
    notice = asked(monkeypatch, world(**plain))
    assert notice is not None
    assert "The workspace's identity has no role" in notice.text
    admin = {f"{ARM}{REGISTRY}": {"id": REGISTRY, "properties": {"adminUserEnabled": True}}}
    assert asked(monkeypatch, world(**plain, **admin)) is None
    for compute in (None, "serverless", "/subscriptions/x/computes/cpu"):
        assert asked(monkeypatch, world(**admin), compute=compute) is None
    nobody = {SPACE: {"properties": {"containerRegistry": REGISTRY}}}
    unknown = asked(monkeypatch, world(**plain, **nobody))
    assert unknown is not None
    assert unknown.text == f"Whether azureml:cpu may pull from {HOST} is not known: the workspace has no identity."


def test_a_registry_that_is_not_the_workspaces_own(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = {LISTED: {"value": [{"id": OTHER, "properties": {"loginServer": "Other.azurecr.io"}}]}}
    roles = {assigned("compute-id", OTHER): {"value": [{"properties": {"roleDefinitionId": ROLE, "scope": "/"}}]}}
    assert asked(monkeypatch, world(**listed, **roles), host="other.azurecr.io") is None
    notice = asked(monkeypatch, world(), host="other.azurecr.io")
    assert notice is not None
    assert (notice.level, "no such registry is to be seen" in notice.text) == ("info", True)
