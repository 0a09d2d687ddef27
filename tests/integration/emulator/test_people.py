"""Programs that sign a person in, over TLS: they run unchanged, and wait for no one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.emulator_process import Emulator, executing_by, python_of_v1

DEFAULT = "you@amllocal.onmicrosoft.com"


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    with executing_by("tests.support.instant_emulator", tmp_path_factory.mktemp("people")) as service:
        yield service


def browser(emulator: Emulator) -> dict[str, Any]:
    """Return the variables that have a program open ours, as ``aml-train emulator env`` prints them."""
    address = f"AML_TRAIN_EMULATOR_PORT={emulator.port} XDG_CACHE_HOME={emulator.folder}"
    return {"BROWSER": f"env {address} {sys.executable} -m aml_train emulator sign-in %s"}


@pytest.mark.parametrize("way", ["device code", pytest.param("browser", marks=pytest.mark.full)])
def test_a_person_signs_in_by_azure_identity(emulator: Emulator, way: str) -> None:
    seen = emulator.client("of_azure_identity", script="people_steps.py", way=way, **browser(emulator))
    assert seen == {"compute": "local-cluster", "username": DEFAULT}


def test_a_workspace_of_azureml_core_without_a_word_on_signing_in(emulator: Emulator) -> None:
    seen = emulator.client("of_azureml_core", script="people_steps.py", python=python_of_v1())
    assert seen == {"workspace": "local", "computes": ["local-cluster"]}


@pytest.mark.full
def test_azureml_core_with_a_browser(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    """It opens one if it finds a program of a browser's name, and a display."""
    folder = emulator.folder / "bin"
    folder.mkdir()
    (folder / "chromium").write_text("#!/bin/sh\nexit 1\n")
    (folder / "chromium").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    before = emulator.admin("GET", "requests?limit=1").json()["total"]
    seen = emulator.client(
        "of_azureml_core",
        script="people_steps.py",
        python=python_of_v1(),
        DISPLAY=":1",
        HOME=str(folder),
        **browser(emulator),
    )
    assert seen["workspace"] == "local"
    asked = emulator.admin("GET", f"requests?since={before}").json()["requests"]
    assert sum(entry["path"].endswith("/authorize") for entry in asked) == 1
    assert not any(entry["path"].endswith("/devicecode") for entry in asked)


def test_the_refusal_is_entra_s(emulator: Emulator) -> None:
    seen = emulator.client("refused", script="people_steps.py")
    assert (
        "AADSTS700016: Application with identifier '00000000-0000-0000-0000-000000000000' was not" in seen["message"]
    )
