"""`aml-train report`: the file that it writes, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from aml_train.cli.main import cli
from aml_train.core.errors import InvalidError
from aml_train.report import values
from tests.support.passport_world import JOB
from tests.unit.report.test_collect import sources, world


@pytest.fixture(autouse=True)
def in_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = sources(world())
    monkeypatch.setattr("aml_train.cli.report.open_report", lambda *_place, **_options: made)
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["report", *arguments])


@pytest.mark.parametrize(
    ("file", "begin"),
    [
        ("report.html", b"<!DOCTYPE html>"),
        ("r.MD", b"## "),
        ("r.json", b'{"format":1'),
    ],
)
def test_the_suffix_chooses_the_form(file: str, begin: bytes) -> None:
    result = run(JOB, "-o", file)
    assert result.exit_code == 0, result.output
    assert Path(file).read_bytes().lstrip().startswith(begin)
    assert result.stdout.splitlines()[-1] == file


def test_the_report_may_go_to_standard_output_alone() -> None:
    result = run(JOB, "-o", "-", "--format", "json")
    assert values.decode(result.stdout_bytes, origin="stdout").job is not None
    assert not list(Path().iterdir())


def test_a_suffix_without_a_meaning_is_refused_before_anything_is_read() -> None:
    result = run("nowhere-1", "-o", "report.pdf")
    assert result.exit_code == 2
    assert "write .html, .md or .json behind it, or name the form: --format html" in result.output


def test_a_job_that_does_not_exist_is_an_error_and_no_file_is_written() -> None:
    Path("report.html").write_text("before")
    result = run("nowhere-1")
    assert isinstance(result.exception, InvalidError)
    assert Path("report.html").read_text() == "before"
