"""Scrubbing: what stays, what becomes a placeholder, and the second pass over it."""

from __future__ import annotations

import base64
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aml_train.core.masking import Masker
from aml_train.core.scrub import Scrubber, unexplained

_WORDS = (
    "the job jobs failed train test main subscriptions resourcegroups providers microsoft machinelearningservices workspaces"
    " azureml status completed com example core windows net https key value metrics name steps data a sig person tags"
    " properties environmentvariables message access token"
)
WORDS = frozenset(_WORDS.split())
JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl"
ID = "4f1c2d3e-1111-2222-3333-444455556666"
SECRET = "correct-Horse7battery"


def scrubber(*terms: str) -> Scrubber:
    return Scrubber(words=WORDS, terms=terms, masker=Masker({SECRET}))


def leaks(value: Any, made: Scrubber) -> list[str]:
    found = unexplained(
        {"file": value}, words=WORDS, originals=made.originals, terms=made.terms, masker=Masker({SECRET})
    )
    return [str(one) for one in found]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("the job failed", "the job failed"),
        ("the job acme-7 failed", "the job x1-7 failed"),
        (
            f"/subscriptions/{ID}/resourceGroups/rg",
            "/subscriptions/00000000-0000-4000-8000-000000000001/resourceGroups/x1",
        ),
        (f"{ID} {ID.upper()}", "00000000-0000-4000-8000-000000000001 00000000-0000-4000-8000-000000000001"),
        ("jane.doe@contoso.com the jane", "person1@example.com the x1"),
        ("from 10.1.2.3:443 at 127.0.0.1", "x1 192.0.2.1:443 x2 127.0.0.1"),
        ("2026-11-23T22:48:26.123Z", "2026-11-23T22:48:26.123Z"),
        ("Mon, 23 Nov 2026 22:48:26 GMT", "Mon, 23 Nov 2026 22:48:26 GMT"),
        ("https://acme.blob.core.windows.net/?sig=Abc%2Bd&se=1", "https://x1.x2.core.windows.net/?sig=***&x3=1"),
        ("sha256:" + "ab12" * 16, "x1:" + f"{1:012x}".ljust(64, "0")),
        ("José — naïve", "x1 ? x2"),
        ("12345 1234567", "12345 000001"),
        (f"the token {SECRET}", "the token ***"),
        (f"the token {base64.b64encode(SECRET.encode()).decode()}", "the token ***"),
        ("my%20acme job%252Fjane", "x1 x2 job/x3"),
    ],
)
def test_what_is_kept_and_what_is_replaced(text: str, wanted: str) -> None:
    made = scrubber()
    assert made.text(text) == wanted
    assert leaks(made.text(text), made) == []


def test_equal_texts_are_equal_and_prefixes_of_hashes_are_prefixes() -> None:
    made = scrubber()
    short, long = "ab12ab12ab12", "ab12ab12ab12" + "0f" * 26
    assert made.text(f"job-{long}").startswith(made.text(f"job-{short}"))
    assert made.text("Acme") == made.text("acme")
    assert made.text("acme") != made.text("acme2")


def test_a_term_is_replaced_as_a_whole_though_its_words_are_ours() -> None:
    made = scrubber("main-test", "main", "2026-11-23")
    assert made.text("/workspaces/main-test/jobs/Main-Test-1/main") == "/workspaces/x1/jobs/x1-1/main"
    assert made.text("wsid=%2Fworkspaces%2Fmain-test%2F") == "x2=/workspaces/x1/"
    assert leaks(made.text("2026-11-23"), made) == []
    assert leaks("the main-test", made) == ["file: a name that was to be replaced"]


def test_fields_of_secrets_and_private_fields_hide_words_that_are_ours() -> None:
    value = {
        "properties": {"status": "Completed", "environmentVariables": {"MODE": "train", "the": ""}},
        "access_token": "train",
        "createdBy": "the main",
    }
    assert scrubber().json(value) == {
        "properties": {"status": "Completed", "environmentVariables": {"x1": "x2", "the": ""}},
        "access_token": "***",
        "x3": "x4",
    }


def test_metrics_without_a_rule_have_no_values() -> None:
    answers = {"metrics": [{"key": "acc", "value": 0.5, "step": 3}, {"key": "cost", "value": 7.5, "step": 4}]}
    made = Scrubber(words=WORDS | {"acc"})
    assert made.json(answers, metrics={"acc"}) == {
        "metrics": [{"key": "acc", "value": 0.5, "x1": 3}, {"key": "x2", "value": 0, "x1": 4}]
    }
    assert made.json({"data": {"acc": 1.5, "cost": 2.5}}, metrics={"acc"}) == {"data": {"acc": 1.5, "x2": 0}}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (JWT, "a signed token"),
        ("https://example.com/?a=1&sig=abc", "the signature of an address"),
        ("jane@contoso.com", "an e-mail address"),
        (f"job {ID}", "an id"),
        ("10.1.2.3", "an IP address"),
        (f"the {SECRET}", "a secret of this run"),
        (base64.b64encode(SECRET.encode()).decode(), "a secret of this run"),
        ("the job acme", "a word that is not the product's"),
        ("0123456789abcdef0123", "a word that is not the product's"),
    ],
)
def test_the_second_pass_finds_what_the_first_one_missed(text: str, kind: str) -> None:
    assert leaks({"the": ["train", text]}, scrubber()) == [f"file, member 1, item 2: {kind}"]
    assert leaks({text: 1}, scrubber()) == [f"file, member 1, its name: {kind}"]


_PIECE = st.one_of(
    st.text(max_size=12),
    st.text(st.characters(codec="ascii"), max_size=20),
    st.sampled_from(
        [ID, JWT, SECRET, "jane@x.org", "10.1.2.3", "sig=ab", "2026-11-23T22:48:26Z", "%20", "x1", "main", "+00:00"]
    ),
    st.from_regex(r"[0-9a-fA-F]{8,40}", fullmatch=True),
    st.from_regex(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|\+\d\d:\d\d)?\w?", fullmatch=True),
)
_TEXT = st.lists(_PIECE, max_size=6).map("".join)


@given(_TEXT)
def test_the_second_pass_explains_whatever_the_first_one_writes(text: str) -> None:
    made = scrubber("main-test")
    assert leaks({"a": made.text(text), made.text(text): 1}, made) == []


@given(_TEXT)
def test_nothing_stays_but_words_placeholders_times_and_short_numbers(text: str) -> None:
    shown = scrubber().text(text)
    left = re.sub(r"\d{4}-\d\d-\d\d(?:[T ][\d:.]+(?:Z|[+-][\d:]+)?)?", " ", shown)
    for token in re.findall(r"[^\W_]+", left):
        assert token.lower() in WORDS or re.fullmatch(r"x\d+|person\d+|\d{1,6}|0{4}[0-9a-f]*", token), (text, shown)
    assert SECRET not in shown
    assert ID not in shown


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | _TEXT,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(_TEXT | st.sampled_from(["tags", "env", "data"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(_JSON)
def test_json_keeps_its_types_and_the_second_pass_explains_it(value: Any) -> None:
    made = scrubber()
    shape = made.json(value)
    assert leaks(shape, made) == []
    assert type(shape) is type(value)
    if isinstance(value, list):
        assert [type(one) for one in shape] == [type(one) for one in value]
