"""The second pass finds what is planted, and never names it."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aml_train.azure.parity.proof import claims, learned_of, prove, seen_in

LEARNED = {
    "contoso-vision": "a name of the workspace",
    "local": "a name of the workspace",
    "Jane": "a part of a name",
    "s3cret/with+signs=": "a secret",
    "5f0c1d2e-1111-4222-8333-944455566677": "an id",
}


def left(value: object, public: tuple[str, ...] = ()) -> list[str]:
    return [
        one.what for one in prove([json.dumps({"kind": "exchange", "step": "job", "body": value})], LEARNED, public)
    ]


@pytest.mark.parametrize(
    "value",
    [
        "contoso-vision",
        "CONTOSO-VISION",
        {"message": "in contoso-vision, as ever"},
        {"contoso-vision": 1},
        ["x", {"deep": {"deeper": "a/contoso-vision/b"}}],
        "of local.",
        "Dear jane!",
        "s3cret/with+signs=",
        quote("s3cret/with+signs=", safe=""),
        base64.b64encode(b"s3cret/with+signs=").decode(),
        "5f0c1d2e111142228333944455566677",
        "5f0c1d2e_1111_4222_8333_944455566677",
        # Of no known value: by their form.
        "00000000-0000-4000-8000-000000000001",
        "eyJhbGciOiJIUzI1NiJ9",
        "who@else.org",
        "172.16.0.9",
        "2001:db8:1:2:3:4:5:6",
        "2026-11-23T10:00:00",
        "0123456789abcdef01",
        "aB3aB3aB3aB3aB3aB3aB3",
        "other-account.blob.core.windows.net",
        "https://x/?sig=abcdef",
    ],
)
def test_a_planted_remain_is_found(value: object) -> None:
    assert left(value)


@pytest.mark.parametrize(
    "value",
    [
        "<name:workspace> and <guid:3>",
        "https://management.azure.com/subscriptions/<name:subscription>?api-version=2024-10-01-preview",
        "localhost",
        "janet",
        "Microsoft.MachineLearningServices/workspaces",
        "systemAssignedIdentityPrincipalIdOfTheWorkspace",
        {"jobType": "Command", "size": "<int:e3>", "n": 0.75},
        "https://<name:location>.api.azureml.ms/<name:4>?sig=<sas>",
    ],
)
def test_what_is_public_is_no_remain(value: object) -> None:
    assert left(value) == []


def test_words_of_the_program_are_none_even_if_they_are_names() -> None:
    line = json.dumps({"kind": "exchange", "step": "local", "method": "GET", "body": {"x": "job"}})
    assert prove([line], {"local": "a name", "GET": "a name"}, ()) == []


def test_a_placeholder_of_no_known_kind_is_read() -> None:
    assert left("<contoso-vision>")
    assert left("<name:contoso-vision>")


def test_a_remain_names_the_line_and_the_place_and_not_the_value() -> None:
    lines = [
        json.dumps({"kind": "header"}),
        json.dumps({"kind": "exchange", "body": {"error": {"message": "contoso-vision"}}}),
    ]
    (found,) = prove(lines, LEARNED, ())
    assert str(found) == "line 2, .body.error.message: a name of the workspace"
    (key,) = prove([json.dumps({"body": {"contoso-vision2x": {"contoso-vision": 1}}})], LEARNED, ())
    assert "contoso" not in str(key)


def test_texts_of_the_script_are_public() -> None:
    assert left("parity in local", public=("parity in local",)) == []


@given(st.text(alphabet="abcdefgh-0123456789", min_size=4, max_size=30), st.integers(0, 5))
def test_any_learned_text_is_found_wherever_it_is(value: str, depth: int) -> None:
    if not any(one.isalnum() for one in value):
        return
    body: object = f"({value})"
    for _ in range(depth):
        body = {"a": [body]}
    assert prove([json.dumps({"body": body})], {value: "a secret"}, ())


def test_words_of_the_service_are_not_learned() -> None:
    resource = {
        "name": "contoso",
        "properties": {"provisioningState": "Succeeded", "friendlyName": "Ours", "tier": "Basic"},
    }
    assert dict(learned_of(resource, "x")) == {"contoso": "x", "Ours": "x"}


def test_ids_are_seen_in_any_text() -> None:
    text = '{"a": "5f0c1d2e-1111-4222-8333-944455566677", "b": "https://acct.blob.core.windows.net/x", "c": "management.azure.com"}'
    assert list(seen_in(text)) == ["5f0c1d2e-1111-4222-8333-944455566677", "acct.blob.core.windows.net"]


def test_claims_of_what_is_no_token_are_none() -> None:
    assert claims("x") == claims("a.b.c") == claims("a.W10.c") == {}
    assert claims(f"a.{base64.urlsafe_b64encode(b'{}').decode()}.c") == {}
