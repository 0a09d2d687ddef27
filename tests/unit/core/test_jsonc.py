from __future__ import annotations

import pytest

from aml_train.core.jsonc import JsoncError, change_jsonc, parse_jsonc

TEXT = """\
// our container
{
  /* the image */ "image": "old", // keep me
  "list": [1, 2, /* three */ 3,],
  "customizations": {
    "vscode": {"extensions": ["a"]} // mine
  } // end
}
"""


def test_reading() -> None:
    assert parse_jsonc(TEXT) == {
        "image": "old",
        "list": [1, 2, 3],
        "customizations": {"vscode": {"extensions": ["a"]}},
    }
    assert parse_jsonc('\ufeff{"a": "// no comment /* */", "b": -1.5e3, "c": [true, null]} // x') == {
        "a": "// no comment /* */",
        "b": -1500.0,
        "c": [True, None],
    }


def test_a_value_is_replaced_and_nothing_else() -> None:
    assert change_jsonc(TEXT, {("image",): "new"}) == TEXT.replace('"old"', '"new"')
    assert change_jsonc(TEXT, {("image",): "old"}) == TEXT


def test_a_member_is_added_behind_the_comments_of_the_last_one() -> None:
    changed = change_jsonc(TEXT, {("customizations", "aml-train", "address"): "addr-1"})
    assert changed == TEXT.replace(
        '"vscode": {"extensions": ["a"]} // mine\n',
        '"vscode": {"extensions": ["a"]}, // mine\n    "aml-train": {\n      "address": "addr-1"\n    }\n',
    )


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("{}", '{\n  "a": 1\n}'),
        ("{ // empty\n}\n", '{\n  "a": 1 // empty\n}\n'),
        ('{"b": 2}', '{"b": 2, "a": 1}'),
        ('{"b": 2,}', '{"b": 2, "a": 1}'),
        ('{\n\t"b": 2,\n}', '{\n\t"b": 2,\n\t"a": 1,\n}'),
        ('{\n  "b": 2}', '{\n  "b": 2,\n  "a": 1\n}'),
        ('{\r\n  "b": 2\r\n}', '{\r\n  "b": 2,\r\n  "a": 1\r\n}'),
    ],
)
def test_a_member_is_added_in_the_manner_of_the_file(text: str, changed: str) -> None:
    assert change_jsonc(text, {("a",): 1}) == changed
    assert parse_jsonc(changed) == {**parse_jsonc(text), "a": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: a value is expected"),
        ('{\n"a": 1\n"b": 2}', "line 3: a comma or `}` is expected"),
        ('{"a" 1}', "line 1: a colon is expected after `a`"),
        ("{a: 1}", "line 1: a name in quotes is expected"),
        ('{"a": 1, "a": 2}', "line 1: the name `a` is there twice"),
        ("{} {}", "line 1: there is more after the value"),
        ('{"a": 1.2.3}', r"line 1: `1\.2\.3` is no value"),
        ('{"a": /* never', "line 1: a value is expected"),
        ("[" * 200, "line 1: it is nested more than 100 levels deep"),
        ("[,]", "line 1: a value is expected"),
    ],
)
def test_what_is_no_json_is_refused(text: str, message: str) -> None:
    with pytest.raises(JsoncError, match=message):
        parse_jsonc(text)
