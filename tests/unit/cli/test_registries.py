"""``aml-train emulator registry``: requests to the local AzureML, and how its answers are shown."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from aml_train.cli.emulator import emulator
from aml_train.core.errors import InvalidError


@pytest.mark.parametrize(
    ("arguments", "method", "path"),
    [
        (["create", "shared"], "POST", "registries?name=shared"),
        (["create", "shared", "--description", "of all"], "POST", "registries?name=shared&description=of+all"),
        (["list"], "GET", "registries"),
        (["delete", "shared"], "DELETE", "registries?name=shared"),
    ],
)
def test_each_command_is_one_request(
    arguments: list[str], method: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str]] = []

    def answer(_settings: Any, path: str, *, method: str, seconds: float) -> tuple[int, dict[str, Any]]:
        asked.append((method, path))
        return 200, {"registries": {"azureml": 3, "shared": 0}}

    monkeypatch.setattr("aml_train.cli.emulator.request_admin", answer)
    shown = CliRunner().invoke(emulator, ["registry", *arguments])
    assert (shown.exit_code, shown.output) == (0, '{\n  "azureml": 3,\n  "shared": 0\n}\n')
    assert asked == [(method, path)]


def test_a_refusal_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = (400, {"error": "the registry 'azureml' is Microsoft's"})
    monkeypatch.setattr("aml_train.cli.emulator.request_admin", lambda *_args, **_options: refused)
    with pytest.raises(InvalidError, match="refused the request: the registry 'azureml' is Microsoft's"):
        CliRunner().invoke(emulator, ["registry", "delete", "azureml"], catch_exceptions=False)
