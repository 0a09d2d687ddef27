"""What is asked of Azure before anything is built, and what is told where it is missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import azure.identity  # noqa: F401 - its import looks for processes, which a test may not
import pytest
from azure.core.exceptions import HttpResponseError

from aml_train.azure import target
from aml_train.azure.clouds import cloud_named
from aml_train.azure.names import WorkspaceId
from aml_train.azure.sdk_v2 import translate
from aml_train.azure.sign_in import SignIn
from aml_train.azure.workspace import AzureRest
from aml_train.config.sections.image_builder import BuilderConfig
from aml_train.config.sections.targets import TargetConfig
from aml_train.core.errors import InvalidError, ServiceError
from aml_train.core.events import Event, Notice
from aml_train.image.builders.place import BuildPlace
from tests.support.plain_answers import answered

WORKSPACE = WorkspaceId(subscription_id="sub", resource_group="group", name="space")
GROUP = "https://management.azure.com/subscriptions/sub/resourceGroups/group"
PROVIDER = f"{GROUP}/providers/Microsoft.MachineLearningServices/workspaces"
REGISTRY = "/subscriptions/sub/resourceGroups/group/providers/Microsoft.ContainerRegistry/registries/mine"
THERE = {"name": "space", "properties": {"containerRegistry": REGISTRY}}


class NoToken:
    def get_token(self, *_scopes: str, **_options: Any) -> Any:
        raise AssertionError("nothing is to be signed in to")


def identity() -> SignIn:
    return SignIn(NoToken(), way="secret")


def answering(monkeypatch: pytest.MonkeyPatch, answers: Mapping[str, Any]) -> list[str]:
    """Let every workspace answer reads from *answers*, by address; None where an address is missing."""
    asked: list[str] = []

    def read(_self: AzureRest, url: str, _what: str, *, params: Mapping[str, str] | None = None, **_more: Any) -> Any:
        asked.append(url)
        assert params is None or "api-version" in params
        answer = answers.get(url)
        if isinstance(answer, Exception):
            raise answer
        return answered(answer)

    monkeypatch.setattr(AzureRest, "read", read)
    monkeypatch.setattr(target, "sign_in_to_azure", lambda *_args, **_options: identity())
    return asked


def opened(compute: str | None = "cpu", **outer: str) -> tuple[target.WorkspaceTarget, list[Event]]:
    received: list[Event] = []
    made = target.connect_azure(
        TargetConfig(name="azure", kind="azure"),
        WORKSPACE,
        place=BuildPlace(config=BuilderConfig(), local=lambda: cast("Any", None), environ=outer),
        assertion=None,
        listener=received.append,
    )
    target.check_azure(made, compute)
    return made, received


def test_a_target_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answering(monkeypatch, {f"{PROVIDER}/space": THERE, f"{PROVIDER}/space/computes/cpu": {"name": "cpu"}})
    made, received = opened("azureml:cpu")
    assert asked == [f"{PROVIDER}/space", f"{PROVIDER}/space/computes/cpu"]
    assert (made.pace.shortest, made.pace.longest) == (1.0, 60.0)
    assert [event.text for event in received if isinstance(event, Notice)] == [
        "Signing in to Azure with the service principal's secret."
    ]


def test_a_sovereign_cloud_has_its_own_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    address = PROVIDER.replace("management.azure.com", "management.chinacloudapi.cn")
    answering(monkeypatch, {f"{address}/space": THERE})
    made, received = opened(None, AZURE_ENVIRONMENT="azurechinacloud")
    assert made.service.cloud is cloud_named("AzureChinaCloud")
    assert [event.text for event in received if isinstance(event, Notice)] == [
        "Signing in to AzureChinaCloud with the service principal's secret."
    ]


def test_a_missing_compute_on_the_second_page(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = {
        f"{PROVIDER}/space": THERE,
        f"{PROVIDER}/space/computes": {"value": [{"name": "big"}], "nextLink": "https://management.azure.com/next"},
        "https://management.azure.com/next": {"value": [{"name": "gpus"}]},
    }
    answering(monkeypatch, pages)
    with pytest.raises(
        InvalidError, match=r"no compute 'gpu' in the workspace space\. Did you mean gpus\? There are"
    ):
        opened("gpu")


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({f"{PROVIDER}/space": {"properties": {}}}, "has no registry yet"),
        ({f"{PROVIDER}/space": THERE}, "The registry of the workspace space is not there"),
        (
            {f"{PROVIDER}/space": THERE, f"https://management.azure.com{REGISTRY}": ServiceError("answered 403")},
            "answered 403",
        ),
    ],
)
def test_a_workspace_without_a_registry(
    answers: Mapping[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, answers)
    with pytest.raises(ServiceError, match=message) as caught:
        target.login_server(AzureRest(WORKSPACE, identity()))
    assert "registry in aml-train.yml" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("registry", "host", "sent"),
    [
        ("mine.test", "mine.test", True),
        ("mine.test", "evil.test", False),
        (None, "mine.azurecr.io", True),
        (None, "evil.azurecr.io", False),
    ],
)
def test_a_password_is_sent_to_the_targets_own_registry_alone(
    registry: str | None, host: str, sent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {"properties": {"loginServer": "mine.azurecr.io"}}
    answering(monkeypatch, {f"{PROVIDER}/space": THERE, f"https://management.azure.com{REGISTRY}": found})
    settings = TargetConfig(name="azure", kind="azure", registry=registry, registry_user="me")
    rest = AzureRest(WORKSPACE, identity())
    assert (target.settings_for(host, settings, rest).registry_user == "me") is sent


def test_a_registry_of_somebody_else_uses_docker_login(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    answering(monkeypatch, {f"{PROVIDER}/space": THERE})
    (tmp_path / "config.json").write_text('{"auths": {"registry.example": {"auth": "bWU6d29yZA=="}}}')
    made, _ = opened(None, DOCKER_CONFIG=str(tmp_path), HTTPS_PROXY="http://proxy:1")
    location = made.registries.named("registry.example")
    assert location is not None
    login = location.credentials()
    assert login is not None
    assert (login.username, login.password) == ("me", "word")
    assert (location.url, location.push_name) == ("https://registry.example", "registry.example")
    assert location.proxies == {"https": "http://proxy:1"}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the libraries that azure-ai-ml imports
@pytest.mark.parametrize(
    ("status", "message", "ending", "hint"),
    [
        (
            400,
            "(UserError) The input 'images' cannot be read from https://a/x: 404",
            "invalid",
            "job.inputs.images.path=",
        ),
        (400, "(UserError) Unknown compute target", "invalid", None),
        (501, "(NotImplemented) The input 'images'", "service-error", None),
    ],
)
def test_a_job_that_the_service_calls_invalid_is(status: int, message: str, ending: str, hint: str | None) -> None:
    error = HttpResponseError(message)
    error.status_code = status
    found = translate(error, "Submitting")
    assert (found.status, f"AzureML answered {status}" in found.message) == (ending, True)
    if ending == "invalid":
        assert found.hint is None if hint is None else hint in str(found.hint)
