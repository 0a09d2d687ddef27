"""Answers against what Azure's clients declare of them, and against recorded ones of Azure; and the checks themselves."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aml_emulator.api.app import App
from tests import contracts
from tests.contracts import recorded
from tests.support.answers import record_answers
from tests.unit.emulator.memory_service import StoredBlobs
from tests.unit.emulator.parts import IDENTITY, WS, Service

LOCATION = f"/subscriptions/{IDENTITY.subscription_id}/providers/Microsoft.MachineLearningServices/locations/eastus"
HISTORY = f"/history/v1.0{WS}/experiments/exp/runs/job1"


def _recorded(path: Path) -> Iterator[dict[str, Any]]:
    return map(json.loads, path.read_text(encoding="utf-8").splitlines())


def test_answers_are_as_the_clients_declare_and_as_azure_gave_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs = StoredBlobs()
    blobs.append(IDENTITY.artifact_container, "ExperimentRun/dcid.job1/m/MLmodel", b"flavors: {}")
    service = Service(blobs=blobs)
    monkeypatch.setattr(App, "answer", App.answer)
    record_answers(tmp_path / "record.jsonl")
    assert service.submit("job1", tags={"n": 1}).status == 201
    named = {"jobOutputType": "uri_folder", "mode": "Upload", "assetName": "found", "assetVersion": "3"}
    limits = {"jobLimitsType": "Command", "timeout": "PT1H"}
    literal = {"jobInputType": "literal", "value": "1"}
    assert service.submit("job2", inputs={"a": literal}, outputs={"o": named}, limits=limits).status == 201
    service.store.runs.finish("job2", "Failed", code="UserError", message="It failed.", exit_code=3)
    code = {
        "codeUri": f"https://{IDENTITY.blob_host}/c/code",
        "properties": {"hash_sha256": "ab", "hash_version": 202208},
    }
    data = {"dataUri": "azureml://datastores/workspaceblobstore/paths/d", "dataType": "uri_folder"}
    model = {"modelUri": "azureml://jobs/job1/outputs/artifacts/paths/m", "modelType": "mlflow_model"}
    for kind, properties in (("codes", code), ("data", data), ("models", model), ("environments", {"image": "i"})):
        assert service.call("PUT", f"{WS}/{kind}/thing/versions/1", {"properties": properties}).status == 201
        service.call("GET", f"{WS}/{kind}")
        service.call("GET", f"{WS}/{kind}/thing")
        service.call("GET", f"{WS}/{kind}/thing/versions")
        service.call("GET", f"{WS}/{kind}/thing/versions/1")
        service.call("GET", f"{WS}/{kind}/thing/versions/2")
    places = {"inputs": {"a": {"type": "number"}}, "outputs": {"b": {"type": "uri_folder"}}}
    component = {"type": "command", "command": "true", "environment": "azureml:env:1", **places}
    service.call("PUT", f"{WS}/components/thing/versions/1", {"properties": {"componentSpec": component}})
    service.call("GET", f"{WS}/components/thing/versions/1")
    service.call("GET", f"{WS}/models/unknown/versions")
    for compute, name in (("local-cluster", "sweep"), ("nothing", "refused")):
        sweep = {
            "jobType": "Sweep",
            "computeId": f"{WS}/computes/{compute}",
            "trial": {"command": "true", "environmentId": service.environment()},
            "searchSpace": {"lr": ["uniform", [0.1, 0.2]]},
            "samplingAlgorithm": {"samplingAlgorithmType": "Random"},
            "objective": {"goal": "Maximize", "primaryMetric": "accuracy"},
            "limits": {
                "jobLimitsType": "Sweep",
                "timeout": "PT5M",
                "maxTotalTrials": 2,
                "maxConcurrentTrials": 2,
                "trialTimeout": "PT1M",
            },
        }
        service.call("PUT", f"{WS}/jobs/{name}", {"properties": sweep})
    step = {
        "componentId": f"{WS}/components/thing/versions/1",
        "inputs": {"a": {**literal, "job_input_type": "literal"}},
    }
    pipeline = {
        "jobType": "Pipeline",
        "jobs": {"step": {**step, "type": "command"}},
        "computeId": f"{WS}/computes/local-cluster",
    }
    assert service.call("PUT", f"{WS}/jobs/pipeline", {"properties": pipeline}).status == 201
    service.jobs.settle()
    for name in ("sweep", "pipeline"):
        service.call("GET", f"{WS}/jobs/{name}")
    group = f"/subscriptions/{IDENTITY.subscription_id}/resourcegroups/{IDENTITY.resource_group}"
    template = {
        "type": "Microsoft.MachineLearningServices/workspaces/components/versions",
        "name": f"{IDENTITY.workspace}/azureml_anonymous/0.0.1",
        "properties": {"componentSpec": component},
    }
    service.call(
        "POST",
        f"{group}/providers/Microsoft.Resources/deployments/{IDENTITY.workspace}/validate",
        {"properties": {"template": {"resources": [template]}, "mode": "Incremental"}},
    )
    cluster = {
        "location": "eastus",
        "properties": {"computeType": "AmlCompute", "properties": {"vmSize": "Standard_DS3_v2"}},
    }
    service.call("PUT", f"{WS}/computes/more", cluster)
    for path in ("computes", "computes/more", "computes/nothing", "datastores", "datastores/workspaceblobstore"):
        service.call("GET", f"{WS}/{path}")
    service.call("POST", f"{WS}/computes/local-cluster/listNodes")
    service.call(
        "PATCH", f"{WS}/computes/more", {"properties": {"properties": {"scaleSettings": {"maxNodeCount": 3}}}}
    )
    for tail in ("usages", "vmSizes"):
        service.call("GET", f"{LOCATION}/{tail}")
    for name, credentials in (
        ("with_key", {"credentialsType": "AccountKey", "secrets": {"secretsType": "AccountKey", "key": "a2V5"}}),
        ("with_identity", {"credentialsType": "None"}),
    ):
        store = {
            "datastoreType": "AzureBlob",
            "accountName": IDENTITY.storage_account,
            "containerName": "container",
            "credentials": credentials,
        }
        url = f"{WS}/datastores/{name}?skipValidation=true"
        assert service.call("PUT", url, {"properties": store}).status == 201
        service.call("GET", f"{WS}/datastores/{name}")
    expirable = {"expirableSecret": True, "expireAfterHours": 1}
    service.call("POST", f"{WS}/datastores/workspaceblobstore/listSecrets", expirable)
    for path in ("jobs", "jobs/job1", "jobs/job2", "jobs/nothing", ""):
        service.call("GET", f"{WS}/{path}")
    service.call("GET", WS, token="no token")
    service.call("GET", f"{WS}/jobs?api-version=never")
    api = IDENTITY.api_host
    service.call("POST", f"{HISTORY}/artifacts/batch/metadata", {"paths": [{"path": "a/b.txt"}]}, host=api)
    for path in (
        "",
        "/details",
        "/artifacts",
        "/artifacts/contentinfo?path=a/b.txt",
        "/artifacts/contentinfo?path=none",
    ):
        service.call("GET", f"{HISTORY}{path}", host=api)
    for path in ("job1", "job1/details", "job1/children", "pipeline/children"):
        service.call("GET", f"/history/v1.0{WS}/runs/{path}", host=api)
    for path in ("history/v1.0{}/rundata", "metric/v2.0{}/runs/job1/lastvalues"):
        service.call("POST", f"/{path.format(WS)}", {"runId": "job1"}, host=api)
    service.call(
        "POST", f"{WS}/codes/thing/versions/9/startPendingUpload", {"pendingUploadType": "TemporaryBlobReference"}
    )
    service.call("POST", f"{WS}/jobs/job1/cancel")
    for path in ("components", "schedules", "connections"):
        service.call("GET", f"{WS}/{path}")
    for path in ("datastores/with_key", "computes/more?underlyingResourceAction=Delete"):
        service.call("DELETE", f"{WS}/{path}")
    service.call("GET", WS)
    unlike, compared = recorded.unlike(_recorded(tmp_path / "record.jsonl"))
    assert unlike == {}, "what differs on purpose has its reason in tests/contracts/recorded/differences.json"
    assert len(compared) >= 40, sorted(compared)
    wrong, beyond, checked, _ = contracts.check(_recorded(tmp_path / "record.jsonl"))
    assert wrong == {}
    assert sorted(beyond - contracts.undeclared().keys()) == []
    assert len(checked) >= 40, sorted(checked)
    assert service.store.assets.version("codes", "thing", "1") is not None


def test_the_documentation_says_what_was_recorded_when() -> None:
    page = (Path(__file__).parents[4] / "docs/emulator.md").read_text(encoding="utf-8")
    said = {row[0]: set(re.findall("`(.*?)`", row[1])) for row in re.findall(r"(?m)^\| (20\d\d-\d\d), (.*)$", page)}
    known: dict[str, set[str]] = {}
    for one in recorded.every():
        if "month" in one:
            known.setdefault(one["month"], set()).add(f"{one['method']} {one['path']}")
    assert said == known


@pytest.mark.parametrize(
    ("shape", "value", "place"),
    [
        ({"a": "text"}, {}, ".a"),
        ({"a": "number"}, {"a": True}, ".a"),
        ({"a": {"b": "time"}}, {"a": {"b": "soon"}}, ".a.b"),
        ({"value": [{"a": "guid", "c": "text"}, {"b": "flag"}]}, {"value": [{"b": "no"}]}, ".value[].b"),
        ({"id": "arm:jobs"}, {"id": "jobs/x"}, ".id"),
    ],
)
def test_a_difference_from_a_recording_is_found(shape: object, value: object, place: str) -> None:
    assert [at for at, _ in recorded.deviations(shape, value)] == [place]


def test_every_reason_is_of_a_model_that_there_is() -> None:
    names = ("azure-ai-ml", "run-history", "azureml-core")
    known = {model for name in names for model in contracts.load(name).models}
    for name, reason in contracts.undeclared().items():
        assert name.partition(".")[0] in known
        assert len(reason) > 20


def deviations(answer: Any, model: str) -> list[str]:
    """Return how an answer is not as declared, without what has a reason to be undeclared."""
    found = contracts.load("azure-ai-ml").deviations(answer, model)
    return [one for one in found if one.removesuffix(": undeclared") not in contracts.undeclared()]


@pytest.mark.parametrize(
    ("change", "deviation"),
    [
        ({"status": 3}, ".properties.status: 3 is not str"),
        ({"isArchived": "no"}, ".properties.isArchived: 'no' is not bool"),
        ({"command": None}, ".properties.command: null, not str"),
        ({"tags": ["a"]}, ".properties.tags: list, not {str}"),
        ({"tags": {"a": 1}}, ".properties.tags.a: 1 is not str"),
        ({"limits": {"jobLimitsType": "Command", "timeout": "soon"}}, ".timeout: 'soon' is not duration"),
        ({"jobType": "Magic"}, ".properties.jobType: 'Magic' is no kind of JobBaseProperties"),
        ({"colour": "red"}, "CommandJob.colour: undeclared"),
        ({"resources": {"instanceCount": True}}, ".properties.resources.instanceCount: True is not int"),
    ],
)
def test_what_is_not_as_declared_is_found(service: Service, change: dict[str, Any], deviation: str) -> None:
    answer = service.submit("job1").json
    contract = contracts.load("azure-ai-ml")
    model = contract.model_of("GET", f"{WS}/jobs/job1", 200)
    assert model == "JobBase"
    assert deviations(answer, model) == []
    answer["properties"] |= change
    (found,) = deviations(answer, model)
    assert found.endswith(deviation)
