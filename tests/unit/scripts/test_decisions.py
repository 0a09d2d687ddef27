"""The next step of the bootstrap, as tables of facts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scripts.bootstrap.decisions import (
    AptInstall,
    AwaitDaemon,
    Blocked,
    EngineFacts,
    Host,
    InstallAzurite,
    InstallDevcontainers,
    InstallNode,
    ServiceFacts,
    StartDaemon,
    Step,
    VenvFacts,
    decide_engine,
    decide_services,
    decide_venv,
)

CONTAINER = Host(root=True, system="Linux", apt=True, systemd=False, python=(3, 11))
SERVER = replace(CONTAINER, systemd=True)
USER = replace(SERVER, root=False)
FEDORA = replace(SERVER, apt=False)
MAC = Host(root=False, system="Darwin", apt=False, systemd=False, python=(3, 12))
REFERENCE = "python:3.11-slim-bookworm"


def tried(*steps: type[Step]) -> frozenset[type[Step]]:
    return frozenset(steps)


def packages(step: object) -> tuple[str, ...]:
    assert isinstance(step, AptInstall)
    return step.packages


def remedy(decision: object, problem: str) -> str:
    assert isinstance(decision, Blocked)
    assert problem in decision.problem
    return decision.remedy


@pytest.mark.parametrize(
    ("facts", "problem", "command"),
    [
        (
            VenvFacts(host=USER, up_to_date=False, can_make_venvs=False),
            "it lacks ensurepip",
            "sudo apt-get install python3.11-venv",
        ),
        (
            VenvFacts(host=CONTAINER, up_to_date=False, can_make_venvs=False, attempted=tried(AptInstall)),
            "it lacks ensurepip",
            "sudo apt-get install python3.11-venv",
        ),
        (
            VenvFacts(host=replace(MAC, python=(3, 9)), up_to_date=False, can_make_venvs=True),
            "Python 3.9 is too old",
            "make PYTHON=",
        ),
    ],
)
def test_venv_where_only_a_person_can_go_on(facts: VenvFacts, problem: str, command: str) -> None:
    assert command in remedy(decide_venv(facts), problem)


SILENT = EngineFacts(host=CONTAINER, answers=False, error="no such file", daemon_installed=True)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        # An engine that answers is used, wherever it is.
        (EngineFacts(host=CONTAINER, answers=True, buildkit=True), None),
        # One that is stopped is started.
        (SILENT, StartDaemon(systemd=False)),
        (replace(SILENT, host=SERVER), StartDaemon(systemd=True)),
        # After an installation it is started, too.
        (replace(SILENT, attempted=tried(AptInstall)), StartDaemon(systemd=False)),
        # If one is starting or hangs, no second one is started.
        (replace(SILENT, daemon_pid=7), AwaitDaemon(pid=7)),
    ],
)
def test_engine_steps(facts: EngineFacts, expected: Step | None) -> None:
    assert decide_engine(facts) == expected


def test_an_engine_is_installed_by_root_where_there_is_none() -> None:
    for host in (CONTAINER, SERVER):
        step = decide_engine(replace(SILENT, host=host, daemon_installed=False))
        assert packages(step) == ("docker.io", "iptables", "ca-certificates")


def test_a_client_that_can_build_is_installed_beside_an_engine_that_answers() -> None:
    step = decide_engine(EngineFacts(host=CONTAINER, answers=True, buildkit=False))
    assert packages(step) == ("docker.io",)
    assert isinstance(step, AptInstall)
    assert step.optional == ("docker-cli", "docker-buildx")


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (ServiceFacts(host=CONTAINER, registry=True, azurite=True, node=None), None),
        (ServiceFacts(host=USER, registry=True, azurite=False, node=20), InstallAzurite()),
        (ServiceFacts(host=USER, registry=True, azurite=False, node=12), InstallNode()),
        (ServiceFacts(host=USER, registry=True, azurite=True, devcontainers=False, node=20), InstallDevcontainers()),
        (
            ServiceFacts(host=MAC, registry=True, azurite=False, node=22, attempted=tried(InstallNode)),
            InstallAzurite(),
        ),
    ],
)
def test_services_steps(facts: ServiceFacts, expected: Step | None) -> None:
    assert decide_services(facts) == expected
