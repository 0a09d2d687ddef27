"""MLflow's experiments, when several clients make or rename them at once."""

from __future__ import annotations

import pytest

from aml_emulator.store.runs import RunStore
from tests.unit.emulator.between import Asked, ask_between
from tests.unit.emulator.memory_service import TRACKING
from tests.unit.emulator.parts import IDENTITY, Service


def asked_for(path: str, **body: object) -> Asked:
    return "POST", f"{TRACKING}/experiments/{path}", body


def refused_one(service: Service, monkeypatch: pytest.MonkeyPatch, first: Asked, second: Asked) -> str:
    """Return the error of the one of two requests that is refused."""
    answers = ask_between(service, monkeypatch, (RunStore, "experiment"), first, second)
    assert sorted(answer.status for answer in answers) == [200, 400]
    (refused,) = (answer for answer in answers if answer.status == 400)
    return str(refused.json["error_code"])


def test_of_two_clients_that_make_one_experiment_one_is_told_that_it_exists(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = (asked_for("create", name="e", tags=[{"key": key, "value": "x"}]) for key in "ab")
    assert refused_one(service, monkeypatch, *requests) == "RESOURCE_ALREADY_EXISTS"
    experiment = service.store.runs.experiment("e")
    assert experiment is not None
    assert len(experiment.tags) == 1


def test_of_two_clients_that_rename_to_one_name_one_is_refused(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [service.call(*asked_for("create", name=name), host=IDENTITY.api_host).json for name in ("a", "b")]
    requests = (asked_for("update", experiment_id=one["experiment_id"], new_name="c") for one in made)
    assert refused_one(service, monkeypatch, *requests) == "RESOURCE_ALREADY_EXISTS"
    assert len(service.store.runs.experiments()) == 2
