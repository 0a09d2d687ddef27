"""Places of inputs and outputs, their values in a command, and registered outputs."""

from __future__ import annotations

from typing import Any

import pytest

from aml_emulator.domain.jobs.service import RunProgress
from aml_emulator.executor.layout import Layout
from aml_emulator.executor.spec import Folder, InputSpec, RunSpec
from tests.unit.emulator.parts import IDENTITY, WS, Service

STORE = "azureml://datastores/workspaceblobstore/paths"
LONG = (
    f"azureml://subscriptions/{IDENTITY.subscription_id}/resourcegroups/{IDENTITY.resource_group}"
    f"/workspaces/{IDENTITY.workspace}/datastores/workspaceblobstore/paths"
)


def given(service: Service, **job: Any) -> RunSpec:
    answer = service.submit("run1", **job)
    assert answer.status == 201, answer.json
    return service.runner.submitted[0]


def entry(service: Service, kind: str, uri: str, mode: str | None = None) -> InputSpec:
    return given(service, inputs={"d": {"jobInputType": kind, "uri": uri, "mode": mode}}).inputs[0]


@pytest.mark.parametrize(
    ("kind", "uri", "literal"),
    [
        ("uri_folder", f"{STORE}/a/b/", f"{LONG}/a/b"),
        ("uri_folder", f"{STORE}/a/*.csv", f"{LONG}/a/*.csv"),
        ("uri_file", f"{WS}/data/d/versions/1", f"{LONG}/kept/x.csv"),
        ("uri_file", "https://example.org/x?y=1", "https://example.org/x?y=1"),
        ("uri_file", f"https://{IDENTITY.blob_host}/other/x", f"https://{IDENTITY.blob_host}/other/x"),
    ],
)
def test_a_direct_input_is_the_address_itself(service: Service, kind: str, uri: str, literal: str) -> None:
    service.store.assets.put("data", "d", "1", {"dataUri": f"{STORE}/kept/x.csv", "dataType": "uri_file"})
    item = entry(service, kind, uri, "Direct")
    assert (item.literal, item.location, item.url) == (literal, None, None)


def test_a_file_on_the_web_is_fetched_and_messages_do_not_show_its_query(service: Service) -> None:
    service.store.assets.put("data", "d", "1", {"dataUri": "https://example.org/x?sig=1", "dataType": "uri_file"})
    item = entry(service, "uri_file", f"{WS}/data/d/versions/1")
    assert (item.url, item.uri, item.location) == ("https://example.org/x?sig=1", "https://example.org/x", None)


def test_an_output_lies_where_its_path_says(service: Service) -> None:
    path = "azureml://datastores/${{default_datastore}}/paths/a/${{name}}/${{ output_name }}"
    outputs = {
        "o": {"jobOutputType": "uri_folder", "uri": path},
        "p": {"jobOutputType": "uri_file", "mode": "Direct"},
    }
    first, second = given(service, outputs=outputs).outputs
    assert first.location == Folder(container=IDENTITY.blob_container, prefix="a/run1/o")
    assert (second.mode, second.uri) == ("Direct", f"{LONG}/azureml/run1/p")


def finish(service: Service, *outputs: str) -> Any:
    sink = RunProgress(service.services, "run1")
    for name in outputs:
        sink.output(name)
    sink.finished("Completed", None)
    return service.store.runs.require("run1")


def test_outputs_are_registered_once_when_the_job_has_completed(service: Service) -> None:
    service.store.assets.put("data", "mine", "4", {"dataUri": f"{STORE}/x", "dataType": "uri_folder"})
    outputs = {
        "o": {"jobOutputType": "uri_folder", "assetName": "mine"},
        "v": {"jobOutputType": "uri_file", "assetName": "mine", "assetVersion": "v1"},
        "m": {"jobOutputType": "mlflow_model", "assetName": "net"},
        "n": {"jobOutputType": "uri_folder"},
    }
    given(service, outputs=outputs)
    for _ in range(2):  # a job that is taken up again reports its end again
        assert finish(service, "o", "v", "m", "n").status == "Completed"
    assets = service.store.assets
    assert sorted(item.version for item in assets.versions("data", "mine")) == ["4", "5", "v1"]
    made = assets.version("data", "mine", "5")
    assert made is not None
    assert (made.properties["dataUri"], made.properties["dataType"]) == (f"{LONG}/azureml/run1/o/", "uri_folder")
    (model,) = assets.versions("models", "net")
    assert (model.version, model.properties["modelType"], model.properties["jobName"]) == (
        "1",
        "mlflow_model",
        "run1",
    )


def test_what_cannot_be_registered_fails_the_job(service: Service) -> None:
    outputs = {
        "o": {"jobOutputType": "uri_folder", "assetName": "mine", "assetVersion": "1"},
        "f": {"jobOutputType": "uri_file", "assetName": "other"},
    }
    given(service, outputs=outputs)
    service.store.assets.put("data", "mine", "1", {"dataUri": f"{STORE}/x", "dataType": "uri_folder"})
    run = finish(service, "o")
    assert (run.status, run.error_code) == ("Failed", "UserError")
    assert "'o' cannot be registered as 'mine:1': this version exists already" in run.error_message
    assert "'f' was not written, and cannot be registered as 'other'" in run.error_message


def test_what_the_launcher_of_a_framework_sets(service: Service) -> None:
    processes = {"distributionType": "PyTorch", "processCountPerInstance": 3}
    spec = given(service, distribution=processes, resources={"dockerArgs": "--cpus 1 -e A=b -h node"})
    assert (spec.launcher, spec.processes, spec.hostname) == ("pytorch", 3, "node")
    assert spec.environment_variables == {"A": "b"}
    assert dict(spec.host_options) == {"nano_cpus": 1_000_000_000}


def test_a_folder_on_the_web_is_accepted_at_submission(service: Service) -> None:
    # As azure-ai-ml's own tests of submissions expect; the job fails when it begins.
    folder = {"jobInputType": "uri_folder", "uri": "https://example.com/x/"}
    assert service.submit("run1", inputs={"d": folder}).status == 201
    (spec,) = service.runner.submitted
    assert [item.url for item in spec.inputs] == [folder["uri"]]
    assert Layout(run_id="run1").input_path(spec.inputs[0]).endswith("/INPUT_d")
