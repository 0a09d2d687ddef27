"""A project's folder to load configurations from, and what must hold of a refusal."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

from aml_train.config import Config
from aml_train.core.errors import InvalidError
from fuzz.limits import unwatched
from fuzz.storage import scratch
from fuzz.target import require
from tests.unit.config.good_jobs import write_job_folder

_PLACE: Final = re.compile(r"[^\n]+?(:[1-9][0-9]*)?")
LONGEST_FAULT: Final = 2000


@cache
def project(name: str) -> Path:
    """Return a folder with the files that the seeds name."""
    with unwatched():
        folder = scratch(name)
        write_job_folder(folder)
        for inner, text in {
            "requirements.txt": "numpy==2.1.0\n",
            "components/prep.yml": (
                "$schema: https://azuremlschemas.azureedge.net/latest/commandComponent.schema.json\n"
                "type: command\nname: prep\ninputs: {data: {type: uri_folder}}\noutputs: {out: {type: uri_folder}}\n"
                "code: ../src\ncommand: python train.py ${{inputs.data}} ${{outputs.out}}\nenvironment: {image: x}\n"
            ),
            "data/digits.csv": "1\n",
            "Dockerfile": "FROM python:3.11\n",
        }.items():
            (folder / inner).parent.mkdir(parents=True, exist_ok=True)
            (folder / inner).write_text(text, encoding="utf-8")
    return folder


def check_load(load: Callable[[], Config]) -> Config | None:
    """Load a configuration; check what a refusal says, and return None for one."""
    try:
        return load()
    except InvalidError as error:
        require(error.faults or error.message, "a refusal says nothing")
        require(error.faults, f"a refusal without faults: {error.message[:200]}")
        for fault in error.faults:
            require(fault.what, "a fault says nothing")
            require(_PLACE.fullmatch(fault.where), f"a fault has the place {fault.where[:200]!r}")
            require("\n" not in str(fault), f"a fault has several lines: {str(fault)[:200]!r}")
            require(len(str(fault)) <= LONGEST_FAULT, f"a fault has {len(str(fault))} characters")
            str(fault).encode()
        return None
