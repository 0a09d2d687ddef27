"""action.yml, the typed inputs, the outputs, the documents and the Dockerfile agree."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from aml_train.core.secrets import known_secrets, named_secret
from aml_train_action.inputs.inputs import INPUTS, REPORT_INPUTS
from aml_train_action.inputs.promotion import PROMOTION_INPUTS
from aml_train_action.report.outputs import OUTPUTS

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/action.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def action() -> Any:
    return yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))


def table(heading: str) -> dict[str, list[str]]:
    """Return the rows of the first table below *heading*, by the word in their first cell."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| `")]
    return {row[0].strip(" `"): [cell.strip() for cell in row[1:]] for row in rows}


def test_the_inputs_are_those_of_the_code(action: Any) -> None:
    declared = action["inputs"]
    assert list(declared) == list(INPUTS)
    assert {name: one["default"] for name, one in declared.items()} == dict(INPUTS)
    for name, one in declared.items():
        assert one["description"], name


def test_the_outputs_are_those_of_the_code(action: Any) -> None:
    assert tuple(action["outputs"]) == OUTPUTS
    assert all(one["description"] for one in action["outputs"].values())


def test_the_page_has_every_input_with_its_default() -> None:
    rows = table("Inputs")
    assert list(rows) == list(INPUTS)
    assert {name: cells[0].strip("`") for name, cells in rows.items()} == dict(INPUTS)


def test_the_page_has_every_output() -> None:
    assert list(table("Outputs")) == list(OUTPUTS)


def reusable(name: str) -> tuple[Any, Any, Any]:
    """Return a reusable workflow, its `workflow_call`, and its step with the action."""
    document = yaml.safe_load((ROOT / f".github/workflows/{name}.yml").read_text(encoding="utf-8"))
    (step,) = [one for one in document["jobs"][name]["steps"] if one.get("uses") == "org/aml-train@v1"]
    return document, document[True]["workflow_call"], step  # YAML 1.1 takes the key `on` for a boolean


def inputs_of(name: str) -> Any:
    document = yaml.safe_load((ROOT / f".github/workflows/{name}.yml").read_text(encoding="utf-8"))
    return document[True]["workflow_call"]["inputs"]


def test_the_reusable_workflow_hands_on_every_input_and_output(action: Any) -> None:
    document, call, step = reusable("train")
    # Promotions and pull requests have workflows of their own.
    named = [name for name in INPUTS if name not in (*PROMOTION_INPUTS, *REPORT_INPUTS)]
    inputs, secrets = call["inputs"], call["secrets"]
    assert set(secrets) == {"client-secret", "creds"}
    assert not any(one["required"] for one in secrets.values())
    assert step["with"] == {name: f"${{{{ {'secrets' if name in secrets else 'inputs'}.{name} }}}}" for name in named}
    assert {*inputs, *secrets} == {*named, "report", "runs-on", "timeout-minutes"}
    for name in INPUTS.keys() & inputs.keys():
        boolean = INPUTS[name] in ("true", "false")
        assert inputs[name]["type"] == ("boolean" if boolean else "string"), name
        assert inputs[name]["default"] == (INPUTS[name] == "true" if boolean else INPUTS[name]), name
        description = action["inputs"][name]["description"].partition("; promote")[0]
        assert inputs[name]["description"] == description.replace("`", ""), name
    elsewhere = (
        "run-url",
        "stage",
        "promoted-version",
        "previous-version",
        "report-file",
    )
    outputs = [name for name in OUTPUTS if name not in elsewhere]
    assert document["jobs"]["train"]["outputs"] == {
        name: f"${{{{ steps.train.outputs.{name} }}}}" for name in outputs
    }
    assert {name: one["value"] for name, one in call["outputs"].items()} == {
        name: f"${{{{ jobs.train.outputs.{name} }}}}" for name in outputs
    }
    assert "permissions" not in document, "the caller's permissions count, id-token: write among them"


def test_the_reusable_promotion_says_what_the_action_says(action: Any) -> None:
    document, call, step = reusable("promote")
    job, inputs, secrets = document["jobs"]["promote"], call["inputs"], call["secrets"]
    assert (document["permissions"], job["permissions"]) == ({}, {"contents": "read", "id-token": "write"})
    assert job["environment"] == "${{ inputs.approval }}"
    assert all(f"inputs.{name}" in job["concurrency"]["group"] for name in ("model", "to", "target"))
    assert job["concurrency"]["cancel-in-progress"] is False
    assert inputs["model"]["required"]
    assert {*inputs, *secrets} == {*step["with"], "version", "approval", "runs-on", "timeout-minutes"}
    for name, value in step["with"].items():
        if name != "model":
            assert value == f"${{{{ {'secrets' if name in secrets else 'inputs'}.{name} }}}}"
    assert (
        {*PROMOTION_INPUTS, "command", "config", "target", "client-id", "creds"} <= set(step["with"]) <= set(INPUTS)
    )
    for name in step["with"].keys() & inputs.keys() - {"command", "model"}:
        default = inputs[name]["default"]
        assert (str(default).lower() if default is False else default) == (
            "production" if name == "to" else INPUTS[name]
        )
        assert inputs[name]["description"] == action["inputs"][name]["description"].replace("`", ""), name
    assert {name: one["value"] for name, one in call["outputs"].items()} == {
        name: f"${{{{ jobs.promote.outputs.{name} }}}}" for name in job["outputs"]
    }
    assert job["outputs"] == {name: f"${{{{ steps.promote.outputs.{name} }}}}" for name in job["outputs"]}
    assert {"stage", "promoted-version", "previous-version", "gate"} <= set(job["outputs"]) <= set(OUTPUTS)


def test_the_job_that_writes_to_pull_requests_runs_no_code_of_them() -> None:
    document, _, step = reusable("report")
    job = document["jobs"]["report"]
    assert document["permissions"] == {}
    assert job["steps"] == [step]
    assert step["with"]["command"] == "report"
    assert job["permissions"] == {"actions": "read", "pull-requests": "write"}


def test_inputs_of_secrets_are_masked() -> None:
    for name in ("client-secret", "creds", "github-token"):
        for variable in (name, f"INPUT_{name.upper()}"):
            assert named_secret(variable), variable
            assert known_secrets({variable: "a-secret-value"}, identifiers=False) == {"a-secret-value"}


DOCUMENTED = [
    (page, text)
    for page in ("README.md", "docs/action.md", "docs/azure.md", "docs/workflows.md")
    for text in re.findall(r"```yaml\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.S)
    if "uses: org/aml-train" in text
]


@pytest.mark.parametrize(("page", "text"), DOCUMENTED)
def test_every_input_and_output_of_a_documented_workflow_exists(page: str, text: str) -> None:
    document = yaml.safe_load(text)
    jobs = document["jobs"].values() if isinstance(document, dict) else [{"steps": document}]
    steps = [one for job in jobs for one in (job, *job.get("steps", ())) if "org/aml-train" in one.get("uses", "")]
    assert steps, page
    for step in steps:
        called = re.fullmatch(r"org/aml-train/\.github/workflows/(\w+)\.yml@v1", step["uses"])
        assert set(step.get("with", {})) <= set(inputs_of(called[1]) if called else INPUTS)
    used = re.findall(r"(?:steps|needs)\.\w+\.outputs\.([\w-]+)", text)
    assert set(used) <= set(OUTPUTS)
