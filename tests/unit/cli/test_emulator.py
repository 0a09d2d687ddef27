"""The commands that look into the local AzureML, with its answers given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from click.testing import CliRunner

from aml_train.cli.main import cli
from aml_train.core.errors import InvalidError, ServiceError
from aml_train.local import admin as emulator_admin
from tests.unit.local.test_environment import ANSWER

ENTRY = {
    "number": 7,
    "time": 1_800_000_000.0,
    "method": "PUT",
    "host": "management.azure.com",
    "path": "/jobs/a\x1b[31m",
    "status": 503,
    "ms": 12.5,
    "client": "sdk",
    "error": "ServerBusy",
    "fault": 2,
}


class Admin:
    """Stands in for the emulator's own interface, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self.answer: tuple[int, dict[str, Any]] | None = (200, {})

    def __call__(self, settings: object, path: str, *, method: str, seconds: float) -> Any:
        del settings, seconds
        parts = urlsplit(path)
        self.asked.append((method, parts.path, dict(parse_qsl(parts.query))))
        return self.answer


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> Admin:
    stand_in = Admin()
    monkeypatch.setattr("aml_train.cli.emulator.request_admin", stand_in)
    return stand_in


def run(*args: str) -> str:
    result = CliRunner().invoke(cli, ["emulator", *args], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result.output


@pytest.mark.parametrize(
    ("arguments", "answer", "asked", "printed"),
    [
        (
            "fault add status --method PUT --path */jobs/* --status 429 --after",
            {"id": 3},
            (
                "POST",
                "faults",
                {"kind": "status", "after": "true", "method": "PUT", "path": "*/jobs/*", "status": "429"},
            ),
            "fault 3 is active",
        ),
        ("fault list", {"faults": [{"kind": "reset"}]}, ("GET", "faults", {}), '"kind": "reset"'),
        ("fault clear 1", {"removed": 1}, ("DELETE", "faults", {"id": "1"}), "1 removed"),
        (
            "job preempt a/b --force --fail",
            {},
            ("POST", "jobs/a%2Fb/preempt", {"force": "1", "fail": "1"}),
            "a/b is preempted",
        ),
        ("job fail j --code UserError", {}, ("POST", "jobs/j/fail", {"code": "UserError"}), "j fails"),
        ("job show j Paused", {"status": "Paused"}, ("POST", "jobs/j/show", {"status": "Paused"}), "j shows Paused"),
        ("role set registry A B", {"roles": {}}, ("POST", "roles", {"place": "registry", "roles": "A,B"}), "{}"),
        ("registry create s", {"registries": {"s": 0}}, ("POST", "registries", {"name": "s"}), '"s": 0'),
        ("workspace create a", {"name": "a"}, ("POST", "workspaces", {"name": "a"}), "workspace a is ready"),
        ("workspace list", {"workspaces": [{"name": "a"}]}, ("GET", "workspaces", {}), "a\n"),
        ("workspace delete a --force", {}, ("DELETE", "workspaces", {"name": "a", "force": "1"}), "a is deleted"),
    ],
)
def test_what_is_asked_and_printed(
    admin: Admin, arguments: str, answer: dict[str, Any], asked: tuple[str, str, dict[str, str]], printed: str
) -> None:
    admin.answer = (200, answer)
    assert printed in run(*arguments.split())
    assert admin.asked == [asked]


def test_requests_are_a_line_each_and_command_no_terminal(admin: Admin) -> None:
    admin.answer = (200, {"total": 7, "requests": [ENTRY]})
    line = run("requests", "-n", "5")
    assert line.endswith("503     12.5 ms  PUT management.azure.com/jobs/a ServerBusy (fault 2)\n")
    assert admin.asked == [("GET", "requests", {"limit": "5"})]
    assert '"number": 7' in run("requests", "--json")


def test_a_refusal_and_an_absence_are_told(admin: Admin) -> None:
    admin.answer = (400, {"error": "delay: a delay needs its seconds"})
    with pytest.raises(InvalidError, match="refused the request: delay: a delay needs its seconds"):
        run("fault", "add", "delay")
    admin.answer = None
    with pytest.raises(ServiceError, match="does not run"):
        run("requests")


def test_what_cannot_happen_to_a_job_is_told(admin: Admin) -> None:
    admin.answer = (409, {"error": "the job digits-1 has ended: Completed"})
    with pytest.raises(ServiceError, match="has ended: Completed"):
        run("job", "preempt", "digits-1")
    admin.answer = (400, {"error": "the nodes of c are dedicated"})
    with pytest.raises(InvalidError, match="the nodes of c are dedicated"):
        run("job", "preempt", "digits-1")


def test_config_is_what_from_config_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emulator_admin, "request_admin", lambda settings, path: (200, ANSWER))
    assert json.loads(run("config")) == {
        "subscription_id": "subscription",
        "resource_group": "aml-local",
        "workspace_name": "local",
    }


def test_a_browser_grants_sign_ins_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[str, dict[str, str]]] = []
    monkeypatch.setattr(emulator_admin, "request_admin", lambda settings, path: (200, ANSWER))
    monkeypatch.setattr(
        "aml_train.cli.emulator.sign_in_page", lambda info, address: (address, {"code": info.workspace})
    )
    monkeypatch.setattr("aml_train.cli.emulator.answer_program", lambda goal, fields: sent.append((goal, fields)))
    run("sign-in", "https://login.microsoftonline.com/x")
    assert sent == [("https://login.microsoftonline.com/x", {"code": "local"})]
    with pytest.raises(InvalidError, match="no address of a sign-in"):
        run("sign-in", "https://example.com")


def test_a_workspace_that_is_there_already_is_the_user_s_to_solve(admin: Admin) -> None:
    admin.answer = (409, {"error": "there is a workspace 'a' already"})
    with pytest.raises(InvalidError, match="there is a workspace 'a' already"):
        run("workspace", "create", "a")


def test_requests_name_the_workspace_of_the_environment(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AML_TRAIN_EMULATOR_WORKSPACE", "team a")
    admin.answer = (200, {"status": "NotResponding"})
    run("job", "show", "x", "NotResponding")
    assert admin.asked == [("POST", "jobs/x/show", {"status": "NotResponding", "workspace": "team a"})]


def test_the_variables_of_a_workspace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[str] = []

    def answer(_settings: object, path: str) -> tuple[int, dict[str, Any]]:
        asked.append(path)
        return 200, {**ANSWER, "workspace": "team-a"}

    monkeypatch.setattr(emulator_admin, "request_admin", answer)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    lines = run("env", "--workspace", "team-a").splitlines()
    assert "export AML_WORKSPACE=team-a" in lines
    assert "export AML_TRAIN_EMULATOR_WORKSPACE=team-a" in lines
    assert any(line.startswith("export BROWSER=") and line.endswith("emulator sign-in %s'") for line in lines)
    assert asked == ["info?workspace=team-a"]


def test_a_workspace_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emulator_admin, "request_admin", lambda settings, path: (404, {"error": "no"}))
    with pytest.raises(InvalidError, match="aml-emulator has no workspace 'x'") as caught:
        run("config", "--workspace", "x")
    assert caught.value.hint == "Create it: aml-train emulator workspace create x."
