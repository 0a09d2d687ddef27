"""Every check of the doctor, met by arbitrary answers: a result or one of our own errors, and no other end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import azure.identity  # noqa: F401 - its import looks for processes, which a test may not
import pytest
import requests

from aml_train.azure.acr import AcrLogin
from aml_train.azure.clouds import AZURE_PUBLIC
from aml_train.azure.doctor import identity, network, registry, workspace
from aml_train.azure.doctor.probe import Probe, Wanted
from aml_train.azure.http import WorkspaceId
from aml_train.azure.sign_in import SignIn
from aml_train.azure.workspace import AzureRest
from aml_train.config.sections.targets import ClusterConfig, TargetConfig
from aml_train.core.answers import Answer
from aml_train.core.diagnosis import Outcome
from aml_train.core.errors import ServiceError
from tests.support.wrong_answers import CASES, Answering, Reply, as_json, tries

WORKSPACE = WorkspaceId(subscription_id="s", resource_group="g", name="w")
REGISTRY = "/subscriptions/s/resourceGroups/g/providers/Microsoft.ContainerRegistry/registries/acr"
RESOURCE = {
    "location": "eastus",
    "properties": {
        "provisioningState": "Succeeded",
        "containerRegistry": REGISTRY,
        "storageAccount": "/storageAccounts/store",
        "discoveryUrl": "https://eastus.api.azureml.ms/discovery",
        "mlFlowTrackingUri": "azureml://eastus.api.azureml.ms/mlflow",
        "publicNetworkAccess": "Enabled",
    },
}
ACCESS = "e30.eyJhY2Nlc3MiOiBbeyJuYW1lIjogInJlcG8iLCAiYWN0aW9ucyI6IFsicHVsbCJdfV19."
VALID = (
    ("/permissions", {"value": [{"actions": ["*"], "notActions": [], "dataActions": [], "notDataActions": []}]}),
    ("/vmSizes", {"value": [{"name": "Standard_DS3_v2", "vCPUs": 4, "family": "standardDSv2Family"}]}),
    ("/usages", {"value": [{"name": {"value": "standardDSv2Family"}, "limit": 10, "currentValue": 2}]}),
    ("/computes", {"value": [{"name": "c"}]}),
    ("/computes/c", {"properties": {
        "computeType": "AmlCompute", "provisioningState": "Succeeded",
        "properties": {"vmSize": "Standard_DS3_v2", "currentNodeCount": 1, "scaleSettings": {"maxNodeCount": 2}},
    }}),
    ("/workspaces/w", RESOURCE),
    ("/workspaces", {"value": [{"name": "w"}]}),
    ("/registries/acr", {"id": REGISTRY, "properties": {"loginServer": "acr.azurecr.io", "adminUserEnabled": True}}),
    ("/datastores", {"value": [{"name": "d", "properties": {
        "accountName": "store", "containerName": "box", "credentials": {"credentialsType": "AccountKey"}
    }}]}),
    ("/providers/Microsoft.MachineLearningServices", {"registrationState": "Registered"}),
    ("/subscriptions/s", {"displayName": "mine", "state": "Enabled", "tenantId": "t"}),
    ("/oauth2/exchange", {"refresh_token": "r"}),
    ("/oauth2/token", {"access_token": ACCESS}),
)  # fmt: skip


def valid(request: requests.PreparedRequest) -> Reply:
    """Return what Azure answers."""
    path = urlsplit(str(request.url)).path
    if request.method == "HEAD":
        return Reply(headers={"Date": "Fri, 01 Jan 2027 00:00:00 GMT"})
    return as_json(next((answer for end, answer in VALID if path.endswith(end)), {}))


ANSWERING = Answering(valid)
SESSION = ANSWERING.session()


class Signed:
    def get_token(self, *_scopes: str, **_options: Any) -> Any:
        return type("Token", (), {"token": "e30.eyJ0aWQiOiAidCJ9."})


def fail(problem: str) -> ServiceError:
    return ServiceError(problem)


def probe(*, cluster: bool = False) -> Probe:
    size = ClusterConfig(name="c", size="Standard_DS3_v2") if cluster else None
    wanted = Wanted(
        target=TargetConfig(name="azure", kind="azure", cluster=size),
        workspace=WORKSPACE,
        compute="c",
        repository="repo",
    )
    made = Probe(wanted, AZURE_PUBLIC, environ={}, assertion=None, fetched=lambda _token: None)
    made._sign_in = SignIn(Signed(), way="secret")
    made._rest = AzureRest(WORKSPACE, made._sign_in, session=SESSION)
    made.resource = Answer(RESOURCE, fail)
    made.registry_host, made.registry_id = "acr.azurecr.io", REGISTRY
    return made


def ask(host: str) -> requests.Response:
    return SESSION.head(f"https://{host}/")


CHECKS: Mapping[str, Callable[[], Outcome]] = {
    "sign-in": lambda: identity.check_sign_in(probe()),
    "subscription": lambda: identity.check_subscription(probe()),
    "workspace": lambda: workspace.check_workspace(probe()),
    "workspace-role": lambda: workspace.check_workspace_role(probe()),
    "compute": lambda: workspace.check_compute(probe()),
    "cluster": lambda: workspace.check_compute(probe(cluster=True)),
    "quota": lambda: workspace.check_quota(probe()),
    "registry": lambda: registry.check_registry(probe()),
    "registry-role": lambda: registry.check_registry_role(probe()),
    "registry-pull": lambda: registry.check_pull(probe()),
    "storage": lambda: registry.check_storage(probe()),
    "network": lambda: network.check_hosts(probe(), ask),
    "workspace-network": lambda: network.check_workspace_hosts(probe(), ask),
    "clock": lambda: network.check_clock(probe(), ask),
}


@pytest.fixture(autouse=True)
def transport(monkeypatch: pytest.MonkeyPatch) -> None:
    """The registry's requests have sessions and pauses of their own."""
    monkeypatch.setattr(registry, "http_session", lambda *_args: SESSION)

    def at_once(*args: Any, **options: Any) -> Any:
        return AcrLogin(*args, **options, sleep=lambda _seconds: None)

    monkeypatch.setattr(registry, "AcrLogin", at_once)


@pytest.mark.parametrize("name", CHECKS)
def test_arbitrary_answers_of_azure(name: str) -> None:
    tries(ANSWERING, CHECKS[name], count=max(1, CASES // 20 // len(CHECKS)))


@pytest.mark.parametrize("name", CHECKS)
def test_valid_answers_are_understood(name: str) -> None:
    ANSWERING.begin(b"")
    outcome = CHECKS[name]()
    expected = {"registry-role": "failed", "clock": "failed"}.get(name, "ok")
    assert outcome.status == expected, outcome
