"""Jobs, run configurations and aml-train.yml of this repository, changed: a configuration, or faults with their places."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from aml_train.config.document import DOCUMENT, json_schema
from aml_train.config.job.grammar import JOB
from aml_train.config.load import load_config
from aml_train.core.errors import InvalidError
from tests.unit.config.good_jobs import good_jobs, write_job_folder
from tests.unit.config.test_any_input import GOOD, GOOD_V1
from tests.unit.properties.foreign import ROOT, as_bytes, files, foreign, scratch

PLACE = re.compile(r"[^\n]+?(:[1-9][0-9]*)?")
EXPRESSIONS = ("${{inputs.a}}", "${{parent.jobs.prep.outputs.out}}", "${{search_space.x}}", "$[[--x ${{inputs.b}}]]")


@cache
def project(name: str) -> Path:
    """Return a folder with the files that the seeds name."""
    folder = scratch(name)
    write_job_folder(folder)
    for inner, text in {"requirements.txt": "numpy==2.1.0\n", "Dockerfile": "FROM python:3.11\n"}.items():
        (folder / inner).write_text(text, encoding="utf-8")
    return folder


def loaded(load: Callable[[], Any]) -> Any:
    """Load a configuration; check what a refusal says, and return None for one."""
    try:
        return load()
    except InvalidError as error:
        faults = error.faults
    assert faults, "a refusal without faults"
    for fault in faults:
        assert fault.what
        assert PLACE.fullmatch(fault.where), f"a fault has the place {fault.where[:200]!r}"
        assert "\n" not in str(fault)
        assert len(str(fault).encode()) <= 6000
    return None


def cases(name: str) -> list[str]:
    """Return the inputs of a table of tests/unit/config: after ``=== name``, before what is expected."""
    parts = re.split(r"(?m)^=== .*\n", (ROOT / "tests/unit/config" / name).read_text(encoding="utf-8"))[1:]
    return [part.partition("\n>>>")[0].partition("\n@@@")[0] for part in parts]


CONFIGURATIONS = [GOOD, GOOD_V1, *files("examples/**/aml-train.yml", "tests/projects/*/aml-train.yml")]
JOBS = [
    *good_jobs().values(),
    *files(*(f"examples/**/{one}" for one in ("job.yml", "sweep.yml", "pipeline.yml", "components/*.yml"))),
]
RUNCONFIGS = [*cases("good_runconfigs.txt"), *files("examples/**/*.runconfig", "tests/unit/config/runconfigs/*")]


@foreign(CONFIGURATIONS, [*DOCUMENT.keys, "azureml:e:1", ">= 0.5", "baseline", "7d", *EXPRESSIONS], tree=True)
def test_configuration(text: str) -> None:
    """What is loaded is valid by the schema as well."""
    folder = project("configuration")
    (folder / "aml-train.yml").write_bytes(as_bytes(text))
    if loaded(lambda: load_config(None, directory=folder)) is not None:
        document = yaml.safe_load(text.removeprefix("\ufeff"))
        if {"job", "runconfig", "image"} & document.keys():  # else it is a job
            assert not [fault.message for fault in Draft202012Validator(json_schema()).iter_errors(document)]


@foreign(
    JOBS,
    [*JOB.keys, "jobs", "trial", "search_space", "objective", "component", "type", "path", *EXPRESSIONS],
    tree=True,
)
def test_jobs(text: str) -> None:
    folder = project("jobs")
    (folder / "job.yml").write_bytes(as_bytes(text))
    loaded(lambda: load_config(None, directory=folder))


@foreign(
    RUNCONFIGS,
    "script framework communicator docker baseImage nodeCount history data mpi environmentVariables",
    tree=True,
)
def test_runconfigs(text: str) -> None:
    folder = project("runconfigs")
    (folder / ".azureml").mkdir(exist_ok=True)
    (folder / ".azureml/train.runconfig").write_bytes(as_bytes(text))
    for sdk in ("v1", "v2"):
        (folder / "aml-train.yml").write_text(f"sdk: {sdk}\nrunconfig: train\n")
        loaded(lambda: load_config(None, directory=folder))


@foreign(
    [
        "watch.timeout=90",
        "job.inputs.a=7",
        'gate."val/a.b"=[">= 0.9"]',
        "gate.'val/a.b'.0=< 5",
        "tests={command: pytest}",
    ],
    [*(f"{key}=" for key in DOCUMENT.keys), "job.", ".0", "={}", "=[]"],
)
def test_overrides(text: str) -> None:
    folder = project("overrides")
    (folder / "aml-train.yml").write_text(GOOD)
    if "\0" not in text:
        loaded(lambda: load_config(None, directory=folder, sets=[text]))
