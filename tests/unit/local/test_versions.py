"""A local AzureML of another version than aml-train says so, with the remedy; one of the same version says nothing."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import pytest

from aml_train.core.events import Event, Notice
from aml_train.core.version import __version__
from aml_train.local import lifecycle
from aml_train.local.lifecycle import start_emulator, version_difference
from aml_train.local.settings import EmulatorSettings


@pytest.mark.parametrize(
    ("emulator", "own", "warned"),
    [
        ("0.9.0", "0.10.0", True),
        ("0.10.0", "0.10.0", False),
        ("0+unknown", "0.10.0", False),
        ("0.10.0", "0.10.0.dev1", False),
        ("", "0.10.0", False),
    ],
)
def test_another_version_is_a_warning_with_a_remedy(emulator: str, own: str, warned: bool) -> None:
    assert ("unset AML_TRAIN_EMULATOR_IMAGE" in str(version_difference(emulator, own))) is warned


@pytest.mark.parametrize(("version", "warned"), [("0.0.1", True), (__version__, False)])
def test_a_start_reports_another_version(monkeypatch: pytest.MonkeyPatch, version: str, warned: bool) -> None:
    container: Any = SimpleNamespace(status="running")
    monkeypatch.setattr("aml_train.local.container.find", lambda *_: container)
    monkeypatch.setattr("aml_train.local.container.is_current", lambda *_: True)
    monkeypatch.setattr(lifecycle, "reached", lambda _client, _container, settings: settings)
    monkeypatch.setattr(lifecycle, "healthy", lambda _: True)
    monkeypatch.setattr(lifecycle, "emulator_info", lambda _: SimpleNamespace(version=version))
    received: list[Event] = []
    engine: Any = contextlib.nullcontext()
    start_emulator(EmulatorSettings(), received.append, engine=engine)
    notices = [one for one in received if isinstance(one, Notice)]
    assert [one.level for one in notices] == (["warning"] if warned else [])
