"""``aml-train jobs`` against an emulator."""

from __future__ import annotations

import json
from pathlib import Path
from secrets import token_hex

import pytest

from tests.integration.pipeline.conftest import AmlTrain, Ended, Running

WRITE = (
    'echo "$0 says $X ${{inputs.n}}"; mkdir -p outputs/model/deep; echo w > outputs/model/deep/w.pt; echo m > outputs/m.json;'
    " echo x > ${{outputs.made}}/made.txt"
)
TARGET = ("--target", "azure")


def jobs(aml_train: AmlTrain, *arguments: str) -> Running:
    return aml_train.start(aml_train.folder, "jobs", *arguments, *TARGET)


def report(aml_train: AmlTrain, *arguments: str) -> Running:
    return aml_train.start(aml_train.folder, "report", *arguments, *TARGET)


def fine(running: Running) -> Ended:
    ended = running.ended()
    assert ended.code == 0, ended.errors
    return ended


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@pytest.mark.full
def test_jobs_are_listed_shown_cancelled_submitted_again_and_downloaded(aml_train: AmlTrain, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    outputs = ("job.outputs.made.type=uri_folder", "job.inputs.n=3", f"job.command={WRITE}")
    sets = tuple(word for text in outputs for word in ("--set", text))
    first = aml_train.submit(empty, "x", options=("--name", "first", "--tag", "a=b", "--env", "X=it's", *sets))
    endless = aml_train.submit(empty, "sleep", "9000", options=("--name", "endless", "--no-wait"))
    assert fine(first).job == "first"
    assert "`aml-train jobs logs -f endless` follows it" in fine(endless).output

    following = jobs(aml_train, "logs", "-f", "endless")
    again = jobs(aml_train, "resubmit", "first", "--name", "second", "-f")
    cancelled = fine(jobs(aml_train, "cancel", "endless", "first"))
    assert sorted(cancelled.output.splitlines()) == ["endless is Canceled", "first had ended: Completed"]
    followed = following.ended()
    assert followed.code == 7
    assert "The job endless was cancelled" in followed.errors
    assert fine(again).output == "second\n/bin/bash says it's 3\n"

    listed = jobs(aml_train, "list", "--tag", "a=b", "--json")
    shown = jobs(aml_train, "show", "second", "--json")
    printed = jobs(aml_train, "logs", "first")
    some = jobs(aml_train, "download", "second", "outputs/model", "outputs/*.json", "-o", str(tmp_path / "some"))
    named = jobs(aml_train, "download", "second", "--output-name", "made", "-o", str(tmp_path / "named"))
    missing = jobs(aml_train, "show", "nothing")
    rows = [json.loads(line) for line in fine(listed).output.splitlines()]
    assert [(row["name"], row["status"]) for row in rows] == [("second", "Completed"), ("first", "Completed")]
    told = json.loads(fine(shown).output)
    assert (told["environment_variables"], told["inputs"]) == ({"X": "it's"}, {"n": "3"})
    assert told["tags"]["aml-train.resubmitted-from"] == "first"
    assert told["outputs"]["made"].endswith("/azureml/second/made/")
    assert fine(printed).output == "/bin/bash says it's 3\n"
    fine(some)
    fine(named)
    assert files(tmp_path / "some") == ["outputs/m.json", "outputs/model/deep/w.pt"]
    assert files(tmp_path / "named") == ["made.txt"]
    ended = missing.ended()
    assert (ended.code, "There is no job nothing in the workspace" in ended.errors) == (2, True)


@pytest.mark.full
def test_the_secrets_of_a_job_are_in_nothing_that_is_told_of_it(aml_train: AmlTrain, tmp_path: Path) -> None:
    """Whoever reads the job later has neither its configuration nor its variables."""
    key, folder = f"key{token_hex(8)}", tmp_path / "empty"
    folder.mkdir()
    told = ("sh", "-c", 'echo "told $SERVICE_API_KEY, $AZUREML_RUN_TOKEN."')
    options = ("--name", "telling", "--env", f"SERVICE_API_KEY={key}", "--set", f"job.description=the key is {key}")
    submitted = fine(aml_train.submit(folder, *told, options=options))
    assert "told ***, ***." in submitted.log()

    forms = ("html", "md", "json")
    reports = [report(aml_train, "telling", "-o", str(tmp_path / f"r.{form}")) for form in forms]
    read = [jobs(aml_train, *command) for command in (("logs", "telling"), ("show", "telling"), ("list", "--json"))]
    logs, shown, _ = ended = [fine(one) for one in read]
    assert logs.output == "told ***, ***.\n"
    assert "description: the key is ***" in shown.output
    ended += [submitted, *(fine(one) for one in reports)]
    texts = [one.output + one.errors for one in ended] + [json.dumps(submitted.events)]
    texts += [(tmp_path / f"r.{form}").read_text() for form in forms]
    assert all("telling" in text for text in texts[-3:])
    assert not [text for text in texts if key in text or "eyJ" in text]
