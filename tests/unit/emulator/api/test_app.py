"""The interfaces as views of one state: what goes in through one is seen through the others."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from aml_emulator.domain.jobs.service import RunProgress
from aml_emulator.executor.spec import Folder, RunError
from aml_emulator.identity.tokens import Tokens
from tests.unit.emulator.parts import IDENTITY, WS, Service

API = IDENTITY.api_host
STORE = "azureml://datastores/workspaceblobstore/paths"
MLFLOW = f"/mlflow/v2.0{WS}/api/2.0/mlflow"
HISTORY = f"/history/v1.0{WS}"


def test_without_a_token_nothing_is_told(service: Service) -> None:
    answer = service.call("GET", WS, token=None)
    assert (answer.status, answer.json["error"]["code"]) == (401, "AuthenticationFailed")
    assert IDENTITY.tenant_id in answer.headers["WWW-Authenticate"]
    assert service.call("GET", "/nothing", token=None).status == 401
    keys = "api experimentation history hyperdrive labeling modelmanagement pipelines studiocoreservices"
    found = service.call("GET", "/discovery", host=API, token=None).json
    assert found.pop("studio") == "https://ml.azure.com", "azureml-core needs it"
    assert found == dict.fromkeys(keys.split(), f"https://{API}"), "the keys of Microsoft's REST guide, and no others"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        (WS.replace(IDENTITY.subscription_id, "other"), "SubscriptionNotFound"),
        (WS.replace("aml-local", "other"), "ResourceGroupNotFound"),
        (WS.replace("workspaces/local", "workspaces/other"), "ResourceNotFound"),
        (f"{WS}/computes/other", "ResourceNotFound"),
        (f"{WS}/environments/other/versions/1", "UserError"),
        (f"{WS}/jobs/other", "UserError"),
    ],
)
def test_what_is_not_there_is_a_404(service: Service, path: str, code: str) -> None:
    answer = service.call("GET", path)
    assert (answer.status, answer.json["error"]["code"]) == (404, code)


def test_an_unsupported_operation_says_so_everywhere(service: Service) -> None:
    answer = service.call("GET", f"{WS}/featuresets?api-version=2024-04-01")
    assert (answer.status, answer.json["error"]["code"]) == (501, "NotImplemented")
    for words in ("GET", "/featuresets", "2024-04-01", "docs/emulator.md"):
        assert words in answer.json["error"]["message"]
    (seen,) = service.services.unsupported.seen()
    assert "/featuresets" in seen
    assert service.call("GET", f"{MLFLOW}/traces", host=API).json["error_code"] == "NotImplemented"


def test_a_job_becomes_what_the_executor_needs(service: Service) -> None:
    service.store.assets.put("codes", "c", "1", {"codeUri": f"https://{IDENTITY.blob_host}/cont/src"})
    answer = service.submit(
        "run1",
        command="t ${{inputs.rate}} ${{inputs.data}} ${{outputs.model}}",
        codeId=f"{WS}/codes/c/versions/1",
        inputs={
            "rate": {"jobInputType": "literal", "value": "0.1"},
            "data": {"jobInputType": "uri_folder", "uri": "azureml://datastores/workspaceblobstore/paths/d/"},
        },
        outputs={"model": {"jobOutputType": "uri_folder"}},
        resources={"shmSize": "1g"},
        limits={"timeout": "PT5M"},
        environmentVariables={"A": "b"},
    )
    assert (answer.status, answer.json["properties"]["status"]) == (201, "Starting")
    (spec,) = service.runner.submitted
    assert (spec.image, spec.shm_bytes, spec.timeout_seconds) == ("python:3.11", 1024**3, 300)
    assert spec.code == Folder(container="cont", prefix="src")
    assert [(item.name, item.literal) for item in spec.inputs] == [("rate", "0.1"), ("data", None)]
    assert spec.inputs[1].location == Folder(container=IDENTITY.blob_container, prefix="d")
    assert spec.outputs[0].location == Folder(container=IDENTITY.blob_container, prefix="azureml/run1/model")
    assert spec.artifacts == Folder(container="azureml", prefix="ExperimentRun/dcid.run1")
    assert spec.environment_variables == {"A": "b"}
    assert spec.service_environment["MLFLOW_RUN_ID"] == "run1"
    assert answer.json["properties"]["properties"]["ContentSnapshotId"] == "c"


def test_the_same_job_again_is_the_same_job_and_another_one_is_not(service: Service) -> None:
    assert service.submit("run1").status == 201
    again = service.submit("run1", tags={"a": "b"}, displayName="new")
    assert (again.status, again.json["properties"]["tags"]) == (200, {"a": "b"})
    assert again.json["properties"]["displayName"] == "new"
    assert len(service.runner.submitted) == 1
    other = service.submit("run1", command="something else")
    assert other.status == 400
    assert "A job with this name already exists ('run1')" in other.json["error"]["message"]


@pytest.mark.parametrize(
    ("properties", "status", "words"),
    [
        ({"computeId": f"{WS}/computes/nowhere"}, 400, "Unknown compute target 'nowhere'"),
        ({"environmentId": f"{WS}/environments/none/versions/1"}, 400, "'none:1' was not found"),
        ({"environmentId": "azureml://registries/azureml/environments/x/versions/1"}, 501, "registries"),
        ({"codeId": f"{WS}/codes/none/versions/1"}, 404, "codes 'none'"),
        (
            {"inputs": {"d": {"jobInputType": "uri_file", "uri": "abfss://c@x.dfs.core.windows.net/x"}}},
            400,
            "outside",
        ),
        ({"inputs": {"d": {"jobInputType": "uri_file", "uri": "https://example.com/"}}}, 400, "does not name a file"),
        ({"inputs": {"d": {"jobInputType": "uri_file", "uri": f"{STORE}/a/*.csv"}}}, 400, "use uri_folder"),
        (
            {"inputs": {"d": {"jobInputType": "uri_folder", "uri": f"{STORE}/a/*", "mode": "ReadWriteMount"}}},
            400,
            "mounted for writing",
        ),
        ({"outputs": {"o": {"jobOutputType": "uri_folder", "uri": "https://example.com/x"}}}, 400, "outside"),
        ({"outputs": {"o": {"jobOutputType": "uri_folder", "uri": "azureml:a:1"}}}, 400, "path in a datastore"),
        ({"outputs": {"o": {"jobOutputType": "uri_folder", "uri": STORE}}}, 400, "root of a datastore"),
        ({"outputs": {"o": {"jobOutputType": "uri_folder", "uri": f"{STORE}/${{{{x}}}}"}}}, 400, "is not known"),
        ({"parentJobName": "nobody"}, 400, "no job 'nobody'"),
        ({"inputs": {"d": {"jobInputType": "uri_file", "uri": "azureml:none:1"}}}, 404, "'none'"),
    ],
)
def test_a_refused_job_leaves_nothing_behind(
    service: Service, properties: dict[str, Any], status: int, words: str
) -> None:
    answer = service.submit("run1", **properties)
    assert answer.status == status
    assert words in answer.json["error"]["message"]
    assert service.store.runs.get("run1") is None
    assert service.runner.submitted == []


def test_a_run_is_seen_alike_through_every_interface(service: Service) -> None:
    service.submit("run1", tags={"a": "b"}, outputs={"model": {"jobOutputType": "uri_folder"}})
    sink = RunProgress(service.services, "run1")
    sink.status("Running")
    sink.log("user_logs/std_log.txt")
    details = service.call("GET", f"{HISTORY}/runs/run1/details", host=API).json
    assert details["status"] == "Running"
    address = details["logFiles"]["user_logs/std_log.txt"]
    assert address.startswith(f"https://{IDENTITY.blob_host}/azureml/ExperimentRun/dcid.run1/user_logs/std_log.txt?")
    run = service.call("GET", f"{MLFLOW}/runs/get?run_id=run1", host=API).json["run"]
    assert (run["info"]["status"], run["info"]["run_name"]) == ("RUNNING", "run1")
    assert {"key": "a", "value": "b"} in run["data"]["tags"]
    service.call("POST", f"{MLFLOW}/runs/set-tag", {"run_id": "run1", "key": "c", "value": "d"}, host=API)
    assert service.call("GET", f"{WS}/jobs/run1").json["properties"]["tags"] == {"a": "b", "c": "d"}
    sink.output("model")
    sink.finished("Failed", RunError(code="UserError", message="it broke", exit_code=7))
    job = service.call("GET", f"{WS}/jobs/run1").json["properties"]
    assert (job["status"], job["properties"]["exitCode"]) == ("Failed", "7")
    data = service.call("POST", f"{HISTORY}/rundata", {"runId": "run1"}, host=API).json["runMetadata"]
    assert data["error"]["error"]["message"] == "it broke"
    asset = data["outputs"]["model"]["assetId"]
    resolved = service.call("POST", f"/data/v1.0{WS}/dataversion/batchGetResolvedUris", {"values": [asset]}, host=API)
    uri = resolved.json["values"][asset]["uri"]
    assert uri.endswith("/datastores/workspaceblobstore/paths/azureml/run1/model")
    assert service.call("GET", f"{MLFLOW}/runs/get?run_id=run1", host=API).json["run"]["info"]["status"] == "FAILED"


def test_a_job_tells_which_files_it_left_outside_its_outputs(service: Service) -> None:
    service.submit("run1")
    sink = RunProgress(service.services, "run1")
    sink.artifact("logged/report.html", 9)
    data = {f"data/{number}.csv": 50_000_000 + number for number in range(6)}
    sink.unkept({**data, "report.html": 9, "model.joblib": 3_100_000})
    sink.finished("Completed", None)
    found = service.call("GET", f"{WS}/jobs/run1").json["properties"]["properties"]["aml-emulator.files-not-kept"]
    assert found == (
        "model.joblib (3.1 MB), data/5.csv (50.0 MB), data/4.csv (50.0 MB), data/3.csv (50.0 MB), data/2.csv (50.0 MB), 2 more"
    )


def test_a_jobs_own_token_ends_with_it(service: Service) -> None:
    service.submit("run1")
    token = service.runner.submitted[0].service_environment["MLFLOW_TRACKING_TOKEN"]
    path = f"{MLFLOW}/runs/get?run_id=run1"
    assert service.call("GET", path, host=API, token=token).status == 200
    RunProgress(service.services, "run1").finished("Completed", None)
    assert service.call("GET", path, host=API, token=token).status == 401


def test_runs_are_taken_up_again_after_a_restart(service: Service) -> None:
    for name, status in (("queued", ""), ("running", "Running"), ("leaving", "CancelRequested")):
        service.submit(name)
        if status:
            service.store.runs.advance(name, status)
    service.runner.submitted.clear()
    service.jobs.resume()
    assert service.runner.adopted == ["running", "leaving"]
    assert [spec.run_id for spec in service.runner.submitted] == ["queued"]
    assert service.store.runs.require("leaving").status == "Canceled"


@pytest.mark.parametrize(
    ("asked", "status", "found", "range_"),
    [
        ("", 200, b"0123456789", ""),
        ("bytes=4-", 206, b"4567", "bytes 4-7/10"),
        ("bytes=2-3", 206, b"23", "bytes 2-3/10"),
        ("bytes=10-", 416, b"", "bytes */10"),
    ],
)
def test_a_file_is_passed_on_by_ranges(
    service: Service, monkeypatch: pytest.MonkeyPatch, asked: str, status: int, found: bytes, range_: str
) -> None:
    blob = b"0123456789"
    monkeypatch.setattr("aml_emulator.api.artifacts._MOST_AT_ONCE", 4)
    monkeypatch.setattr(service.blobs, "size", lambda _container, _name: len(blob))
    monkeypatch.setattr(service.blobs, "read", lambda _container, _name: iter([blob]))
    monkeypatch.setattr(service.blobs, "read_range", lambda _c, _n, start, length: blob[start : start + length])
    service.submit("run1")
    service.store.runs.add_artifact("run1", "user_logs/std_log.txt")
    path = f"/artifact/v2.0{WS}/artifacts/content/ExperimentRun/dcid.run1/user_logs/std_log.txt"
    answer = service.call("GET", path, host=API, headers={"range": asked} if asked else {})
    assert (answer.status, answer.body, answer.headers.get("Content-Range", "")) == (status, found, range_)


@pytest.mark.parametrize(
    ("token", "code"),
    [
        ("", "AuthenticationFailed"),
        ("no.token", "InvalidAuthenticationToken"),
        ("foreign", "InvalidAuthenticationToken"),
        ("expired", "ExpiredAuthenticationToken"),
        ("audience", "InvalidAuthenticationTokenAudience"),
        ("tenant", "InvalidAuthenticationTokenTenant"),
    ],
)
@pytest.mark.parametrize("host", ["management.azure.com", API])
def test_whose_token_it_is_not_is_refused_with_azures_code(
    service: Service, token: str, code: str, host: str
) -> None:
    others = (
        {"tenant_id": "99999999-9999-9999-9999-999999999999"} if token == "tenant" else {"token_secret": "cd" * 32}
    )
    made = {
        "expired": lambda: service.tokens.issue(audience="https://management.azure.com"),
        "audience": lambda: service.tokens.issue(audience="https://graph.microsoft.com"),
        **dict.fromkeys(
            ("tenant", "foreign"),
            lambda: Tokens(dataclasses.replace(IDENTITY, **others), clock=service.clock).issue(
                audience="https://management.azure.com"
            ),
        ),
    }
    given = made[token]() if token in made else token
    if token == "expired":
        service.clock.now += 3600
    answer = service.call("GET", f"{WS}/jobs", token=given or None, host=host)
    assert (answer.status, answer.json["error"]["code"]) == (401, code)
    assert 'error="invalid_token"' in answer.headers["WWW-Authenticate"]
