"""Paths, environment and image names of a job's container."""

from __future__ import annotations

import pytest

from aml_emulator.executor import layout
from aml_emulator.executor.shared import Shared
from aml_emulator.executor.spec import ExecutorSettings, Folder, InputSpec, OutputSpec, RunSpec

SETTINGS = ExecutorSettings(
    max_jobs=1,
    shared=Shared(1),
    proxy_port=7380,
    ca_bundle=b"",
    registry_login_server="amllocal.azurecr.io",
    registry_engine_name="localhost:7381",
    instance="0123",
)
SPEC = RunSpec(
    run_id="calm_box_1",
    experiment="digits",
    display_name="a run",
    command="python train.py ${{inputs.rate}}",
    image="python:3.11",
    artifacts=Folder(container="azureml", prefix="ExperimentRun/dcid.calm_box_1"),
    code=Folder(container="store", prefix="code"),
    environment_variables={"A": "1"},
    service_environment={"MLFLOW_RUN_ID": "calm_box_1"},
    inputs=(
        InputSpec(name="rate", kind="literal", literal="0.1"),
        InputSpec(name="data", kind="uri_file", location=Folder(container="store", prefix="LocalUpload/x/one.csv")),
        InputSpec(name="all", kind="uri_folder", location=Folder(container="store", prefix="LocalUpload/x/")),
    ),
    outputs=(
        OutputSpec(name="model", kind="mlflow_model", location=Folder(container="store", prefix="out/model")),
        OutputSpec(name="report", kind="uri_file", location=Folder(container="store", prefix="out/report.txt")),
    ),
    shm_bytes=1,
    timeout_seconds=2.5,
)


def changed(**variables: str) -> RunSpec:
    return RunSpec(
        run_id="r",
        experiment="e",
        display_name="d",
        command="true",
        image="i",
        artifacts=Folder(container="c", prefix="p"),
        environment_variables=variables,
        service_environment={"MLFLOW_RUN_ID": "r"},
    )


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("python:3.11", "python:3.11"),
        ("python", "python:latest"),
        ("localhost:5000/x", "localhost:5000/x:latest"),
        ("amllocal.azurecr.io/x@sha256:00", "localhost:7381/x@sha256:00"),
        ("amllocal.azurecr.io/a/b:1", "localhost:7381/a/b:1"),
        ("other.azurecr.io/x@sha256:00", "other.azurecr.io/x@sha256:00"),
        ("amllocal.azurecr.io.evil/x:1", "amllocal.azurecr.io.evil/x:1"),
    ],
)
def test_the_engine_has_its_own_name_for_the_registry(reference: str, expected: str) -> None:
    assert layout.engine_image(reference, SETTINGS) == expected


def test_the_environment_leads_to_the_emulator() -> None:
    environment, lost = layout.environment(SPEC, SETTINGS)
    assert lost == ()
    assert environment["A"] == "1"
    assert environment["MLFLOW_RUN_ID"] == "calm_box_1"
    for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"):
        assert environment[name] == "http://azureml:7380"
    for name in layout.CA_VARIABLES:
        assert environment[name] == layout.CA_BUNDLE_PATH
    assert environment["NO_PROXY"] == environment["no_proxy"] == "localhost,127.0.0.1"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("intra.net, .corp", "intra.net,.corp"),
        ("*", ""),
        (".azure.com,management.azure.com,com,*.windows.net", ""),
        ("notazure.com", "notazure.com"),
    ],
)
def test_no_proxy_cannot_lead_past_the_emulator(given: str, expected: str) -> None:
    environment, lost = layout.environment(changed(no_proxy=given), SETTINGS)
    assert environment["NO_PROXY"] == ",".join(filter(None, ("localhost,127.0.0.1", expected)))
    assert lost == ()
