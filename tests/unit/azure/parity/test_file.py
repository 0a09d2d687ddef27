"""Files of recordings: whole, or refused."""

from __future__ import annotations

import gzip
import json
import stat
from pathlib import Path

import pytest

from aml_train.azure.parity.file import Recording, kept_texts, marks, read_recording, write_recording
from aml_train.core.errors import InvalidError

RECORDING = Recording(
    header={"format": 1, "script": 1},
    lines=(
        {"kind": "exchange", "step": "a", "method": "GET", "url": "https://x/<name:1>", "status": 200, "body": {"id": "<guid:1>"}},
        {"kind": "skipped", "step": "b", "why": "needs registry"},
        {"kind": "call", "step": "c", "outcome": "ok"},
    ),
)  # fmt: skip


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_a_file_is_read_as_it_was_written_and_is_its_owners(tmp_path: Path, name: str) -> None:
    write_recording(RECORDING, tmp_path / name)
    assert read_recording(tmp_path / name) == RECORDING
    assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    assert [one.name for one in tmp_path.iterdir()] == [name]
    assert RECORDING.steps() == ["a", "c"]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match="cannot be written"):
        write_recording(RECORDING, tmp_path / "none" / "a.jsonl")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text.replace("200", "201"), "cut off or changed"),
        (lambda text: text.rpartition('{"kind": "end"')[0], "cut off or changed"),
        (lambda text: text.replace('"format": 1', '"format": 9'), "format 9"),
        (lambda text: "x" + text, "not JSON"),
        (lambda _text: "", "no header"),
        (lambda _text: "[]\n[]\n", "no header"),
    ],
)
def test_what_is_no_recording_is_refused(tmp_path: Path, change: object, said: str) -> None:
    write_recording(RECORDING, tmp_path / "a")
    assert callable(change)
    (tmp_path / "a").write_text(change((tmp_path / "a").read_text()))
    with pytest.raises(InvalidError, match=said):
        read_recording(tmp_path / "a")


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(gzip.compress(b"x" * 99)[:-9])
    with pytest.raises(InvalidError, match="cannot be read"):
        read_recording(tmp_path / "a")
    with pytest.raises(InvalidError, match="cannot be read"):
        read_recording(tmp_path / "none")


def test_a_line_of_another_kind_is_refused(tmp_path: Path) -> None:
    strange = Recording(header=RECORDING.header, lines=({"kind": "exchange", "step": "a"},))
    (tmp_path / "a").write_text("\n".join(strange.text_lines()) + "\n")
    with pytest.raises(InvalidError, match="a:2: it is no line"):
        read_recording(tmp_path / "a")


def test_a_review_shows_everything_in_clear() -> None:
    kept = dict(kept_texts(RECORDING.lines))
    assert kept["https://x/<name>"] == 1
    assert "<guid:1>" not in json.dumps(kept)
    assert marks(RECORDING.lines) == {"guid": 1, "name": 1}
