"""Cleaning: the removed runs, assets and folders, and those that stay."""

from __future__ import annotations

import dataclasses
from typing import Any, cast

import pytest

from aml_emulator.context import Context
from aml_emulator.domain.cleaning import clean_workspace
from aml_emulator.store.runs import RunStore
from tests.support.fake_executor import MemoryBlobs
from tests.unit.emulator.between import between
from tests.unit.emulator.memory_service import TRACKING
from tests.unit.emulator.parts import IDENTITY, WS, Service

DAY = 86400
ARTIFACTS, STORE = IDENTITY.artifact_container, IDENTITY.blob_container


class Bench:
    """A service whose blobs are in memory."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.blobs = MemoryBlobs()
        self.services: Context = dataclasses.replace(service.services, blobs=cast(Any, self.blobs))

    def run(self, name: str, *, ended: bool = True, **properties: Any) -> None:
        """Submit a job that leaves a log and an output."""
        outputs = {"model": {"jobOutputType": "uri_folder"}}
        assert self.service.submit(name, outputs=outputs, **properties).status == 201
        self.blobs.put(ARTIFACTS, f"ExperimentRun/dcid.{name}/user_logs/std_log.txt", b"log")
        for place in self.service.store.runs.require(name).outputs.values():
            self.blobs.put(str(place["container"]), f"{place['prefix'].strip('/')}/weights", b"weights")
        if ended:
            self.service.store.runs.finish(name, "Completed")

    def code(self, name: str) -> str:
        """Upload code and return its id."""
        uri = f"https://{IDENTITY.blob_host}/{STORE}/LocalUpload/{name}"
        self.service.call("PUT", f"{WS}/codes/{name}/versions/1", {"properties": {"codeUri": uri}})
        self.blobs.put(STORE, f"LocalUpload/{name}/train.py", b"code")
        return f"{WS}/codes/{name}/versions/1"

    def clean(self, *, older_than: float = DAY, keep: int = 0, dry_run: bool = False) -> dict[str, Any]:
        return clean_workspace(self.services, older_than=older_than, keep=keep, dry_run=dry_run)

    def later(self, seconds: float) -> None:
        """Let time go by; the client signs in again."""
        self.service.clock.now += seconds
        self.service.token = self.service.tokens.issue(audience="https://management.azure.com")

    def names(self) -> list[str]:
        return [item["name"] for item in self.service.call("GET", f"{WS}/jobs").json["value"]]

    def stored(self) -> set[str]:
        return {name for _, name in self.blobs.content}


@pytest.fixture
def bench(service: Service) -> Bench:
    return Bench(service)


def test_what_ended_long_ago_goes_with_all_its_files(bench: Bench) -> None:
    bench.run("old", codeId=bench.code("used-once"))
    bench.run("waits", ended=False, codeId=bench.code("in-use"))
    bench.later(2 * DAY)
    bench.run("new")
    before = bench.stored()
    seen = bench.clean(dry_run=True)
    assert (bench.names(), bench.stored()) == (["new", "waits", "old"], before)
    assert bench.clean() == {**seen, "dry_run": False}
    assert seen["runs"] == ["old"]
    assert seen["assets"] == {"codes": 1, "data": 0}
    assert (seen["blobs"], seen["bytes"]) == (3, len(b"log" + b"weights" + b"code"))
    assert bench.names() == ["new", "waits"]
    assert not any("old" in name or "used-once" in name for name in bench.stored())
    assert "LocalUpload/in-use/train.py" in bench.stored()
    assert bench.service.call("GET", f"{WS}/codes/used-once").status == 404
    assert bench.clean()["runs"] == []


def test_the_newest_stay_however_old(bench: Bench) -> None:
    for name in ("one", "two", "three"):
        bench.run(name)
    bench.later(2 * DAY)
    assert bench.clean(keep=2)["runs"] == ["one"]
    assert bench.names() == ["three", "two"]


def test_a_job_stays_while_something_named_lies_in_it(bench: Bench) -> None:
    bench.run("best")
    bench.run("other")
    model = {"modelUri": "azureml://jobs/best/outputs/model", "modelType": "custom_model"}
    assert bench.service.call("PUT", f"{WS}/models/m/versions/1", {"properties": model}).status == 201
    data = {"dataUri": "azureml://datastores/workspaceblobstore/paths/azureml/other/model", "dataType": "uri_folder"}
    place = bench.service.store.runs.require("other").outputs["model"]
    data["dataUri"] = f"azureml://datastores/workspaceblobstore/paths/{place['prefix']}"
    assert bench.service.call("PUT", f"{WS}/data/d/versions/1", {"properties": data}).status == 201
    bench.later(2 * DAY)
    seen = bench.clean()
    assert seen["runs"] == []
    assert seen["kept"] == {
        "best": "model m:1 is in its outputs",
        "other": "data d:1 is in its outputs",
    }
    assert len(bench.stored()) == 4


def test_a_job_stays_while_another_that_has_not_ended_reads_it(bench: Bench) -> None:
    bench.run("first")
    uri = {"jobInputType": "uri_folder", "uri": "azureml://jobs/first/outputs/model"}
    bench.run("second", ended=False, inputs={"weights": uri})
    bench.later(2 * DAY)
    assert bench.clean()["kept"] == {"first": "job second reads its outputs"}


def test_a_place_that_the_user_chose_is_the_users(bench: Bench) -> None:
    chosen = {"jobOutputType": "uri_folder", "uri": "azureml://datastores/workspaceblobstore/paths/results"}
    assert bench.service.submit("mine", outputs={"model": chosen}).status == 201
    bench.blobs.put(STORE, "results/weights", b"weights")
    bench.service.store.runs.finish("mine", "Completed")
    bench.later(2 * DAY)
    assert bench.clean()["runs"] == ["mine"]
    assert bench.stored() == {"results/weights"}


def test_children_go_with_their_parent_and_not_before(bench: Bench) -> None:
    store = bench.service.store.runs
    experiment = store.ensure_experiment("exp")
    for name, parent in (("parent", None), ("child", "parent")):
        store.create(run_id=name, experiment_id=experiment.id, display_name=name, status="Running", parent_id=parent)
    store.finish("parent", "Completed")
    bench.later(2 * DAY)
    assert bench.clean()["runs"] == []
    store.finish("child", "Completed")
    bench.later(2 * DAY)
    assert bench.clean()["runs"] == ["parent", "child"]
    assert store.get("child") is None


MODEL = {"modelUri": "azureml://jobs/old/outputs/artifacts/paths/model", "modelType": "custom_model"}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", f"{WS}/models/m/versions/1", {"properties": MODEL}),
        (
            "POST",
            f"{TRACKING}/model-versions/create",
            {"name": "known", "source": "runs:/old/model", "run_id": "old"},
        ),
    ],
)
def test_a_model_of_files_that_are_removed_meanwhile_is_refused(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, method: str, path: str, body: Any
) -> None:
    bench.run("old")
    bench.service.call("POST", f"{TRACKING}/registered-models/create", {"name": "known"}, host=IDENTITY.api_host)
    bench.later(2 * DAY)
    cleaned, answer = between(bench.service, monkeypatch, (RunStore, "outlines"), bench.clean, (method, path, body))
    assert cleaned["runs"] == ["old"]
    assert answer.status == 404
    assert bench.stored() == set()


def test_a_job_with_code_that_is_removed_meanwhile_is_refused(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    code = bench.code("shared")
    bench.run("old", codeId=code)
    bench.later(2 * DAY)
    job = bench.service.job(codeId=code)
    submit = ("PUT", f"{WS}/jobs/new", {"properties": job})
    cleaned, answer = between(bench.service, monkeypatch, (RunStore, "outlines"), bench.clean, submit)
    assert cleaned["assets"] == {"codes": 1, "data": 0}
    assert answer.status == 404
    assert bench.names() == []
