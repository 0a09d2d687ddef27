"""Targets are opened in one way: started or not, signed in with what the host has."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aml_train.config.sections.targets import TargetConfig
from aml_train.core.errors import InvalidError
from aml_train.core.events import Event
from aml_train.pipeline.promotion import open_promoter
from aml_train.pipeline.target import Host, find_open_workspace, open_workspace

AZURE = TargetConfig(name="prod", kind="azure", workspace="ml", resource_group="rg", subscription_id="s" * 36)


def ignore(_event: Event) -> None:
    pass


@pytest.mark.parametrize("opener", ["open", "find"])
def test_azure_is_signed_in_to_with_what_the_host_has(monkeypatch: pytest.MonkeyPatch, opener: str) -> None:
    seen: list[dict[str, Any]] = []

    def connect(_target: TargetConfig, workspace: Any, **given: Any) -> Any:
        seen.append({"workspace": workspace.name, **given})
        return SimpleNamespace(name="azure workspace")

    monkeypatch.setattr("aml_train.pipeline.target.connect_azure", connect)
    tokens: list[str] = []
    host = Host(environ={"A": "b"}, assertion=lambda _audience: "assertion", on_token=tokens.append)
    found = (
        open_workspace(host, AZURE, Path(), ignore) if opener == "open" else find_open_workspace(host, AZURE, Path())
    )
    assert found is not None
    (one,) = seen
    assert (one["workspace"], one["assertion"], one["fetched"]) == ("ml", host.assertion, host.on_token)
    assert one["place"].environ == {"A": "b"}


def test_a_promotion_misses_the_registrys_password_before_anything_is_looked_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    service = SimpleNamespace(name="azure workspace")
    monkeypatch.setattr("aml_train.pipeline.target.connect_azure", lambda *_a, **_o: SimpleNamespace(service=service))
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
