"""`aml-train compare`: what it takes, and what it shows."""

from __future__ import annotations

import datetime
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from aml_train.cli.main import cli
from aml_train.comparison import Project, Reference, find_side, parse_reference
from aml_train.config.load import load_config
from aml_train.core.errors import AmlTrainError, InvalidError
from aml_train.core.git import Origin
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView, ModelView
from aml_train.pipeline.branch_verdicts import record_verdict
from tests.support.decisions import DECISIONS
from tests.support.fake_workspace import FakeService

NOW = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
ORIGIN = Origin(repository="github.com/o/r", configuration="aml-train.yml", branch="main", commit="a" * 40)


def workspace() -> FakeService:
    """Two completed jobs, one that runs, and a model in production whose job is gone."""
    old = JobView(
        name="old", status=JobStatus.COMPLETED, parameters={"epochs": "2"},
        variables={"OMP_NUM_THREADS": "2", "SEED": "1", "HF_TOKEN": "hf-old"},
        tags={"aml-train.data.train": "digits:6", "aml-train.commit": "b" * 40},
    )  # fmt: skip
    new = replace(old, name="new", parameters={"epochs": "3"}, tags={"aml-train.data.train": "digits:7"})
    new = replace(new, variables={"OMP_NUM_THREADS": "4", "SEED": "1", "HF_TOKEN": "hf-new"})
    begun = NOW - datetime.timedelta(seconds=90)
    live = JobView(name="live", status=JobStatus.RUNNING, started=begun)
    service = FakeService(
        script=(JobStatus.RUNNING,),
        jobs={"old": replace(old, started=begun, ended=NOW), "new": new, "live": live},
        history_of={"old": {"acc": [0.1, 0.5, 0.95]}, "new": {"acc": [0.2, 0.97], "nan": [1.0, math.nan]}},
        metrics={"acc": [0.3]},
        logged_by={
            "old": {"epochs": "2", "lr": "0.1", "seed": "7"},
            "new": {"epochs": "3", "lr": "0.05", "seed": "7", "momentum": "0.9"},
        },
    )
    tags = {"aml-train.stage": "production", "aml-train.metric.acc": "0.9", "aml-train.job": "gone"}
    tags["aml-train.parameter.epochs"] = "9"
    service.registered.append(ModelView(name="digits", version="4", path="p", tags=tags))
    return service


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> FakeService:
    found = workspace()
    monkeypatch.setattr("aml_train.cli.compare.open_workspace", lambda *_: found)
    return found


def compare(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["compare", *arguments], catch_exceptions=False)


def test_two_jobs_side_by_side(service: FakeService) -> None:
    result = compare("new", "old")
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert lines[:3] == ["A  the job new", "B  the job old", ""]
    for line in (
        "data train           digits:7   digits:6      differs",
        "epochs               3          2             differs",
        "logged lr            0.05       0.1           differs",
        "logged momentum      0.9                      differs",
        "env OMP_NUM_THREADS  4          2             differs",
        "acc                       0.97          0.95  +0.02 (+2.11 %)",
        "nan                        nan",
        "acc over steps   ● A   ○ B   ◉ both",
        "0.97 ┤            ●",
    ):
        assert any(one.startswith(line) or one.endswith(line) for one in lines), f"{line}\n{result.output}"
    assert "nan over steps" not in result.output, "one finite step is no curve"
    for same in ("logged seed", "env SEED", "logged epochs", "HF_TOKEN", "hf-"):
        assert same not in result.output, f"{same}: it is equal, an input, or a secret"
    assert "over steps" not in compare("new", "old", "--no-charts").output


