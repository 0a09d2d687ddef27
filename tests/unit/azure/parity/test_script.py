"""The script is data: templates, captures, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from aml_train.azure.parity.price import cheapest, find_price
from aml_train.azure.parity.script import TAG, MissingError, constants, fill, parse_script, place, read_script
from aml_train.azure.parity.sdk_steps import CALLS
from aml_train.core.errors import InvalidError


def test_the_script_covers_what_a_client_does() -> None:
    script = read_script()
    names = {one.name for one in script.steps}
    assert len(names) == len(script.steps) >= 140
    kinds = ("workspace", "datastore", "compute", "environment", "code", "data", "model", "component", "job", "run")
    assert all(
        any(name.startswith(kind) for name in names)
        for kind in (*kinds, "mlflow", "v1-", "registry", "sdk-", "token-")
    )
    assert {one.sdk for one in script.steps if one.sdk} == set(CALLS)


def test_everything_that_is_made_is_tagged_and_removed() -> None:
    script = read_script()
    made = [
        one
        for one in script.steps
        if one.method == "PUT" and "{arm}" in one.address and one.name.endswith(("-create", "-submit"))
    ]
    assert len(made) >= 7
    cleaned = [one.show.partition(" ")[2] for one in script.things]
    for one in made:
        assert TAG in str(one.body), one.name
        # The removal finds it under the same address; options of a creation do not matter.
        assert any(one.address.partition("?")[0] == address.partition("?")[0] for address in cleaned), one.name
    bad = [one.address.partition("?")[0] for one in script.steps if one.method == "PUT" and "bad" in one.address]
    assert {one for one in bad if not any(one == address.partition("?")[0] for address in cleaned)} == set()


def test_variables_come_from_earlier_steps() -> None:
    script = read_script()
    known = {
        *script.variables,
        "id",
        "name",
        "management",
        "subscription",
        "resource_group",
        "workspace_path",
        "image",
    }
    known |= {"compute", "placement", "place", "token"}
    for step in script.steps:
        while True:
            try:
                fill(
                    [step.address, step.body, step.form, step.headers],
                    {**dict.fromkeys(known, "x"), **script.variables},
                )
                break
            except MissingError as error:
                pytest.fail(f"{step.name} needs {error.name}")
        known |= set(step.capture or {})


@pytest.mark.parametrize(
    ("template", "wanted"),
    [
        ("{a}/x", "1/x"),
        ("{b}", {"deep": ["1"]}),
        ({"{a}": "{b}"}, {"1": {"deep": ["1"]}}),
        ("{c}", "1-1"),
        ("{sas:file}", "https://h/c/file.txt?sig=1"),
        ("{A}", "{A}"),
        (7, 7),
    ],
)
def test_templates(template: Any, wanted: Any) -> None:
    known = {"a": "1", "b": {"deep": ["{a}"]}, "c": "{a}-{a}", "sas": "https://h/c?sig=1"}
    assert fill(template, known) == wanted


def test_an_unknown_variable_is_named() -> None:
    with pytest.raises(MissingError, match="nothing"):
        fill("{nothing}", {"nothing": None})


@pytest.mark.parametrize(
    ("where", "wanted"),
    [("a.b", 1), ("l.1.c", 2), ("logs.user_logs/std_log.txt", "x"), ("a.z", None), ("l.7", None), ("a.b.c", None)],
)
def test_places(where: str, wanted: Any) -> None:
    assert place({"a": {"b": 1}, "l": [{}, {"c": 2}], "logs": {"user_logs/std_log.txt": "x"}}, where) == wanted


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "not YAML"),
        ("a: 1", "no list of steps"),
        ("steps: [{name: a}]", "either a request or a call"),
        ("steps: [{name: a, request: GET x, sdk: y}]", "either a request or a call"),
        ("steps: [{name: a, request: GET x, extra: y}]", "step a: extra is not known"),
        ("steps: [{name: a, request: GET x, token: gold}]", "the token gold is not known"),
        ("steps: [{name: a, request: GET x}, {name: a, request: GET x}]", "two steps named a"),
        ("steps: [{name: a, request: GET x}]\nprepare: [b]", "no step named b"),
        ("steps: [{name: a, request: GET x}]\nclean: [{name: a, colour: b}]", "clean a: colour is not known"),
    ],
)
def test_what_is_no_script_is_refused(text: str, said: str) -> None:
    with pytest.raises(InvalidError, match=said):
        parse_script(text)


def test_constants_hold_no_variable() -> None:
    assert "parity says hello\n" in set(constants(read_script()))
    assert not any("{id}" in one for one in constants(read_script()))


# The price

ITEM = {
    "retailPrice": 0.2,
    "unitOfMeasure": "1 Hour",
    "productName": "Dv2",
    "skuName": "DS3 v2",
    "currencyCode": "USD",
}


def test_the_price_is_that_of_linux_without_spot() -> None:
    items = [
        ITEM,
        {**ITEM, "retailPrice": 0.02, "skuName": "DS3 v2 Spot"},
        {**ITEM, "retailPrice": 0.1, "productName": "Dv2 Windows"},
        7,
    ]
    price = cheapest("Standard_DS3_v2", items)
    assert price.hour == 0.2
    assert "about 0.03 USD, at most 0.10" in price.text()


@pytest.mark.parametrize("items", [None, [], [{"retailPrice": "x"}]])
def test_an_unknown_price_is_said(items: Any) -> None:
    assert "does not answer" in cheapest("Standard_DS3_v2", items).text()


def test_the_list_may_answer_with_anything() -> None:
    class Session:
        def request(self, *_given: object, **_options: object) -> object:
            import requests

            response = requests.Response()
            response.status_code, response._content = 200, b"<html>"
            return response

    assert find_price("S", "eastus", session=Session()).hour is None  # type: ignore[arg-type]
