"""aml-train.yml: valid by the schema as well, or faults with their places."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import yaml
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from aml_train.config import json_schema, load_config
from aml_train.config.document import DOCUMENT
from fuzz.seeds import blocks, files, sections
from fuzz.target import Target, as_bytes, require
from fuzz.targets._projects import check_load, project
from tests.unit.config.test_any_input import GOOD, GOOD_V1


def seeds() -> Sequence[str]:
    """Return the repository's configurations."""
    shown = [block for block in blocks("yaml") if any(f"\n{key}:" in f"\n{block}" for key in DOCUMENT.keys)]
    tried = [
        text.partition("\n>>>")[0].partition("\n@@@")[0]
        for text in sections("tests/unit/config/bad_input.txt").values()
    ]
    return [GOOD, GOOD_V1, *files("examples/**/aml-train.yml", "tests/projects/*/aml-train.yml"), *shown, *tried]


@cache
def _schema() -> Any:
    return Draft202012Validator(json_schema())


def check(text: str) -> None:
    """Load the text as aml-train.yml."""
    folder = project("configuration")
    (folder / "aml-train.yml").write_bytes(as_bytes(text))
    config = check_load(lambda: load_config(None, directory=folder))
    if config is not None:
        document = yaml.safe_load(text.removeprefix("\ufeff"))
        if not {"job", "runconfig", "image"} & document.keys():
            return  # a job in the place of a configuration: the schema is that of the latter
        faults = [error.message for error in _schema().iter_errors(document)]
        require(not faults, f"the schema refuses what was loaded: {faults[:1]}")


TARGET = Target(
    kind="text",
    reads=(
        "aml_train.config.load",
        "aml_train.config.sources",
        "aml_train.config.yaml.tree",
        "aml_train.config.yaml.nodes",
        "aml_train.config.yaml.scalars",
        "aml_train.config.yaml.messages",
        "aml_train.config.yaml.shapes",
        "aml_train.config.yaml.source",
        "aml_train.config.sections.image_ofed",
        "aml_train.config.sections.image_packages",
        "aml_train.config.sections.images",
    ),
    seeds=seeds,
    check=check,
    words=(
        *DOCUMENT.keys,
        "job",
        "azureml:e:1",
        "python:3.11",
        ">= 0.5",
        "baseline",
        "7d",
        "30m",
        "${{inputs.a}}",
        "src",
    ),
    mutate=lambda mutator, text: mutator.yaml(text),
)
