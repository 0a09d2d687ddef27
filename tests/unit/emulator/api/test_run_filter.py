"""The filters by which azureml-core asks for runs."""

from __future__ import annotations

import pytest

from aml_emulator.api.v1.runs import predicate
from aml_emulator.domain.errors import InvalidError

RUN = {
    "Status": "Completed",
    "CreatedUtc": "2026-11-21T10:00:00+00:00",
    "Tags/a": "b c",
    "Tags/quote": 'say "x"',
    "RunId": "run_1",
}


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("", True),
        ("(ParentRunId eq null)", True),
        ("(Status eq Completed)", True),
        ("(Status eq Running)", False),
        ("((Status eq Completed) and (ParentRunId eq null))", True),
        ("((Status eq Running) and (ParentRunId eq null))", False),
        ("Status eq Running or Status eq Completed", True),
        # "and" binds closer than "or".
        ("Status eq Completed or Status eq Running and RunId eq other", True),
        ('(Tags/a eq "b c")', True),
        ("(Tags/a eq 'b c')", True),
        ("(Tags/a ne null or Tags/a eq null)", True),
        ('(Tags/none eq "b")', False),
        ("(Tags/none ne x)", True),
        ("(Tags/none eq null)", True),
        ("(CreatedUtc ge 2026-11-21 09:59:59+00:00)", True),
        ("(CreatedUtc ge 2026-11-21T10:00:01Z)", False),
        ("(CreatedUtc lt 2026-11-21T11:00:00+01:00)", False),
        ("RunId eq run_1 or RunId eq run_2", True),
    ],
)
def test_what_a_filter_lets_through(text: str, passes: bool) -> None:
    assert predicate(text)(RUN.get) is passes


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("(Status eq Completed", "parenthesis is not closed"),
        ("Status", "not whole"),
        ("Status like x", "'like' compares nothing"),
        ("(Status eq Completed) x", "ends before 'x'"),
        ('Status eq "x', "cannot be read"),
    ],
)
def test_what_is_no_filter(text: str, words: str) -> None:
    with pytest.raises(InvalidError, match=words):
        predicate(text)
