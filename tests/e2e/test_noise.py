"""examples/noise on the local AzureML: three replicates in one image, judged together, found again, and measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.conftest import Local
from tests.e2e.test_graphs import example


@pytest.mark.full
def test_replicates_are_judged_together_and_found_again(local: Local, tmp_path: Path) -> None:
    project = example("noise", "job.yml", tmp_path)
    ended = local.run(project)
    assert ended.code == 0, ended.output
    last = {event["replicate"]: event for event in ended.of("replicate-changed")}
    assert list(last) == ["seed = 1", "seed = 2", "seed = 3"]
    assert {event["status"] for event in last.values()} == {"Completed"}
    values = [event["metrics"]["val/accuracy"] for event in last.values()]
    assert len(set(values)) > 1, "the seed matters"
    rules = {event["rule"]: event for event in ended.of("rule-verdict")}
    assert rules[">= 0.85 over 3 replicates"]["value"] == min(values)
    assert rules["replicates mean >= 0.9 over 3 replicates"]["value"] == pytest.approx(sum(values) / 3)
    assert rules[">= baseline - 0.05 over 3 replicates"]["verdict"] == "skipped"
    assert ended.only("model-registered")["version"]
    for seed, value in zip((1, 2, 3), values, strict=True):
        assert f"seed = {seed}: val/accuracy {value:.6g}" in ended.output

    jobs = [event["job"] for event in last.values()]
    shown = [json.loads(local.command("jobs", "show", job, "--json")) for job in jobs]
    digest = ended.only("image-ready")["digest"]
    assert [one["tags"]["aml-train.image-digest"] for one in shown] == [digest] * 3
    report = json.loads(local.command("report", jobs[0], "-o", "-", "--format", "json", "-C", str(project)))
    assert [one["job"] for one in report["replicates"]] == jobs

    # The registered model and its replicates are the baseline of the next run, which submits nothing.
    listed = ("jobs", "list", "-n", "0", "--json", "--experiment", ended.only("run-finished")["facts"]["experiment"])
    assert len(local.command(*listed).splitlines()) == 3
    again = local.run(project)
    assert again.code == 0, again.output
    assert [event["job"] for event in again.of("replicate-changed")][:3] == jobs
    tested = {event["rule"]: event for event in again.of("rule-verdict")}[">= baseline - 0.05 over 3 replicates"]
    assert "3 replicates" in tested["reason"]
    assert len(local.command(*listed).splitlines()) == 3

    noise = json.loads(local.command("jobs", "noise", jobs[0], "--json", "-C", str(project)))
    assert noise["jobs"] == jobs
    assert noise["metrics"]["val/accuracy"]["least"] == min(values)
    assert noise["proposal"][1].startswith('  val/accuracy: ">= baseline - ')
