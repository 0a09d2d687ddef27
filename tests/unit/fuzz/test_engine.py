"""The engine: inputs by seed, limits, failures made small."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fuzz import coverage, loop
from fuzz.__main__ import main
from fuzz.limits import ForbiddenError, TooLargeError, TooSlowError, bounded
from fuzz.loop import attempt, run
from fuzz.shrink import shrink
from fuzz.storage import decode, encode, read, write
from fuzz.target import BrokenError, Kind, Target, as_bytes, require


def _target(check: Callable[[Any], None], *, kind: Any = "text", seeds: Any = ("abc [1, 2] def",)) -> Target:
    return Target(kind=kind, reads=(), seeds=lambda: seeds, check=check, words=("[[", "]]"))


def _seeking(text: str) -> None:
    text.index("(")


def _planted(text: str) -> None:
    require("[[" not in text, "two brackets")


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Target:
    target = _target(_planted)
    monkeypatch.setattr(loop, "load", lambda _name: target)
    return target


def test_a_planted_fault_is_found_made_small_and_written(planted: Target, tmp_path: Path) -> None:
    result = run("rules", seed=7, inputs=300, examples=tmp_path)
    assert result.inputs == 300
    (failure,) = result.failures.values()
    assert failure.file.parent == tmp_path / "rules"
    assert failure.file.read_text() == "[["
    assert "two brackets" in failure.text
    assert planted.kind == "text"


def test_shares_of_several_processes_are_the_inputs_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []
    for shares in ((0, 1),), ((0, 2), (1, 2)):
        tried: list[str] = []
        target = _target(tried.append)
        monkeypatch.setattr(loop, "load", lambda _name, target=target: target)
        for first, step in shares:
            run("rules", seed=3, inputs=40, first=first, step=step, examples=tmp_path)
        seen.append(sorted(tried))
    assert seen[0] == seen[1]
    assert len(seen[0]) > 40


def test_a_short_run_has_time_for_mutations_after_many_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second passes at each look at the clock, and the target takes three to load."""
    seconds, tried = iter(range(1000)), list[str]()
    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=lambda: next(seconds), process_time=lambda: 0.0))
    target = _target(tried.append, seeds=[f"seed {number}" for number in range(100)])

    def load(_name: str) -> Target:
        for _ in range(3):
            next(seconds)
        return target

    monkeypatch.setattr(loop, "load", load)
    result = run("rules", seed=3, seconds=20, examples=tmp_path)
    assert len(tried) - result.inputs == 6
    assert result.inputs == 9
    assert next(seconds) == 21


def _spins(_value: Any) -> None:
    while True:
        pass


def test_an_input_without_an_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.limits.SECONDS", 0.05)
    with pytest.raises(TooSlowError, match="processor time"):
        bounded(_spins, "")


def test_an_input_that_takes_much_memory_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.limits.MEGABYTES", -1)
    with pytest.raises(TooLargeError, match="MiB"):
        bounded(lambda _value: None, "")


@pytest.mark.parametrize(
    "check",
    [
        lambda value: eval(value),  # noqa: S307 - what must not happen
        lambda _value: os.system("true"),  # noqa: S605 - as above
        lambda _value: subprocess.Popen([sys.executable]),
        lambda _value: Path("/nowhere/x").write_text("x"),
        lambda _value: Path("/nowhere/x").unlink(),
    ],
)
def test_reading_touches_nothing_outside(check: Callable[[Any], None]) -> None:
    # The guard of unit tests refuses some of it as well.
    with pytest.raises((ForbiddenError, AssertionError)):
        bounded(check, "1 + 1")


def test_writing_below_the_temporary_folder_is_allowed(tmp_path: Path) -> None:
    def check(value: str) -> None:
        (tmp_path / "x").write_text(value)

    bounded(check, "text")
    assert (tmp_path / "x").read_text() == "text"


def test_failures_are_told_apart_by_their_place() -> None:
    target = _target(_planted)
    failed = attempt(target, "[[")
    assert failed is not None
    assert failed[0].startswith("BrokenError in ")
    assert attempt(target, "[") is None
    other = attempt(_target(_seeking), "[[")
    assert other is not None
    assert other[0].startswith("ValueError in ")


def test_shrinking_keeps_what_is_needed() -> None:
    assert shrink("some text with <x> in it", lambda text: "<x>" in text) == "<x>"
    tree = {"a": [1, 2, {"bad": "long text", "other": 5}], "b": {"c": "d"}}
    assert shrink(tree, lambda one: "bad" in str(one.get("a"))) == {"a": [{"bad": ""}]}


@pytest.mark.parametrize("text", ["", "a\r\nb", "\ud800", "\udcff\x00", "\U0001f600"])
def test_inputs_survive_their_files(text: str, tmp_path: Path) -> None:
    kinds: tuple[Kind, ...] = ("text", "json")
    for kind in kinds:
        path = write(tmp_path / kind, text, kind)
        assert decode(path.read_bytes(), kind) == text
        assert read(tmp_path / kind, kind) == [text]
        assert encode(text, kind) == path.read_bytes()


def test_bytes_that_are_no_utf_8_can_be_written() -> None:
    assert as_bytes("a\udcff") == b"a\xff"
    assert as_bytes("\ud800") == b"\xed\xa0\x80"


def test_the_corpus_has_one_input_for_each_new_set_of_edges() -> None:
    from aml_train.gate.rules import parse_rule

    def check(text: str) -> None:
        parse_rule(text)

    edges, files = coverage.trace(check, ">= 0.5")
    assert edges
    assert any(file.endswith("gate/rules.py") for file in files)
    candidates = [">= 0.6", "finite", "increasing", ">= baseline", "no rule at all"]
    kept = coverage.fewest(check, [">= 0.5"], candidates, "text", most_bytes=1000)
    assert set(kept) >= {"finite", ">= baseline"}
    assert ">= 0.6" not in kept
    assert coverage.fewest(check, [">= 0.5"], candidates, "text", most_bytes=6) == ["finite"]


def test_replay_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = write(tmp_path / "rules", ">= 0.5", "text")
    assert main(["replay", str(good)]) == 0
    assert "ok" in capsys.readouterr().out


def test_a_broken_property_is_a_failure() -> None:
    with pytest.raises(BrokenError, match="must hold"):
        require(False, "this must hold")
