"""Models on the page: stages, gates and metrics; and the gate on a run's page."""

from __future__ import annotations

import json

import pytest

from aml_emulator.page.gate import gate_of_run
from aml_train.core import tags as names
from aml_train.pipeline.branch_verdicts import verdict_tag
from tests.unit.emulator.page.test_page import Browser, log_values
from tests.unit.emulator.parts import IDENTITY, WS, Service

DIGEST = "sha256:" + "1f" * 32
RULES = [
    ["val/accuracy", ">= 0.9", 0.971234567, 0.9, "met"],
    ["val/loss", "<= baseline + 2%", "nan", 0.25, "missed"],
    ["time", "finite", None, None, "skipped"],
]


def model_tags(**changed: str) -> dict[str, str]:
    """Return the tags of a version that aml-train registered."""
    return {
        names.TAG_STAGE: "candidate",
        names.TAG_GATE: "passed",
        names.TAG_RULES: json.dumps([*RULES, "2 more"]),
        f"{names.TAG_METRIC}val/accuracy": "0.971234567",
        f"{names.TAG_METRIC}only/here": "soon",
        f"{names.TAG_DATA}train": "images:4",
        names.TAG_COMMIT: "c0ffee" * 6,
        names.TAG_REPOSITORY: "github.com/owner/name",
        names.TAG_BRANCH: "main",
        names.TAG_BASE: "python:3.11@sha256:123",
        names.TAG_IMAGE: f"r.azurecr.io/digits@{DIGEST}",
        **changed,
    }


def register(service: Service, version: str, *, job: str = "j", **changed: str) -> None:
    held = {"modelUri": "azureml://x", "jobName": job, "tags": model_tags(**changed)}
    service.store.assets.put("models", "digits", version, held)


@pytest.fixture
def trained(service: Service) -> Service:
    """Return a service with a job that used data and code, and version 1 of its model."""
    service.store.assets.put("data", "images", "4", {"dataUri": "azureml://datastores/workspaceblobstore/paths/i"})
    service.store.assets.put(
        "codes", "code", "1", {"codeUri": f"https://{IDENTITY.blob_host}/{IDENTITY.blob_container}/code"}
    )
    made = service.submit(
        "j",
        displayName="train digits",
        environmentId=service.environment("img", image=f"r.azurecr.io/digits@{DIGEST}"),
        codeId=f"{WS}/codes/code/versions/1",
        inputs={
            "rate": {"jobInputType": "literal", "value": "0.1"},
            "train": {"jobInputType": "uri_folder", "uri": f"azureml:{WS}/data/images/versions/4"},
        },
    )
    assert made.status == 201, made.body
    log_values(service, "j", "val/accuracy", [0.5, 0.98])
    log_values(service, "j", "epochs", [2.0])
    service.store.runs.finish("j", "Completed")
    register(service, "1")
    return service


# Stages


# Gates


def test_a_run_shows_its_gate_with_the_rules_of_its_model(trained: Service) -> None:
    verdict = {
        "gate": "passed",
        "at": "2026-11-20",
        "commit": "c0ffee",
        "repository": "r/n",
        "configuration": "a.yml",
    }
    trained.store.runs.tag(
        "j",
        {
            names.TAG_GATE: "passed",
            names.TAG_BASELINE: "stage production: digits version 1",
            verdict_tag("main"): json.dumps(verdict),
            verdict_tag("topic/x"): json.dumps({**verdict, "gate": "failed", "at": "2026-11-21"}),
            verdict_tag("broken"): "{",
        },
    )
    page = Browser(trained).text("/ui/runs/j")
    assert '<dt>Verdict</dt><dd><span class="gate gate-passed">passed</span></dd>' in page
    assert "<dt>Baseline</dt><dd>stage production: digits version 1</dd>" in page
    assert 'stored with <a href="/ui/models/digits/1">digits, version 1</a>' in page
    gate = gate_of_run(trained.services, trained.store.runs.require("j"))
    assert gate is not None
    assert [(one.branch, one.word) for one in gate.verdicts] == [
        ("topic/x", "failed"),
        ("main", "passed"),
        ("broken", "unreadable"),
    ]
    assert [rule.verdict for rule in gate.rules] == ["met", "missed", "skipped"]
