"""`aml-train promote`, `rollback` and `model` from the command line, on a workspace in memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aml_train.config.load import load_promotion
from tests.support.fake_promotion import Place, run_command, use_place

CONFIGURATION = """\
job: missing.yml
model: {name: digits, path: outputs/model}
gate: {acc: '>= 0.2'}
baseline: {model: digits, stage: production, bootstrap: true, data: fail}
promote:
  production: {from: [Candidate], gate: {acc: '>= baseline'}, bootstrap: true}
  staging:
"""


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Place:
    return use_place(monkeypatch, tmp_path, Place(), CONFIGURATION)


def test_the_policy_of_a_stage(place: Place) -> None:
    found = load_promotion(None, directory=Path(), target=None)
    production, staging, other = (found.promote.of(stage) for stage in ("Production", "staging", "other"))
    assert (found.model, found.target.name) == ("digits", "local")
    assert [rule.rule.text for rule in production.rules] == [">= baseline"]
    assert (production.sources, production.bootstrap, production.where) == (("candidate",), True, "aml-train.yml:6")
    # What is not said for a stage is that of a run.
    for policy in (staging, other):
        assert [rule.rule.text for rule in policy.rules] == [">= 0.2"]
        assert (policy.sources, policy.bootstrap, policy.data) == ((), True, "fail")


def test_promote_and_roll_back(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for acc in (0.1, 0.5):
        place.add(acc, "candidate")
    assert run_command(monkeypatch, "promote", "digits:1", "--to", "production", "--yes", "--actor", "ann") == 0
    assert place.tags("1")["aml-train.promoted-by"] == "ann"
    assert (
        run_command(monkeypatch, "promote", "--to", "Production", "--expect", "1", "--yes", "--events", "events") == 0
    )
    last = json.loads(Path("events").read_text().splitlines()[-1])
    assert (last["status"], last["facts"]["promoted_version"]) == ("promoted", "2")
    assert run_command(monkeypatch, "rollback", "digits", "--to", "production", "--dry-run") == 0
    assert place.stages() == {"1": "archived", "2": "production"}
    assert run_command(monkeypatch, "rollback", "digits", "--to", "production", "--yes", "--actor", "bob") == 0
    assert place.stages() == {"1": "production", "2": "archived"}
    assert place.tags("1")["aml-train.promoted-by"] == "bob"
    capsys.readouterr()
    assert run_command(monkeypatch, "promote", "digits:2", "--to", "production", "--yes") == 6
    assert "a model gets to production from candidate only (aml-train.yml:6)" in capsys.readouterr().out


def test_nothing_is_promoted_without_a_policy_or_an_answer(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place.add(0.5, "candidate")
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    assert run_command(monkeypatch, "promote", "digits:1", "--to", "production") == 2
    assert "Confirmation needed, but stdin is not a terminal" in capsys.readouterr().err
    Path("aml-train.yml").unlink()
    assert run_command(monkeypatch, "promote", "digits:1", "--to", "production", "--yes") == 2
    assert "nothing says what a model must meet" in capsys.readouterr().err
    Path("aml-train.yml").write_text("job: {}\n")
    assert run_command(monkeypatch, "promote", "--to", "production", "--yes") == 2
    assert "Which model? aml-train.yml has no `model`." in capsys.readouterr().err
    assert place.stages() == {"1": "candidate"}


def test_a_rollback_takes_the_configured_model(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for acc in (0.5, 0.6):
        place.add(acc, "candidate")
    for version in ("1", "2"):
        assert run_command(monkeypatch, "promote", f"digits:{version}", "--to", "production", "--yes", "-q") == 0
    assert run_command(monkeypatch, "rollback", "--to", "production", "--yes") == 0
    assert place.stages() == {"1": "production", "2": "archived"}
    Path("aml-train.yml").write_text("job: {}\n")
    capsys.readouterr()
    assert run_command(monkeypatch, "rollback", "--to", "production", "--yes") == 2
    assert "Which model? aml-train.yml has no `model`.\nName it before `--to STAGE`" in capsys.readouterr().err


def test_models_are_listed_shown_and_traced(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place.add(0.5, "candidate")
    place.catalogue.change_tags("digits", "1", {"aml-train.metric.acc": "0.5"}, guard=lambda: None)
    assert run_command(monkeypatch, "model", "list") == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["NAME", "VERSIONS", "LATEST", "STAGES"],
        ["digits", "1", "1", "candidate:", "1"],
    ]
    assert (
        run_command(
            monkeypatch, "model", "list", "--versions", "--stage", "Candidate", "--tag", "aml-train.gate=passed"
        )
        == 0
    )
    row = capsys.readouterr().out.splitlines()[1].split()
    assert row == ["digits", "1", "candidate", "passed", "acc=0.5", "job-1"]
    assert run_command(monkeypatch, "model", "show", "digits@candidate", "--json") == 0
    assert json.loads(capsys.readouterr().out)["metrics"] == {"acc": 0.5}
    assert run_command(monkeypatch, "model", "lineage", "digits") == 0
    assert "└─ ✓ job         job-1" in capsys.readouterr().out
    del place.service.history_of["job-1"]
    assert run_command(monkeypatch, "model", "lineage", "digits", "--json") == 6
    told = capsys.readouterr()
    assert json.loads(told.out)["parts"][1]["state"] == "broken"
    assert "The lineage of digits:1 is broken: job job-1: there is no such job any more" in told.err
