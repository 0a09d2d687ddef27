"""The notebook of the examples on the local AzureML, and what is made of a run's results."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from junitparser import JUnitXml

from tests.e2e.conftest import Local
from tests.support.notebook import NOTEBOOK, check, execute


@pytest.mark.full
def test_the_notebook_trains_the_example(local: Local, digits: Path) -> None:
    folder = digits.parent / "notebook"
    shutil.copytree(NOTEBOOK.parent, folder)
    printed = check(execute(folder, environ=local.environment))
    assert "RUN" in printed, "the plan shows the Dockerfile"


@pytest.mark.full
def test_the_model_is_downloaded_and_the_gate_reported(local: Local, digits: Path) -> None:
    report, folder = digits.parent / "gate.xml", digits.parent / "model"
    ended = local.run(digits, "--gate-junit", str(report))
    assert ended.code == 0, ended.output
    (suite,) = JUnitXml.fromfile(str(report))
    assert (suite.tests, suite.failures, suite.errors) == (2, 0, 0)
    model = ended.only("model-registered")
    address = f"{model['model']}:{model['version']}"
    found = json.loads(local.command("model", "download", address, "-C", str(digits), "-o", str(folder), "--json"))
    assert found["files"]
    assert {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} == set(
        found["files"]
    )
    listed = local.command("jobs", "list", "-C", str(digits), "--metric", "val/accuracy", "--sort")
    assert "val/accuracy=" in listed
