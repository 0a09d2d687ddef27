"""Which code is warned of that logs by azureml-core's Run."""

from __future__ import annotations

from pathlib import Path

import pytest

from aml_train.core.files import FileSet
from aml_train.jobs.code import unsent_metrics, unsent_notice

START = "from azureml.core import Run\nrun = Run.get_context()\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (START + "run.log('acc', 1)\n", "train.py"),
        (START + "run.log_row('end', x=1)\nimport sys\nsys.stdout.flush()\n", "train.py"),
        (START + "run.log('acc', 1\n", "train.py"),
        (START + "run.log('acc', 1)\nrun.flush(timeout_seconds=60)\n", None),
        ("from azureml.core import Run\nwith Run.get_context() as run:\n    run.log('acc', 1)\n", None),
        (START + "run.tag('a', 'b')\n", None),
        ("import mlflow\nmlflow.log_metric('acc', 1)\n", None),
        ("", None),
    ],
)
def test_code_that_never_sends_is_found(tmp_path: Path, text: str, found: str | None) -> None:
    (tmp_path / "train.py").write_text(text)
    assert unsent_metrics(FileSet.collect_code(tmp_path)) == found
    (tmp_path / "end.py").write_text("run.complete()\n")
    assert unsent_metrics(FileSet.collect_code(tmp_path)) is None


def test_what_is_said() -> None:
    assert unsent_notice("train.py").startswith(
        "train.py logs by azureml-core's `Run`, and nothing calls `run.flush()`."
    )
