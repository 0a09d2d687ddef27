"""The step of a run that issues a passport: when the key is read, and how the run ends without a passport."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aml_train.config.sections.passport import PassportConfig
from aml_train.core.clock import Clock
from aml_train.core.errors import ServiceError
from aml_train.core.events import Event
from aml_train.models.passport.issue import PASSPORT_FILE
from aml_train.pipeline.context import RunContext
from aml_train.pipeline.passport import make_signer
from aml_train.pipeline.result import RunOptions, RunResult
from aml_train.pipeline.run import run as run_pipeline
from aml_train.testing.override import MemoryCatalogue
from tests.support.fake_workspace import FakeClock, FakeService
from tests.support.memory_passports import MemoryPassports
from tests.support.passport_world import HOST, PassportWorld, new_signer
from tests.unit.pipeline.test_run import FakeTarget, good_service, make_plan

SOURCE = "azureml://jobs/{job}/outputs/artifacts/paths/outputs/model"


def run(service: FakeService, signer: Any, *, reached: list[str], **options: Any) -> RunResult:
    clock, events = FakeClock(), list[Event]()

    def opened() -> FakeTarget:
        reached.append("target")
        return FakeTarget(service=service)

    context = RunContext(
        plan=make_plan({"acc": [">= 0.95"]}, passport=PassportConfig(key_file=Path("/nowhere/signing.pem"))),
        open_target=opened,
        options=RunOptions(**options),
        clock=Clock(now=clock.now, sleep=clock.sleep),
        emit=events.append,
        signer=functools.cache(signer),
    )
    return run_pipeline(context)


@pytest.fixture
def passports(monkeypatch: pytest.MonkeyPatch) -> MemoryPassports:
    """Have passports kept in memory, with files for every model."""
    passports = MemoryPassports()
    world = PassportWorld()

    def evidence(service: Any, _registry: Any) -> Any:
        for one in service.registered:
            passports.models.setdefault(one.path, {"model.joblib": b"weights"})
        return replace(
            world.evidence,
            service=service,
            catalogue=MemoryCatalogue(service),
            store=passports,
            registry=lambda _host: None,
        )

    monkeypatch.setattr("aml_train.pipeline.passport.open_evidence", evidence)
    assert HOST
    return passports


def test_a_key_that_cannot_be_used_ends_the_run_before_anything_is_opened() -> None:
    reached: list[str] = []
    config = PassportConfig(key_file=Path("/nowhere/signing.pem"))
    ended = run(good_service(), lambda: make_signer(config, {}), reached=reached)
    assert (ended.status, ended.exit_code, reached) == ("invalid", 2, [])
    assert "/nowhere/signing.pem cannot be read" in ended.message


def test_a_run_that_registers_nothing_needs_no_key() -> None:
    config = PassportConfig(key_file=Path("/nowhere/signing.pem"))
    ended = run(good_service(), lambda: make_signer(config, {}), reached=[], register=False)
    assert ended.exit_code == 0


def test_a_registry_that_cannot_be_reached_ends_with_9_and_the_model_is_registered(
    passports: MemoryPassports,
) -> None:
    service = good_service()
    ended = run(service, new_signer, reached=[])
    assert (ended.status, ended.exit_code) == ("not-verified", 9)
    assert "cannot state its image" in ended.message
    assert "aml-train attach" in (ended.hint or "")
    assert [one.version for one in service.registered] == ["1"]
    assert passports.kept == {}


def test_an_outage_names_what_is_registered(passports: MemoryPassports, monkeypatch: pytest.MonkeyPatch) -> None:
    def down(*_args: Any) -> Any:
        raise ServiceError("the storage does not answer")

    monkeypatch.setattr("aml_train.pipeline.passport.issue_passport", down)
    ended = run(good_service(), new_signer, reached=[])
    assert ended.exit_code == 9
    assert "is registered, and its passport could not be issued: the storage does not answer" in ended.message


def test_a_version_that_has_a_passport_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from aml_train.models.passport.issue import has_passport

    world = PassportWorld()
    assert has_passport(world.evidence, world.current())
    world.passports.kept["digits", "7", PASSPORT_FILE] += b" "
    assert not has_passport(world.evidence, world.current())
    world.register("8")
    assert not has_passport(world.evidence, world.current("8"))
