from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aml_train.core.text import harmless
from aml_train_action.github.commands import (
    annotation,
    command,
    escape_data,
    escape_property,
)
from aml_train_action.github.files import append, entry, write_outputs


@pytest.mark.parametrize(
    ("text", "data", "prop"),
    [
        ("100%", "100%25", "100%25"),
        ("%0A", "%250A", "%250A"),
        ("a\r\nb", "a%0D%0Ab", "a%0D%0Ab"),
        ("a:b,c", "a:b,c", "a%3Ab%2Cc"),
        ("nul\x00 \ud800", "nul␀ ?", "nul␀ ?"),
        ("::set-output name=x::y", "::set-output name=x::y", "%3A%3Aset-output name=x%3A%3Ay"),
    ],
)
def test_escaping(text: str, data: str, prop: str) -> None:
    assert escape_data(text) == data
    assert escape_property(text) == prop


def test_commands_leave_empty_properties_out() -> None:
    assert command("endgroup") == "::endgroup::"
    assert (
        command("error", "x", {"file": "a,b.py", "line": "", "title": "t: 1"})
        == "::error file=a%2Cb.py,title=t%3A 1::x"
    )


@pytest.mark.parametrize(
    ("where", "line"),
    [
        ({"file": "a.py", "line": 3, "title": "T"}, "::error file=a.py,line=3,title=T::m%0An"),
        ({"line": 3}, "::error::m%0An"),
        ({}, "::error::m%0An"),
    ],
)
def test_annotations(where: dict[str, object], line: str) -> None:
    assert annotation("error", "m\nn", **where) == line  # type: ignore[arg-type]


def test_delimiters_are_drawn_again_until_they_do_not_occur() -> None:
    tokens = iter(["EOF", "EOF2"])
    assert entry("a", "x\nEOF\ny", token=lambda: next(tokens)) == "a<<EOF2\nx\nEOF\ny\nEOF2\n"


def _read_outputs(text: str) -> dict[str, str]:
    """As ``FileCommandManager.cs`` reads them."""
    lines, values = text.split("\n"), dict[str, str]()
    while lines:
        line = lines.pop(0)
        if not line:
            continue
        if "<<" not in line or ("=" in line and line.index("=") < line.index("<<")):
            name, _, values[name] = line.partition("=")
            continue
        name, _, delimiter = line.partition("<<")
        end = lines.index(delimiter)
        values[name], lines = "\n".join(lines[:end]), lines[end + 1 :]
    return values


@given(st.dictionaries(st.text("abc-", min_size=1), st.text(), max_size=4))
def test_outputs_come_back(values: dict[str, str]) -> None:
    text = "".join(entry(name, value) for name, value in values.items())
    expected = {
        name: value.replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "␀") for name, value in values.items()
    }
    assert _read_outputs(text) == expected


def test_files_are_appended_to_at_the_beginning_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "output"
    path.write_text("before=1")
    write_outputs(path, {"status": "passed", "odd": "\ud800"})
    assert _read_outputs(path.read_text()) == {"before": "1", "status": "passed", "odd": "?"}
    append(None, "nothing happens outside GitHub")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07", "␛]0;title␇"),
        ("a\x00b\x7fc\x9bd", "a␀b␡c\\x9bd"),
        ("\u202etxt.exe\u2028", "\\u202etxt.exe\\u2028"),
        ("tab\tand ünïcödé 中", "tab\tand ünïcödé 中"),
        ("\udcff", "\\udcff"),
    ],
)
def test_control_characters_become_visible(text: str, shown: str) -> None:
    assert harmless(text) == shown