def test_json_has_all_values_and_no_word_that_json_does_not_know(service: FakeService) -> None:
    def refuse(word: str) -> None:
        raise AssertionError(word)

    told = json.loads(compare("new", "old", "--json").output, parse_constant=refuse)
    assert told["left"]["data"] == {"train": "digits:7"}
    assert told["different_data"] == ["train"]
    assert told["different_parameters"] == ["epochs"]
    assert told["different_logged_parameters"] == ["lr", "momentum"]
    assert told["different_environment_variables"] == ["OMP_NUM_THREADS"]
    assert told["left"]["environment_variables"] == {"OMP_NUM_THREADS": "4", "SEED": "1", "HF_TOKEN": "***"}
    assert told["right"]["logged_parameters"]["lr"] == "0.1"
    assert told["metrics"]["acc"] == {
        "left": 0.97,
        "right": 0.95,
        "difference": 0.02,
        "percent": pytest.approx(2.105263),
    }
    assert told["histories"]["nan"] == {"left": [[0, 1.0], [1, "NaN"]], "right": []}
    assert told["right"]["seconds"] == 90


def test_files_need_no_workspace(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"acc": 0.5}')
    (tmp_path / "b.json").write_text('{"acc": 0.25}')
    result = compare(str(tmp_path / "a.json"), str(tmp_path / "b.json"))
    assert result.exit_code == 0
    assert "+0.25 (+100 %)" in result.output


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("digits-1_a", Reference(text="digits-1_a", kind="job", name="digits-1_a")),
        ("job:baseline", Reference(text="job:baseline", kind="job", name="baseline")),
        ("baseline", Reference(text="baseline", kind="baseline")),
        ("branch:feature/x", Reference(text="branch:feature/x", kind="branch", name="feature/x")),
        ("stage:Production", Reference(text="stage:Production", kind="stage", name="Production")),
        ("model:m:3", Reference(text="model:m:3", kind="model", name="m", version="3")),
        ("model:m@production", Reference(text="model:m@production", kind="model", name="m", stage="production")),
        ("a/b", Reference(text="a/b", kind="file", name="a/b")),
        ("report.JSON", Reference(text="report.JSON", kind="file", name="report.JSON")),
        ("file:metrics", Reference(text="file:metrics", kind="file", name="metrics")),
    ],
)
def test_what_a_side_is_called(text: str, reference: Reference) -> None:
    assert parse_reference(text) == reference


def project(folder: Path, text: str = "") -> Project:
    (folder / "aml-train.yml").write_text(f"job: {{command: x, environment: 'azureml:e:1'}}\n{text}")
    return Project(config=load_config(None, directory=folder), origin=ORIGIN)


def side(text: str, service: FakeService, given: Project, **more: Any) -> str:
    return find_side(lambda: service, parse_reference(text), lambda: given, now=NOW, **more).title


def test_what_the_project_says(tmp_path: Path) -> None:
    service = workspace()
    for name in ("old", "new"):
        record_verdict(service, service.jobs[name], ORIGIN, DECISIONS["passed"], now=NOW)
    (tmp_path / "b.json").write_text('{"acc": 0.5}')
    given = project(tmp_path, "model: {name: digits, path: outputs/model}\nbaseline: {file: b.json}\n")
    assert side("stage:Production", service, given) == "digits version 4 (stage Production)"
    assert side("branch:main", service, given, besides="old") == "the job new (branch main, verdict not proved)"
    assert side("branch:main", service, given, besides="new") == "the job old (branch main, verdict not proved)"
    assert side("baseline", service, given).endswith("b.json")


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("never", InvalidError, "There is no job never in the workspace."),
        ("model:digits:9", InvalidError, "There is no model:digits:9: the model digits with version 9 is missing (of its 1 versions none is)."),
        ("branch:main", InvalidError, "There is no branch:main: no run of aml-train.yml in github.com/o/r on the branch main has passed."),
        ("stage:production", InvalidError, "'stage:production' is a stage of the project's model, and aml-train.yml has no `model`."),
        ("baseline", InvalidError, "aml-train.yml has no `baseline`."),
        ("gone.json", InvalidError, "gone.json cannot be read: No such file or directory"),
    ],
)  # fmt: skip
def test_what_is_not_there(text: str, error: type[AmlTrainError], message: str, tmp_path: Path) -> None:
    with pytest.raises(error) as caught:
        side(text, workspace(), project(tmp_path))
    assert str(caught.value).startswith(message)
