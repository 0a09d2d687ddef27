from __future__ import annotations

import pytest

from aml_train.cli.jsonc import JsoncError, change_jsonc, parse_jsonc

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
    assert parse_jsonc('\ufeff{"a": "// no comment, /* */ ,}", "b": [true, null , ]} // x') == {
        "a": "// no comment, /* */ ,}",
        "b": [True, None],
    }


def test_a_value_is_replaced_and_nothing_else() -> None:
    assert change_jsonc(TEXT, {("image",): "new"}) == TEXT.replace('"old"', '"new"')
    assert change_jsonc(TEXT, {("image",): "old"}) == TEXT


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("{}", '{\n  "a": 1\n}'),
        ("{ // empty\n}\n", '{\n  "a": 1 // empty\n}\n'),
        ('{"b": 2}', '{"a": 1, "b": 2}'),
        ('{\n\t"b": 2, // c\n}', '{\n\t"a": 1,\n\t"b": 2, // c\n}'),
        ('{\r\n  "b": 2\r\n}', '{\r\n  "a": 1,\r\n  "b": 2\r\n}'),
    ],
)
def test_a_member_is_added_in_the_manner_of_the_file(text: str, changed: str) -> None:
    assert change_jsonc(text, {("a",): 1}) == changed
    assert parse_jsonc(changed) == {**parse_jsonc(text), "a": 1}


def test_objects_on_the_way_are_made() -> None:
    changed = change_jsonc(TEXT, {("customizations", "aml-train", "address"): "addr-1"})
    new = '    "aml-train": {\n      "address": "addr-1"\n    },\n    "vscode"'
    assert changed == TEXT.replace('    "vscode"', new)


@pytest.mark.parametrize("text", ["", '{\n"a": 1\n"b": 2}', "{a: 1}", "{} {}", "[" * 100_000, '{"a": /* never'])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(JsoncError):
        parse_jsonc(text)
