"""`command: promote` and `command: rollback`, over a workspace in memory."""

from __future__ import annotations

import html
import io
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from aml_train.core.errors import InvalidError
from aml_train.core.events import Listener
from aml_train.models.promotion.promote import Promoter
from aml_train_action.github.step import read_step
from aml_train_action.inputs.inputs import read_inputs
from aml_train_action.inputs.promotion import PROMOTION_INPUTS
from aml_train_action.main import main
from tests.support.fake_promotion import Place
from tests.unit.action.runner_model import Runner
from tests.unit.action.test_commands import _read_outputs

CONFIG = """\
job: {command: python train.py, environment: 'azureml:e:1'}
gate: {acc: '>= 0.1'}
model: {name: digits, path: outputs/model, stage: candidate}
promote:
  production:
    from: candidate
    gate: {acc: '>= baseline'}
    bootstrap: true
"""
SECRET = "the-real-secret-value"
GITHUB = {
    "GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "octo/digits", "GITHUB_RUN_ID": "42", "GITHUB_ACTOR": "ann",
    "GITHUB_TRIGGERING_ACTOR": "bob", "MY_TOKEN": SECRET,
}  # fmt: skip


@dataclass
class Ran:
    code: int
    log: Runner
    outputs: dict[str, str]
    summary: str


@pytest.fixture
def act(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    (tmp_path / "aml-train.yml").write_text(CONFIG)

    def run(place: Place, **given: str) -> Ran:
        def opened(
            _host: object, _target: object, _directory: object, listener: Listener, **_more: object
        ) -> Promoter:
            return replace(place.promoter(), listener=listener)

        monkeypatch.setattr("aml_train_action.promoting.open_promoter", opened)
        out, summary, stdout = tmp_path / "out", tmp_path / "sum", io.BytesIO()
        for file in (out, summary):
            file.unlink(missing_ok=True)
        files = {"GITHUB_WORKSPACE": str(tmp_path), "GITHUB_OUTPUT": str(out), "GITHUB_STEP_SUMMARY": str(summary)}
        inputs = {f"INPUT_{name.replace('__', '-').upper()}": value for name, value in given.items()}
        code = main({**GITHUB, **files, **inputs}, stdout)
        log = Runner().read(stdout.getvalue().decode())
        return Ran(code, log, _read_outputs(out.read_text()), html.unescape(summary.read_text()))

    return run


def told(ran: Ran, name: str) -> list[str]:
    return [command.data for command in ran.log.done if command.name == name]


def test_a_candidate_takes_the_place_of_what_is_in_production(act: Callable[..., Ran]) -> None:
    place = Place()
    place.add(0.5, "production")
    place.add(0.6, "candidate")
    ran = act(place, command="promote", to="Production", reason=f"better | {SECRET}")
    assert ran.code == 0
    assert place.stages() == {"1": "archived", "2": "production"}
    tags = place.tags("2")
    assert tags["aml-train.promoted-by"] == "bob"
    assert tags["aml-train.promotion-run"] == "https://github.com/octo/digits/actions/runs/42"
    expected = {
        "status": "promoted", "gate": "passed", "model-name": "digits", "model-version": "2", "model-id": "digits:2",
        "stage": "production", "promoted-version": "2", "previous-version": "1", "job-name": "", "baseline": "digits version 1 (version 1)",
    }  # fmt: skip
    assert {name: ran.outputs[name] for name in expected} == expected
    (rule,) = json.loads(ran.outputs["gate-report"])["rules"]
    assert (rule["metric"], rule["verdict"], rule["limit"]) == ("acc", "met", 0.5)
    assert told(ran, "notice") == ["digits version 2 is now in production. Version 1 is archived."]
    for text in ("promoted", "| in it now | <code>digits version 2</code> |", "| archived |", "| asked for by | <code>bob</code> |",
                 "| why | <code>better | ***</code> |", "### Gate", "The baseline is", "### Lineage", "aml-train promote --to Production"):  # fmt: skip
        assert text in ran.summary.replace("\\", ""), text
    assert SECRET not in ran.summary


def test_a_worse_candidate_is_refused_at_the_rules_line(act: Callable[..., Ran]) -> None:
    place = Place()
    place.add(0.5, "production")
    place.add(0.4, "candidate")
    ran = act(place, command="promote", model="digits:2", to="production")
    assert (ran.code, ran.outputs["status"], ran.outputs["gate"]) == (6, "gate-failed", "failed")
    assert ran.outputs["promoted-version"] == ran.outputs["previous-version"] == ""
    assert place.stages() == {"1": "production", "2": "candidate"}
    errors = [command for command in ran.log.done if command.name == "error"]
    assert any("line=7" in error.properties and "missed by" in error.data for error in errors), errors
    assert "in it now" not in ran.summary


def test_a_model_must_be_named_where_the_configuration_has_none(act: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "aml-train.yml").write_text(CONFIG.partition("gate:")[0])
    ran = act(Place(), command="promote", to="production")
    assert (ran.code, ran.outputs["status"]) == (2, "invalid")
    assert any("with.model: which model? The configuration has no `model`" in text for text in told(ran, "error"))


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"COMMAND": "promote"}, "with.to: `command: promote` needs a stage: write such as `to: production`"),
        (
            {"COMMAND": "rollback", "TO": "p", "MODEL": "m:3"},
            "with.model: a rollback finds the version itself: write `m`, or `command: promote`",
        ),
        ({"COMMAND": "promote", "TO": "p", "MODEL": ":3"}, "with.model: ':3' names no model: write NAME or NAME:VERSION"),
        (
            {"COMMAND": "promote", "TO": "p", "SET": "promote.p.gate=x"},
            "with.set: `command: promote` uses the configuration as it is checked in: delete it; aml-train.yml has the rules",
        ),
        ({"DRY-RUN": "true"}, "with.dry-run: `command: run` promotes nothing: write `command: plan`"),
        ({"DRY-RUN": "1"}, "with.dry-run: '1' is not known: known are true, false"),
        *(
            ({name.upper(): "x"}, f"with.{name}: `command: run` promotes nothing: write `command: promote`, or delete it")
            for name in PROMOTION_INPUTS
            if name != "dry-run"
        ),
    ],
)  # fmt: skip
def test_inputs_that_do_not_go_together(given: dict[str, str], complaint: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidError) as caught:
        read_inputs({f"INPUT_{name}": value for name, value in given.items()}, tmp_path)
    assert [str(fault) for fault in caught.value.faults] == [complaint]


def test_who_asks_and_where() -> None:
    assert (read_step(GITHUB).actor, read_step({"GITHUB_ACTOR": "ann"}).actor, read_step({}).actor) == (
        "bob",
        "ann",
        "unknown",
    )
    assert read_step({}).run_url is None
