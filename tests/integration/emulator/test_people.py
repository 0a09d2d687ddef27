"""Programs that sign a person in, over TLS: they run unchanged, and wait for no one."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.support.emulator_process import Emulator, python_of_v1

DEFAULT = "you@amllocal.onmicrosoft.com"


def browser(instant: Emulator) -> dict[str, Any]:
    """Return the variables that have a program open ours, as ``aml-train emulator env`` prints them."""
    address = f"AML_TRAIN_EMULATOR_PORT={instant.port} XDG_CACHE_HOME={instant.folder}"
    return {"BROWSER": f"env {address} {sys.executable} -m aml_train emulator sign-in %s"}


@pytest.mark.parametrize("way", ["device code", pytest.param("browser", marks=pytest.mark.full)])
def test_a_person_signs_in_by_azure_identity(instant: Emulator, way: str) -> None:
    seen = instant.client("of_azure_identity", script="people_steps.py", way=way, **browser(instant))
    assert seen == {"compute": "local-cluster", "username": DEFAULT}


@pytest.mark.full
def test_a_workspace_of_azureml_core_without_a_word_on_signing_in(instant: Emulator) -> None:
    seen = instant.client("of_azureml_core", script="people_steps.py", python=python_of_v1())
    assert seen == {"workspace": "local", "computes": ["local-cluster"]}
