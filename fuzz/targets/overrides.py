"""``--set key=value``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aml_train.config import load_config
from aml_train.config.document import DOCUMENT
from fuzz.target import Target
from fuzz.targets._projects import check_load, project
from tests.unit.config.test_any_input import GOOD


def seeds() -> Sequence[Any]:
    """Return lists of changes."""
    return [
        ["watch.timeout=90"],
        ["job.inputs.a=7", "image.base=python:3.12"],
        ['gate."val/a.b"=[">= 0.9"]'],
        ["gate.'val/a.b'.0=< 5", "tests={command: pytest}"],
        ["image.pip.packages.0=scipy", "job.environment_variables.A=b"],
    ]


def check(value: Any) -> None:
    """Load a good configuration with these changes."""
    sets = [one for one in value if isinstance(one, str) and "\0" not in one] if isinstance(value, list) else []
    folder = project("overrides")
    (folder / "aml-train.yml").write_text(GOOD)
    check_load(lambda: load_config(None, directory=folder, sets=sets))


TARGET = Target(
    kind="json",
    reads=("aml_train.config.overrides",),
    seeds=seeds,
    check=check,
    words=(*(f"{key}=" for key in DOCUMENT.keys), "job.", ".0", "={}", "=[]", '"', "'", "=", "."),
)
