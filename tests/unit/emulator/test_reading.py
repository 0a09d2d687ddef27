"""Numbers and YAML in text from outside, within bounds."""

from __future__ import annotations

import time

import pytest
import yaml

from aml_emulator import reading
from aml_emulator.reading import MAX_DEPTH, MAX_VALUES, read_yaml, whole


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("007", 7),
        ("9" * 19, None),
        ("9" * 5000, None),
        ("", None),
        ("-1", None),
        ("\u00b2", None),
        ("\u0663", None),
    ],
)
def test_ascii_digits_are_a_number_and_nothing_else(text: str, expected: int | None) -> None:
    assert whole(text) == expected


BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}, *a{n - 1}]\n" for n in range(1, 30))


@pytest.mark.parametrize("loader", [yaml.SafeLoader, reading._Loader])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 20_000, f"line 1: more than {MAX_DEPTH} lists and mappings are inside one another"),
        ("[\n" * 20_000, f"line {MAX_DEPTH + 1}: more than {MAX_DEPTH} lists and mappings are inside one another"),
        ("{a: " * 20_000, f"line 1: more than {MAX_DEPTH} lists and mappings are inside one another"),
        (BOMB, f"line 10: it has more than {MAX_VALUES} values, those of its aliases included"),
        ("a: 1\nb: [", "line 2: "),
        ("a: 2020-99-99", "month must be in 1..12"),
        ("a: !!python/object:os.system {}", "could not determine a constructor"),
    ],
)
def test_what_is_no_document_within_the_bounds(
    loader: type[yaml.SafeLoader], text: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyYAML takes minutes for 20,000 brackets: nothing here takes seconds."""
    monkeypatch.setattr(reading, "_Loader", loader)
    before = time.process_time()
    with pytest.raises(ValueError, match=r"^") as caught:
        read_yaml(text)
    assert message in str(caught.value)
    assert time.process_time() - before < 3


def test_a_document_is_read() -> None:
    assert read_yaml("a: &x [1, {b: c}]\nd: *x\n") == {"a": [1, {"b": "c"}], "d": [1, {"b": "c"}]}
    assert read_yaml("") is None
