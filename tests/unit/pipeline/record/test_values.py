"""Values of the pipeline as JSON, and back."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aml_train.config import GateRule
from aml_train.core.events import TestFailure
from aml_train.core.file_selection import FileEntry
from aml_train.core.files import FileSet
from aml_train.gate import parse_rule
from aml_train.jobs import JobStatus
from aml_train.pipeline.record.values import Unknown, decode, encode
from aml_train.pipeline.result import Group, RunOptions

FAILURE = TestFailure(name="test_a", file=None, line=3, message="m")


@pytest.mark.parametrize(
    "value",
    [
        RunOptions(fresh=True, group=Group(name="pr-1", sequence=3)),
        FileSet(root=Path("/a"), entries=(FileEntry(path="b", executable=True, size=3),)),
        (JobStatus.COMPLETED, [1.5, None, True], {"a": {("x", "y"): FAILURE}}, frozenset({1, 2})),
        float("inf"),
        datetime.datetime(2026, 11, 23, tzinfo=datetime.UTC),
        datetime.timedelta(seconds=1.5),
        {"$type": "a user's key"},
    ],
)
def test_a_value_comes_back(value: Any) -> None:
    assert decode(json.loads(json.dumps(encode(value)))) == value


def test_contents_of_files_and_functions_are_not_written() -> None:
    written = encode([b"secret", print])
    assert written == [{"$bytes": 6}, {"$unknown": "builtin_function_or_method"}]
    found = decode(written)
    assert found[0] == b"      "
    assert isinstance(found[1], Unknown)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"$type": "os:system"}, "os:system is no class of aml-train"),
        ({"$type": "subprocess:Popen", "args": "id"}, "is no class of aml-train"),
        ({"$type": "aml_train.core.files:hashlib"}, "is no value"),
        ({"$type": "aml_train.core.docker:connect_engine"}, "is no value"),
        ({"$type": "aml_train.pipeline.plan:Future"}, "this version of aml-train has no"),
        ({"$enum": "aml_train.jobs.states:JobStatus", "name": "NEW"}, "no member of that name"),
    ],
)
def test_a_foreign_bundle_makes_nothing_but_our_values(written: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decode(written)


def test_a_rule_is_the_same_rule_again() -> None:
    rule = GateRule(metric="accuracy", rule=parse_rule(">= baseline - 0.01"), where="a:1")
    assert decode(json.loads(json.dumps(encode(rule)))) == rule


_PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(_PLAIN)
def test_plain_values_come_back(value: Any) -> None:
    assert decode(json.loads(json.dumps(encode(value)))) == value
