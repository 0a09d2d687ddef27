"""Who signs in to the registry of the target azure, and whether the compute may pull."""

from __future__ import annotations

from pathlib import Path

import pytest

from aml_train.azure import acr
from aml_train.azure.acr import location_of, password_of
from aml_train.azure.clouds import AZURE_PUBLIC
from aml_train.config.sections.targets import TargetConfig
from aml_train.core.errors import ServiceError
from aml_train.core.events import Event, Notice
from aml_train.image.registry.auth import RegistryAuth
from aml_train.image.registry.client import RegistryLocation
from tests.unit.azure.test_target import identity

ARM = "https://management.azure.com"
GROUP = "/subscriptions/sub/resourceGroups/group"
REGISTRY = f"{GROUP}/providers/Microsoft.ContainerRegistry/registries/mine"
OTHER = f"{GROUP}/providers/Microsoft.ContainerRegistry/registries/other"
LISTED = f"{ARM}/subscriptions/sub/providers/Microsoft.ContainerRegistry/registries"
ROLE = "/subscriptions/sub/providers/Microsoft.Authorization/roleDefinitions/role"
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
