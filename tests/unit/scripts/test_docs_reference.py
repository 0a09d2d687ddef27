"""The generated pages and pictures are those that the code makes now; the parts that make them."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import click
import pytest

from aml_train.cli.main import cli
from aml_train.core import events
from scripts.docs import recording, reference

ROOT = Path(__file__).parents[3]
PAGES = reference.generated(ROOT)


@pytest.mark.parametrize("path", PAGES, ids=str)
def test_a_generated_page_is_what_the_code_says(path: Path) -> None:
    written = (ROOT / path).read_text(encoding="utf-8") if (ROOT / path).exists() else ""
    assert written == PAGES[path], f"{path} is old: run `.venv/bin/python -m scripts.docs write`"


def test_every_command_and_option_has_its_line() -> None:
    text = PAGES[Path("docs/reference/command-line.md")]
    context = click.Context(cli, info_name="aml-train")
    for name in cli.list_commands(context):
        assert f"\n## aml-train {name}\n" in text
    assert "\n## aml-train emulator fault add\n" in text
    assert "| `--on-cancel [cancel\\|detach]` |" in text


def test_every_event_and_field_has_its_line() -> None:
    text = PAGES[Path("docs/reference/events.md")]
    kinds = [one for one in vars(events).values() if isinstance(one, type) and issubclass(one, events.Event)]
    for kind in kinds:
        if kind in (events.Event, events.LogLines):
            continue
        name = "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in kind.__name__)[1:]
        section = text.split(f"\n## {name}\n")[1].split("\n## ")[0]
        assert all(f"| `{one.name}` |" in section for one in dataclasses.fields(kind) if one.name != "at")


RECORDINGS = sorted((ROOT / "docs/recordings").glob("*.ansi"))


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_a_picture_shows_its_recording(path: Path) -> None:
    picture = path.with_suffix(".svg").read_text(encoding="utf-8")
    assert picture == recording.drawn(path), "run `.venv/bin/python -m scripts.docs write`"
    # GitHub shows no picture that loads something from another site. An address may be part of the text.
    assert not re.search(r"\b(?:href|src)=|@import|url\([^#)]", picture)
