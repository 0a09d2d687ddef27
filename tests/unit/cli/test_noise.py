"""`aml-train jobs noise`: the spread of a job's replicates, and the lines to paste."""

from __future__ import annotations

import json
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from aml_train.cli.main import cli
from aml_train.core.errors import InvalidError
from tests.unit.pipeline.test_replicates import Seeds, plan, service
from tests.unit.pipeline.test_run import run

VALUES = (0.95, 0.96, 0.94, 0.97, 0.95)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Seeds:
    made = service(*VALUES)
    run(plan(">= 0.9"), made)
    monkeypatch.setattr("aml_train.cli.noise.open_workspace", lambda _project: made)
    return made


def noise(*arguments: str, rule: str, folder: Path) -> Result:
    text = f"""
        job: {{command: x, environment: "azureml:e:1"}}
        gate: {{acc: "{rule}", other: "< 1"}}
    """
    (folder / "aml-train.yml").write_text(textwrap.dedent(text))
    return CliRunner().invoke(cli, ["jobs", "noise", *arguments, "-C", str(folder)])


@pytest.mark.parametrize(
    ("rule", "line"), [(">= 0.9", '  acc: ">= baseline - 0.027"'), ("min <= 0.2", '  acc: "<= baseline + 0.027"')]
)
def test_the_margin_is_proposed_in_the_direction_of_the_rule(
    found: Seeds, tmp_path: Path, rule: str, line: str
) -> None:
    done = noise(found.submitted[0].name, rule=rule, folder=tmp_path)
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[0].split() == ["metric", "mean", "deviation", "least", "greatest", "margin"]
    assert lines[1].split()[:2] == ["acc", "0.954"]
    assert lines[-3:] == ["gate:", line, "replicates: {input: seed, values: [1, 2, 3, 4, 5]}"]


def test_json_has_the_jobs_and_the_spread(found: Seeds, tmp_path: Path) -> None:
    done = noise(found.submitted[2].name, "--json", rule=">= 0.9", folder=tmp_path)
    shown = json.loads(done.stdout)
    assert shown["jobs"] == [job.name for job in found.submitted]
    assert shown["metrics"]["acc"]["least"] == 0.94


def test_a_job_without_replicates_has_no_spread(found: Seeds, tmp_path: Path) -> None:
    name = found.submitted[0].name
    kept = {key: value for key, value in found.jobs[name].properties.items() if key != "aml-train.replicates"}
    found.jobs[name] = replace(found.jobs[name], properties=kept)
    done = noise(name, rule=">= 0.9", folder=tmp_path)
    assert isinstance(done.exception, InvalidError)
    assert "has 0 replicates" in done.exception.message
