"""MLflow's searches: filters, orders, and the operations that log asynchronously."""

from __future__ import annotations

import pytest

from aml_emulator.api.errors import MlflowError
from aml_emulator.api.mlflow.search import RUNS, Searchable, parse_filter


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("attributes.status = 'Failed'", True),
        ("attributes.status IN ('FAILED', 'KILLED')", True),
        ("attributes.duration > '3600000'", True),
        ("attributes.duration > 3600001", False),
        ("attributes.creation_time > '1'", True),
        ("attributes.end_time = 5", False),
        ("attributes.user_id LIKE 'aml%'", True),
        ("tags.a LIKE 'x_z'", True),
        ("tags.a LIKE 'x_'", False),
        ("tags.missing != 'x'", False),
        ('tags."a" = "xyz"', True),
        ("run.run_id = 'r'", True),
    ],
)
def test_filters_hold(text: str, expected: bool) -> None:
    run = Searchable(
        attributes={
            "run_id": "r",
            "status": "FAILED",
            "user_id": "aml-emulator",
            "creation_time": 2.0,
            "end_time": None,
            "duration": 3_600_001.0,
        },
        tags={"a": "xyz"},
    )
    assert all(comparison.holds(run) for comparison in parse_filter(text, RUNS)) is expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("attributes.start_time > 'soon'", "start_time is a number"),
        ("metrics.m LIKE '1%'", "does not compare numbers"),
        ("metrics.m IN ('1')", "does not compare numbers"),
        ("params.p > 'a'", "does not compare text"),
        ("attributes.phase = 'x'", "Invalid attribute key 'phase'"),
        ("run_id IN ()", "does not understand"),
        ("tags.a = b", "Expected a quoted string value for tags.a (e.g. 'my-value'). Got value b"),
        ("params.p IN ('1', 2)", "Got value 2"),
        ("metrics.m > 1 OR metrics.m < 0", "does not support OR"),
    ],
)
def test_a_filter_without_a_meaning_is_refused(text: str, words: str) -> None:
    with pytest.raises(MlflowError) as caught:
        parse_filter(text, RUNS)
    assert words in caught.value.message
