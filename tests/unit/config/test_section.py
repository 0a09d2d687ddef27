"""Sections: one field is a key's grammar, its documentation and its default."""

from __future__ import annotations

import pytest

from aml_train.config.section import key, keys_of, make, record, rendered_keys, section
from aml_train.config.yaml.shapes import Number, Text
from aml_train.config.yaml.structures import Items


@section
class Sample:
    two_words: str = key(Text(noun="a word"), "A word.")
    names: tuple[str, ...] = key(Items(item=Text(), noun="a list"), "Names.", default=(), rendered=True)
    seconds: float = key(Number(noun="a time"), "A time.", default=60.0, name="time")
    derived: str = key(Text(), "Derived from others.", required=False)
    labels: dict[str, str] = key(Text(), "Labels.", factory=dict)
    where: str = ""


def test_fields_are_keys_unless_they_are_plain() -> None:
    keys = keys_of(Sample)
    assert list(keys) == ["two-words", "names", "time", "derived", "labels"]
    assert [name for name, spec in keys.items() if spec.required] == ["two-words"]
    assert keys["time"].text == "A time."
    assert rendered_keys(Sample) == {"names"}
    grammar = record(Sample, noun="a sample", one_of=("two-words", "time"))
    assert (grammar.keys, grammar.one_of, grammar.noun) == (keys, ("two-words", "time"), "a sample")


@pytest.mark.parametrize("given", [["a"], ("a",), "a"])
def test_a_list_takes_one_item_as_well(given: object) -> None:
    made = make(Sample, {"two-words": "x", "names": given}, derived="y", where="file:1")
    assert made == Sample(two_words="x", names=("a",), derived="y", where="file:1")


def test_values_go_by_their_keys_and_given_ones_win() -> None:
    made = make(Sample, {"two-words": "x", "time": 5.0, "derived": "file"}, derived="own")
    assert (made.seconds, made.derived, made.names, made.labels) == (5.0, "own", (), {})
