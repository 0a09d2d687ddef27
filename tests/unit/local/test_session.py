"""A local AzureML that stopped while a run waits for it: what is said, and for how long it is waited for."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import SimpleNamespace

import pytest
import requests

from aml_train.core.errors import ImageError, ServiceError
from aml_train.local.settings import EmulatorSettings
from aml_train.local.target import PATIENCE, EmulatorSession, how_stopped
from tests.support.scripted_answers import ScriptedAnswers


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


OK = (200, "{}")


def session(outcomes: list[Exception | tuple[int, str]], how: str | None, clock: Clock) -> EmulatorSession:
    made = EmulatorSession(lambda: how, ca=Path("ca.pem"), proxy="http://127.0.0.1:7380", now=clock)
    made.trust_env = False
    made.mount("https://", ScriptedAnswers(*outcomes))
    return made


GONE = requests.exceptions.ProxyError("Unable to connect to proxy")
HOW = "The local AzureML's container aml-emulator has stopped with exit code 137: it was killed."


def test_a_stopped_container_is_named_at_once_with_the_command_that_starts_it() -> None:
    clock = Clock()
    asked = session([GONE, GONE, GONE], HOW, clock)
    with pytest.raises(ServiceError) as caught:
        asked.get("https://management.azure.com/x")
    assert caught.value.message.startswith(f"{HOW} Start it: aml-train emulator start.")
    assert caught.value.transient
    clock.now += PATIENCE - 1
    with pytest.raises(ServiceError) as caught:
        asked.get("https://management.azure.com/x")
    assert caught.value.transient
    clock.now += 1
    with pytest.raises(ServiceError) as caught:
        asked.get("https://management.azure.com/x")
    assert not caught.value.transient


def test_one_that_was_started_again_is_waited_for_as_long_again() -> None:
    clock = Clock()
    asked = session([GONE, OK, GONE], HOW, clock)
    with pytest.raises(ServiceError):
        asked.get("https://management.azure.com/x")
    assert asked.get("https://management.azure.com/x").ok
    clock.now += PATIENCE
    with pytest.raises(ServiceError) as caught:
        asked.get("https://management.azure.com/x")
    assert caught.value.transient


def test_a_connection_that_breaks_while_it_runs_is_what_it_was() -> None:
    with pytest.raises(requests.exceptions.ProxyError):
        session([GONE], None, Clock()).get("https://management.azure.com/x")


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ("running", None),
        ("restarting", None),
        ("exited", "is exited (exit code 137)."),
        ("paused", "is paused (exit code 137)."),
    ],
)
def test_how_a_container_ended_is_said(monkeypatch: pytest.MonkeyPatch, status: str, said: str | None) -> None:
    container = SimpleNamespace(status=status, attrs={"State": {"ExitCode": 137}})
    opened = contextlib.nullcontext((None, container))
    monkeypatch.setattr("aml_train.local.container.opened", lambda _settings: opened)
    found = how_stopped(EmulatorSettings(name="e"))
    assert found == (None if said is None else f"The local AzureML's container e {said}")


def test_without_an_engine_nothing_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_settings: EmulatorSettings) -> None:
        raise ImageError("no engine")

    monkeypatch.setattr("aml_train.local.container.opened", refuse)
    assert how_stopped(EmulatorSettings()) is None


def test_certificates_are_checked_with_the_given_ca_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "all.pem"))
    made, answers = (
        EmulatorSession(lambda: None, ca=tmp_path / "one.pem", proxy="http://127.0.0.1:7380"),
        ScriptedAnswers(OK),
    )
    made.mount("https://", answers)
    made.get("https://management.azure.com/x", verify=True)
    assert answers.options["verify"] == str(tmp_path / "one.pem")


def test_the_proxy_is_that_of_the_local_azureml_whatever_the_environment_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("HTTPS_PROXY", "https_proxy"):
        monkeypatch.setenv(name, "http://elsewhere.invalid:3128")
    made, answers = (
        EmulatorSession(lambda: None, ca=Path("ca.pem"), proxy="http://127.0.0.1:7380"),
        ScriptedAnswers(OK),
    )
    made.mount("https://", answers)
    made.get("https://management.azure.com/")
    assert answers.options["proxies"] == {"https": "http://127.0.0.1:7380"}
