"""Formats that outlive a version: none changes unnoticed, and documents of earlier versions are read or refused with a remedy."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aml_train.core import tags
from aml_train.core.errors import DamagedError
from aml_train.image.leases import lease_end, lease_tag, lease_tags, mark_end, mark_tag, mark_tags
from aml_train.image.records import load_record, parse_record, record_tag
from aml_train.image.spec import TEST_FORMAT
from aml_train.models.promotion import record as promotion
from scripts.fixtures import formats
from tests.support.upgrades import FOLDER

DOCUMENTS: dict[str, dict[str, Any]] = json.loads((FOLDER / "documents.json").read_text())
DIGEST, KEY, NOW = "sha256:" + "ab" * 32, "cd" * 32, 1_795_000_000.0


def _of(kind: str) -> list[Any]:
    """Return the documents of a kind, one for each commit that wrote it."""
    return [pytest.param(made[kind], id=commit) for commit, made in DOCUMENTS.items() if kind in made]


def test_no_format_changes_without_its_number_and_a_fixture() -> None:
    locked = json.loads(formats.LOCK.read_text())
    assert formats.lock() == locked, (
        "a format has changed: give it a new number, a migration or a refusal, make a fixture of the version before,"
        " and run: python -m scripts.fixtures lock"
    )


def test_a_changed_format_with_its_old_number_is_not_locked(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(formats, "LOCK", tmp_path / "lock.json")
    formats.write_lock({"x": {"version": 1, "digest": "a"}, "tags": {"names": ["one", "two"]}})
    with pytest.raises(SystemExit, match="the format of the x has changed, and its number is still 1"):
        formats.write_lock({"x": {"version": 1, "digest": "b"}, "tags": {"names": ["one", "two"]}})
    with pytest.raises(SystemExit, match="earlier versions wrote two, which no one would read"):
        formats.write_lock({"x": {"version": 1, "digest": "a"}, "tags": {"names": ["one"]}})
    formats.write_lock({"x": {"version": 2, "digest": "b"}, "tags": {"names": ["one", "two", "three"]}})
    assert json.loads(formats.LOCK.read_text())["x"]["version"] == 2


@pytest.mark.parametrize("names", _of("tags"))
def test_tags_of_earlier_versions_have_the_same_names(names: dict[str, str]) -> None:
    known = {value for key, value in vars(tags).items() if key.startswith("TAG_")}
    assert set(names.values()) <= known


@pytest.mark.parametrize("record", _of("test_record"))
def test_a_test_record_is_read_or_its_tests_run_again(record: dict[str, Any]) -> None:
    if record["format"] == TEST_FORMAT:
        assert parse_record(json.dumps(record).encode()).digest == DIGEST
        return
    # Its tag has a key that covers the format: no run of this version looks for it.
    with pytest.raises(
        ValueError, match=f"aml-train of an earlier version wrote it: its format is {record['format']}"
    ):
        parse_record(json.dumps(record).encode())


def test_a_test_record_of_a_newer_version_names_the_remedy() -> None:
    newest = next(one.values[0] for one in _of("test_record") if one.values[0]["format"] == TEST_FORMAT)
    newer = json.dumps({**newest, "format": TEST_FORMAT + 1, "more": 1}).encode()

    class Registry:
        host = "r.azurecr.io"

    import aml_train.image.records as records

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "load_document", lambda *_args, **_options: newer)
        with pytest.raises(DamagedError) as caught:
            load_record(Registry(), "p", DIGEST, KEY)  # type: ignore[arg-type]  # only its name is asked
    assert f"a newer aml-train wrote it: its format is {TEST_FORMAT + 1}, this version reads {TEST_FORMAT}" in str(
        caught.value
    )
    assert "Use the version of aml-train that wrote it" in (caught.value.hint or "")


def test_records_and_leases_of_the_previous_version_are_found() -> None:
    made = DOCUMENTS["51ca925"]
    assert made["record_tag"] == record_tag(DIGEST, KEY)
    assert made["lease"] in lease_tags(DIGEST, NOW)
    assert made["lease"] == lease_tag(DIGEST, NOW)
    assert (lease_end(made["lease"]) or 0) > NOW
    assert made["mark"] in mark_tags(DIGEST, NOW)
    assert made["mark"] == mark_tag(DIGEST, NOW)
    assert (mark_end(made["mark"]) or 0) > NOW


@pytest.mark.parametrize("text", _of("promotion"))
def test_promotions_of_earlier_versions_are_read(text: str) -> None:
    found = promotion.decode(text.encode(), "digits")
    assert found.revision == 2
    assert found.pending is not None
    assert (found.pending.version, found.pending.previous) == ("2", ("1",))
    assert [(one.version, one.stage, one.gate) for one in found.history] == [("1", "production", "passed")]
    assert promotion.decode(promotion.encode(found), "digits") == found


def test_a_promotion_record_of_a_newer_version_is_refused_with_both_numbers() -> None:
    newer = json.dumps({"format": promotion.FORMAT + 1, "model": "digits"}).encode()
    with pytest.raises(ValueError, match=r"a newer aml-train wrote it: its format is 2, this version reads 1"):
        promotion.decode(newer, "digits")
