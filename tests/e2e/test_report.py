"""`aml-train report` of the examples, by the command on the local AzureML, and read in a browser."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.conftest import Local
from tests.support.report_browser import check, launched

pytestmark = [pytest.mark.full, pytest.mark.timeout(1800)]


def test_a_command_job_compared_with_another(local: Local, digits: Path) -> None:
    first = local.run(digits)
    second = local.run(digits, "--set", "job.inputs.epochs=3", "--no-register")
    job, other = first.only("job-submitted")["job"], second.only("job-submitted")["job"]
    html, markdown, plain = (digits / f"report.{end}" for end in ("html", "md", "json"))
    for file in (html, markdown, plain):
        local.command("report", job, "--baseline", other, "-C", str(digits), "-o", str(file))
    with launched() as browser:
        check(browser, html)
    assert markdown.read_text().startswith("## ✅")
    found = json.loads(plain.read_bytes())
    assert found["job"]["name"] == job
    assert [one for one in found["missing"] if one["part"] not in ("packages", "baseline")] == []
    assert found["gate"] == "passed"
    assert {rule["verdict"] for rule in found["rules"]} == {"met"}
    roles = [[line["role"] for line in curve["series"]] for curve in found["curves"]]
    assert ["job", "baseline"] in roles
    assert [row["name"] for row in found["baseline"]["rows"] if row["kind"] == "parameter"] == ["epochs"]
    assert found["lineage"]["state"] == "verified"
    assert found["packages"]
    assert found["images"][0]["digest"]
    assert found["package_changes"] == []
    assert found["logs"][0]["lines"]
    assert found["reproduce"].startswith("aml-train model reproduce ")
