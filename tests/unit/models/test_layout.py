"""The files of models by their type."""

from __future__ import annotations

import pytest

from aml_train.models.register import fault_of_ml_model


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"flavors: {python_function: {}}", None),
        (b"flavors: {}", "MLmodel names no flavors"),
        (b"flavors: [\n", "MLmodel is not YAML, line 2"),
        (b"utc_time_created: 2020-99-99", "MLmodel is no YAML that can be read"),
        (b"a: 1\nb: " + b"[" * 20_000, "MLmodel, line 2: more than 100 lists and mappings are inside one another"),
    ],
)
def test_faults_of_an_ml_model_file(content: bytes, fault: str | None) -> None:
    assert fault_of_ml_model(content) == fault
