"""Which code is warned of that logs by azureml-core's Run, and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from aml_train.core.files import FileSet
from aml_train.jobs.code import unsent_metrics, unsent_notice

START = "from azureml.core import Run\nrun = Run.get_context()\n"


def found(folder: Path, **files: str) -> str | None:
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return unsent_metrics(FileSet.collect_code(folder))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (START + "run.log('acc', 1)\n", 3),
        (START + "\ndef end():\n    run.log_row('end', x=1)\n", 5),
        ("import azureml.core\nazureml.core.Run.get_context().log('acc', 1)\n", 2),
        (
            "from azureml.core import Run\nclass T:\n  def f(self):\n    self.run = Run.get_context()\n    self.run.log('a', 1)",
            5,
        ),
        ("from azureml.core.run import Run\nrun: Run = Run.get_submitted_run()\nrun.log_list('l', [1])\n", 3),
        (START + "import sys\nsys.stdout.flush()\nrun.log('acc', 1)\n", 5),
        (START + "pattern = '\\d'\nrun.log('acc', 1)\n", 4),
        (START + "run.log('first', 1)\nrun.log('second', 2)\n", 3),
    ],
)
def test_code_that_never_sends_is_found_at_its_first_value(tmp_path: Path, text: str, line: int) -> None:
    assert found(tmp_path, train=text) == f"train.py:{line}"


@pytest.mark.parametrize(
    "text",
    [
        START + "run.log('acc', 1)\nrun.flush()\n",
        START + "run.log('acc', 1)\nrun.flush(timeout_seconds=60)\n",
        START + "run.log('acc', 1)\nrun.complete()\n",
        "from azureml.core import Run\nwith Run.get_context() as run:\n    run.log('acc', 1)\n",
        START + "with run:\n    run.log('acc', 1)\n",
        START + "run.tag('a', 'b')\nrun.upload_file('a', 'b')\n",
        START + "import logging\nlogging.getLogger().log(10, 'x')\n",
        "import mlflow\nmlflow.log_metric('acc', 1)\nrun = mlflow.get_context()\nrun.log('acc', 1)\n",
        "import multiprocessing, math\nrun = multiprocessing.get_context('fork')\nrun.log(1)\nmath.log(2)\n",
        "# azureml.core.Run\nprint 'python 2'; run.log('acc', 1)\n",
        START + "run.log('acc', 1\n",
        "",
    ],
)
def test_other_code_is_not(tmp_path: Path, text: str) -> None:
    assert found(tmp_path, train=text) is None


def test_a_run_goes_from_module_to_module(tmp_path: Path) -> None:
    state = {"lib__state": START, "lib__report": "from lib.state import run\ndef tell(x):\n    run.log('acc', x)\n"}
    assert found(tmp_path, **state, train="from lib.report import tell\n") == "lib/report.py:3"
    assert found(tmp_path, train="from lib.state import run\nrun.flush()\n") is None


def test_only_what_is_submitted_counts(tmp_path: Path) -> None:
    (tmp_path / ".amlignore").write_text("old/\n")
    assert found(tmp_path, old__train=START + "run.log('acc', 1)\n", train="print(1)\n") is None


def test_what_is_said() -> None:
    assert unsent_notice("train.py:3").startswith(
        "train.py:3 logs by azureml-core's `Run`, and nothing calls `run.flush()`."
    )
    assert "call `run.flush()` at the end of the script" in unsent_notice("train.py:3")
