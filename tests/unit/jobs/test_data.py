"""What the data of a job's inputs are, and how they differ from what they were."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from aml_train.core.tags import VALUE_LENGTH, Tag
from aml_train.jobs.data import (
    DataFile,
    DataIdentity,
    DataSource,
    change_text,
    changed_data,
    data_sources,
    identity_marks,
    identity_of,
    recorded_data,
)
from aml_train.jobs.spec import JobTemplate, job_name


def files(**tags: str) -> DataIdentity:
    """Files of one byte: name → ETag, and when each was written, such as ``a="e1 10:00"``."""
    found = [(name, *text.split()) for name, text in tags.items()]
    return identity_of(DataFile(name=name, size=1, tag=tag, modified=at) for name, tag, at in found)


THEN = files(a="e1 10:00", b="e2 10:05")
UNKNOWN = DataIdentity(problem="blob answers 403")


@pytest.mark.parametrize(
    ("now", "change"),
    [
        (files(b="e2 10:05", a="e1 10:00"), None),
        (files(a="e3 10:06", b="e2 10:05"), "1 file, e.g. a"),
        (files(a="e1 10:00", b="e2 10:05", c="e4 10:06", d="e5 10:07"), "2 files, e.g. c"),
        (files(a="e1 10:00"), "1 file instead of 2"),
        (files(a="e9 10:05", b="e2 10:05"), "other contents"),
        (UNKNOWN, None),
    ],
)
def test_a_change_names_what_was_written_since(now: DataIdentity, change: str | None) -> None:
    assert THEN.change(now) == change
    assert UNKNOWN.change(now) is None, "nothing is known of what was there"


def test_every_input_that_is_no_local_path_is_a_source() -> None:
    document: dict[str, Any] = {
        "inputs": {
            "images": {"path": "azureml:images:1"},
            "labels": {"path": "https://example.org/labels.csv", "type": "uri_file"},
            "local": {"path": "./data"},
            "rate": 0.1,
        },
        "jobs": {
            "prepare": {
                "inputs": {"raw": {"path": "azureml://datastores/d/paths/raw"}, "bound": "${{parent.inputs.x}}"}
            },
            "train": {"component": {"inputs": {"base": {"path": "azureml:bert:3", "type": "mlflow_model"}}}},
        },
    }
    assert data_sources(document) == {
        "inputs.images": DataSource(path="azureml:images:1"),
        "inputs.labels": DataSource(path="https://example.org/labels.csv", type="uri_file"),
        "jobs.prepare.inputs.raw": DataSource(path="azureml://datastores/d/paths/raw"),
        "jobs.train.component.inputs.base": DataSource(path="azureml:bert:3", type="mlflow_model"),
    }


def template(data: Mapping[str, DataIdentity]) -> JobTemplate:
    document = {
        "command": "x",
        "inputs": {"images": {"path": "azureml:images:1"}},
        "jobs": {"n": {"inputs": {"raw": {"path": "azureml:raw:1"}}}},
    }
    return JobTemplate(document=document, directory=Path(), code_digest=None, scope="s", stem="j", data=data)


@pytest.mark.parametrize("place", ["inputs.images", "jobs.n.inputs.raw"])
def test_other_contents_at_the_same_address_are_another_job(place: str) -> None:
    before = template({place: THEN})
    same, later = (
        template({place: files(a="e1 10:00", b="e2 10:05")}),
        template({place: files(a="e3 10:06", b="e2 10:05")}),
    )
    assert job_name(before, {}, 1) == job_name(same, {}, 1) != job_name(later, {}, 1)
    # Without an identity the address counts alone, as it does from then on.
    assert job_name(template({place: UNKNOWN}), {}, 1) == job_name(template({}), {}, 1)


def test_the_property_of_identities_says_what_they_were() -> None:
    tags = identity_marks({"inputs.images": THEN, "inputs.labels": UNKNOWN})
    assert recorded_data(tags) == {"inputs.images": THEN}
    now = {"inputs.images": files(a="e1 10:00"), "inputs.new": THEN}
    assert change_text(changed_data(recorded_data(tags), now)) == "images: 1 file instead of 2"
    assert identity_marks({"inputs.x": UNKNOWN}) == {}
    many = identity_marks({f"inputs.number-{number}": THEN for number in range(50)})
    assert len(many[Tag.DATA_IDENTITY]) <= VALUE_LENGTH
    assert 10 < len(recorded_data(many)) < 50


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "[1]", '{"a": 1}', '{"a": [1]}', '{"a": ["x", "y", "z"]}', "[" * 10_000]
)
def test_a_text_of_another_form_records_nothing(text: str) -> None:
    assert recorded_data({Tag.DATA_IDENTITY: text}) == {}
