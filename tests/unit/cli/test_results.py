"""`--json` and `--events`: the same meaning for every command, and what the former spelling does."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from aml_train.cli.main import cli
from aml_train.cli.output import result_text
from aml_train.pipeline.plan_values import plan_facts
from tests.support.fake_promotion import Place, run_command, use_place
from tests.unit.pipeline.test_plan import plan_of

CONFIGURATION = """\
job: missing.yml
model: {name: digits, path: outputs/model}
gate: {acc: '>= 0.2'}
"""


def commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for below in command.list_commands(context):
            each = command.get_command(context, below)
            assert each is not None
            yield from commands(each, f"{name} {below}".strip())
    else:
        yield name, command


COMMANDS = dict(commands(cli, ""))


def options(command: click.Command) -> dict[str, click.Option]:
    return {one.opts[0]: one for one in command.params if isinstance(one, click.Option)}


def test_every_command_means_the_same_by_json() -> None:
    found = {name: options(command)["--json"] for name, command in COMMANDS.items() if "--json" in options(command)}
    helps = {one.help for one in found.values()}
    assert helps == {
        "Print the result as JSON, and nothing else on standard output.",
        "Print each result as a line of JSON, and nothing else on standard output.",
    }
    of_events = {name for name, command in COMMANDS.items() if "--events" in options(command)}
    assert of_events <= found.keys()
    rule = (Path(__file__).parents[3] / "docs" / "output.md").read_text()
    named = set(re.findall(r"`([a-z -]+)`", rule))
    assert found.keys() <= named, "docs/output.md names every command with --json"


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Place:
    place = use_place(monkeypatch, tmp_path, Place(), CONFIGURATION)
    for acc in (0.5, 0.1):
        place.add(acc, "candidate")
    return place


PROMOTE = ("promote", "digits:1", "--to", "production", "--yes")


def test_the_result_is_alone_on_standard_output(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(monkeypatch, *PROMOTE, "--json", "--events", "events") == 0
    said = capsys.readouterr()
    document = json.loads(said.out)
    assert (document["status"], document["exit_code"], document["promoted_version"]) == ("promoted", 0, "1")
    assert document["message"] == "digits version 1 is in production, the first one."
    assert "tags of digits that change" in said.err
    events = [json.loads(line)["event"] for line in Path("events").read_text().splitlines()]
    assert events[-1] == "run-finished"
    assert "promotion-decided" in events


def test_a_refusal_is_a_result(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(monkeypatch, "promote", "digits:2", "--to", "production", "--yes", "--json") == 6
    document = json.loads(capsys.readouterr().out)
    assert (document["status"], document["exit_code"]) == ("gate-failed", 6)
    assert "digits version 2 does not meet the gate of production" in document["message"]


def test_without_a_result_nothing_is_printed(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("aml-train.yml").unlink()
    assert run_command(monkeypatch, *PROMOTE, "--json") == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "There is no aml-train.yml" in said.err


def test_validate_prints_what_is_valid_and_every_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "job.yml").write_text("command: python train.py\nenvironment: azureml:sklearn:1\n")
    assert run_command(monkeypatch, "validate", "-C", str(tmp_path), "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["valid"], document["notes"]) == (True, [])
    assert document["description"].startswith("target local")
    (tmp_path / "aml-train.yml").write_text("job: job.yml\ngates: 1\nimagee: 2\n")
    assert run_command(monkeypatch, "validate", "-C", str(tmp_path), "--json") == 2
    said = capsys.readouterr()
    document = json.loads(said.out)
    assert document["valid"] is False
    assert [fault["where"] for fault in document["faults"]] == ["aml-train.yml:2", "aml-train.yml:3"]
    assert "aml-train.yml:2" in said.err


def test_a_plan_as_values(tmp_path: Path) -> None:
    (tmp_path / "job.yml").write_text("command: python train.py\nenvironment: azureml:sklearn:1\n")
    facts = json.loads(result_text(plan_facts(plan_of(tmp_path))))
    assert facts["target"]["name"] == "local"
    assert (facts["image"], facts["tests"], facts["model"], facts["gate"]) == (None, None, None, [])
    assert facts["job"]["document"]["command"] == "python train.py"
    assert facts["job"]["sdk"] == "v2"
    (tmp_path / "aml-train.yml").write_text(
        "job: {command: python train.py}\nimage: {base: 'python:3.11-slim'}\ngate: {acc: '>= 0.5'}\n"
        "model: {name: digits, path: outputs/model}\ntests: {command: pytest}\n"
    )
    facts = json.loads(result_text(plan_facts(plan_of(tmp_path))))
    assert facts["image"]["dockerfile"].startswith(("# ", "FROM"))
    assert facts["image"]["reference"].startswith("r.azurecr.io/test-a-plan-as-values0:addr-")
    assert facts["tests"]["command"] == "pytest"
    assert facts["gate"] == [{"metric": "acc", "rule": ">= 0.5", "where": "aml-train.yml:3"}]
    assert facts["model"]["name"] == "digits"


def test_results_are_json_that_every_reader_knows() -> None:
    text = result_text({"a": math.nan, "b": [math.inf, -math.inf], "c": {"d": 1.5}, "file": Path("x")})
    assert json.loads(text, parse_constant=pytest.fail) == {
        "a": "NaN", "b": ["Infinity", "-Infinity"], "c": {"d": 1.5}, "file": "x",
    }  # fmt: skip
