"""`aml-train report` of the examples, by the command on the local AzureML, and read in a browser."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.conftest import ROOT, Local
from tests.support.emulator_process import python_of_v1
from tests.support.report_browser import check, launched

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.full, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as found:
        yield found


def reported(local: Local, project: Path, job: str, browser: Browser, *more: str) -> dict[str, Any]:
    """Make the report of *job* in each form; read the HTML, and return the JSON."""
    html, plain = project / f"{project.name}.html", project / "report.json"
    for file in (html, project / "report.md", plain):
        local.command("report", job, *more, "-C", str(project), "-o", str(file))
    check(browser, html)
    assert (project / "report.md").read_text().startswith("## ✅")
    found: dict[str, Any] = json.loads(plain.read_bytes())
    assert found["job"]["name"] == job
    assert [one for one in found["missing"] if one["part"] not in ("packages", "baseline")] == []
    return found


def test_a_command_job_compared_with_another(local: Local, digits: Path, browser: Browser) -> None:
    first = local.run(digits)
    second = local.run(digits, "--set", "job.inputs.epochs=3", "--no-register")
    job, other = first.only("job-submitted")["job"], second.only("job-submitted")["job"]
    found = reported(local, digits, job, browser, "--baseline", other)
    assert found["gate"] == "passed"
    assert {rule["verdict"] for rule in found["rules"]} == {"met"}
    roles = [[line["role"] for line in curve["series"]] for curve in found["curves"]]
    assert ["job", "baseline"] in roles
    assert [row["name"] for row in found["baseline"]["rows"] if row["kind"] == "parameter"] == ["epochs"]
    assert found["lineage"]["state"] == "verified"
    assert found["packages"]
    assert found["images"][0]["against"] == found["images"][0]["digest"]
    assert found["logs"][0]["lines"]
    assert found["reproduce"].startswith("aml-train model reproduce ")


def test_a_job_of_azureml_core(local: Local, tmp_path: Path, browser: Browser) -> None:
    project = tmp_path / "digits-v1"
    shutil.copytree(ROOT / "examples" / "digits-v1", project, ignore=shutil.ignore_patterns("__pycache__", "outputs"))
    v1 = dataclasses.replace(
        local, python=python_of_v1(), environment={**local.environment, "PYTHONPATH": str(ROOT / "runner")}
    )
    ended = v1.run(project)
    assert ended.code == 0, ended.output
    found = reported(local, project, ended.only("job-submitted")["job"], browser)
    kinds = {table["name"]: table["kind"] for table in found["tables"]}
    assert kinds["confusion"] == "matrix"
    assert "val/loss" in {curve["metric"] for curve in found["curves"]}
