"""Workspaces that last as long as a test, and the plugin that makes them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from aml_train.core.errors import InvalidError, ServiceError
from aml_train.local import admin as emulator_admin
from aml_train.local.settings import EmulatorSettings
from aml_train.testing import plugin, workspace
from tests.unit.local.test_environment import ANSWER

pytest_plugins = ("pytester",)
SETTINGS = EmulatorSettings(port=1234)


class Admin:
    """Stands in for the admin interface of a local AzureML."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self.answers: dict[str, Any] = {}
        for module in (emulator_admin, workspace):
            monkeypatch.setattr(module, "request_admin", self)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def __call__(self, _settings: object, path: str, *, method: str = "GET", seconds: float = 0) -> Any:
        parts = urlsplit(path)
        query = dict(parse_qsl(parts.query))
        self.asked.append((method, parts.path, query))
        if parts.path in self.answers:
            return self.answers[parts.path]
        return 200, {**ANSWER, "workspace": query.get("workspace", "local")}


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Admin:
    return Admin(monkeypatch, tmp_path)


@pytest.mark.parametrize(
    ("test", "start"),
    [
        ("test_a_job", "a_job-"),
        ("test_a[x/y-1]", "a-x-y-1-"),
        ("test_", "test-"),
        ("ä", "test-"),
        ("test_" + "long_" * 20, "long_long_long_long_long-"),
    ],
)
def test_a_name_begins_as_the_test_s_does(test: str, start: str) -> None:
    name = workspace.workspace_name(test)
    assert name.startswith(start)
    assert re.fullmatch(r"[a-zA-Z0-9][a-zA-Z0-9_-]{2,32}", name)
    assert name != workspace.workspace_name(test)


def test_a_workspace_is_there_as_long_as_it_is_needed(admin: Admin, tmp_path: Path) -> None:
    with workspace.temporary_workspace(SETTINGS, "one", {}) as made:
        assert (made.name, made.resource_group, made.compute) == ("one", "aml-local", "local")
        assert made.page == "http://one.localhost:1234/ui/"
        assert made.environment["HTTPS_PROXY"] == "http://127.0.0.1:1234"
        assert made.environment["AML_WORKSPACE"] == made.environment["AML_TRAIN_EMULATOR_WORKSPACE"] == "one"
        assert json.loads(made.write_config(tmp_path).read_text())["workspace_name"] == "one"
        assert "secret" not in repr(made)
    assert admin.asked == [
        ("POST", "workspaces", {"name": "one"}),
        ("GET", "info", {"workspace": "one"}),
        ("DELETE", "workspaces", {"name": "one", "force": "1"}),
    ]


def test_it_is_deleted_after_a_failure(admin: Admin) -> None:
    with pytest.raises(ZeroDivisionError), workspace.temporary_workspace(SETTINGS, "one", {}):
        _ = 1 / 0
    assert admin.asked[-1][0] == "DELETE"


def test_a_workspace_that_is_refused(admin: Admin) -> None:
    admin.answers["workspaces"] = (409, {"error": "there is a workspace 'one' already"})
    with pytest.raises(InvalidError, match="refused the workspace one: there is"):
        workspace.temporary_workspace(SETTINGS, "one", {}).__enter__()
    admin.answers["workspaces"] = None
    with pytest.raises(ServiceError, match=r"127\.0\.0\.1:1234 does not answer"):
        workspace.temporary_workspace(SETTINGS, "one", {}).__enter__()


def test_one_that_answers_is_taken(admin: Admin, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = workspace.find_or_start({"AML_TRAIN_EMULATOR_PORT": "5", "AML_TRAIN_EMULATOR_WORKSPACE": "x"})
    assert (found.port, found.workspace) == (5, "")
    started: list[EmulatorSettings] = []
    monkeypatch.setattr(workspace, "start_emulator", lambda settings, listener: started.append(settings))
    monkeypatch.setattr(workspace.tempfile, "gettempdir", lambda: str(tmp_path))  # type: ignore[attr-defined]
    admin.answers["health"] = None
    assert workspace.find_or_start({"AML_TRAIN_EMULATOR_NAME": "other"}) == started[0]
    assert started[0].name == "other"


def test_the_fixture_sets_the_variables_for_one_test(admin: Admin, pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\naddopts = -p no:aml-train -p no:cacheprovider -p no:xdist")
    pytester.makepyfile(
        """
        import os

        def test_one(aml_workspace):
            assert os.environ["AML_WORKSPACE"] == aml_workspace.name
            assert aml_workspace.name.startswith("one-")

        def test_two():
            assert "AML_WORKSPACE" not in os.environ
        """
    )
    pytester.inline_run(plugins=[plugin]).assertoutcome(passed=2)


def test_the_plugin_imports_nothing_slow() -> None:
    """pytest imports it in every project that has aml-train installed."""
    source = Path(plugin.__file__).read_text(encoding="utf-8")
    eager = re.findall(r"^(?:import|from) ([\w.]+)", source, flags=re.MULTILINE)
    assert set(eager) == {"__future__", "collections.abc", "os", "typing", "pytest"}
    door = (Path(plugin.__file__).parent / "__init__.py").read_text(encoding="utf-8")
    eager = re.findall(r"^(?:import|from) ([\w.]+)", door, flags=re.MULTILINE)
    assert set(eager) == {"__future__", "typing", "aml_train.core.lazy"}
