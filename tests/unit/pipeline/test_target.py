"""Targets are opened in one way: started or not, signed in with what the host has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aml_train.config.load import load_targets
from aml_train.config.sections.targets import TargetConfig
from aml_train.core.errors import InvalidError
from aml_train.core.events import Event
from aml_train.local.settings import EmulatorInfo
from aml_train.pipeline.promotion import open_promoter
from aml_train.pipeline.target import DataTargets, Host, find_open_workspace, open_workspace

LOCAL = TargetConfig(name="local", kind="local")
AZURE = TargetConfig(name="prod", kind="azure", workspace="ml", resource_group="rg", subscription_id="s" * 36)


@dataclass
class Emulator:
    """The local AzureML, as its functions see it: it runs or not, and counts its starts."""

    running: bool
    started: int = 0
    connected: list[Mapping[str, str]] = field(default_factory=list)

    def info(self) -> Any:
        return SimpleNamespace(registry_address="127.0.0.1:5000")

    def find_emulator(self, _settings: object) -> Any:
        return self.info() if self.running else None

    def start(self, _settings: object, _listener: object) -> Any:
        self.started += 1
        self.running = True
        return self.info()

    def connect(self, _info: EmulatorInfo, environ: Mapping[str, str], *, page: str, fetched: object) -> Any:
        assert page
        assert fetched
        self.connected.append(environ)
        return SimpleNamespace(name="local workspace")


@pytest.fixture
def emulator(monkeypatch: pytest.MonkeyPatch) -> Emulator:
    made = Emulator(running=False)
    monkeypatch.setattr("aml_train.pipeline.target.find_emulator", made.find_emulator)
    monkeypatch.setattr("aml_train.pipeline.target.start_emulator", made.start)
    monkeypatch.setattr("aml_train.pipeline.target.connect_local", made.connect)
    return made


def ignore(_event: Event) -> None:
    pass


def test_the_local_registry_is_reached_by_the_name_that_jobs_use(emulator: Emulator) -> None:
    connection = open_workspace(Host(environ={"HOME": "/nowhere"}), LOCAL, Path(), ignore)
    assert connection.registry("other.azurecr.io") is None
    registry = connection.registry("amllocal.azurecr.io")
    assert registry is not None
    with registry:
        assert registry.host == "127.0.0.1:5000"


@pytest.mark.parametrize("opener", ["open", "find"])
def test_azure_is_signed_in_to_with_what_the_host_has(monkeypatch: pytest.MonkeyPatch, opener: str) -> None:
    seen: list[dict[str, Any]] = []

    def connect(workspace: Any, **given: Any) -> tuple[Any, Any]:
        seen.append({"workspace": workspace.name, **given})
        return SimpleNamespace(name="azure workspace"), object()

    monkeypatch.setattr("aml_train.pipeline.target.connect_azure", connect)
    tokens: list[str] = []
    host = Host(environ={"A": "b"}, assertion=lambda _audience: "assertion", on_token=tokens.append)
    found = (
        open_workspace(host, AZURE, Path(), ignore) if opener == "open" else find_open_workspace(host, AZURE, Path())
    )
    assert found is not None
    (one,) = seen
    assert (one["workspace"], one["assertion"], one["fetched"]) == ("ml", host.assertion, host.on_token)


def test_a_promotion_misses_the_registrys_password_before_anything_is_looked_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    service = SimpleNamespace(name="azure workspace")
    monkeypatch.setattr("aml_train.pipeline.target.connect_azure", lambda *_a, **_o: (service, object()))
    target = TargetConfig(
        name="prod",
        kind="azure",
        workspace="ml",
        resource_group="rg",
        subscription_id="s" * 36,
        registry_user="me",
    )
    with pytest.raises(InvalidError, match="signs in to its registry as me"):
        open_promoter(Host(environ={}), target, Path(), ignore)


def test_data_targets_are_opened_once_each(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    opened: list[str] = []

    def azure(_targets: DataTargets, target: TargetConfig) -> Any:
        opened.append(target.name)
        return SimpleNamespace(name=target.name)

    monkeypatch.setattr(DataTargets, "_azure", azure)
    (tmp_path / "aml-train.yml").write_text(
        "target: prod\ntargets:\n  prod: {workspace: ml, resource-group: rg}\n  dev: {workspace: dev-ml, resource-group: rg}\n"
    )
    targets = DataTargets(Host(environ={}), load_targets(None, directory=tmp_path), None, ignore)
    assert targets.workspace(None) is targets.workspace("prod")
    targets.workspace("dev")
    assert opened == ["prod", "dev"]
