"""The script that removes toolchains, on folders of the test."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import pytest

from aml_train.core.events import Event, Notice
from aml_train.image import reclaim
from aml_train.image.reclaim import parse_removed, reclaim_disk, run_script

ENGINE = cast("Any", None)


def test_the_script_removes_and_measures_what_is_listed_and_nothing_else(tmp_path: Path) -> None:
    for name in ("usr/share/dotnet", "opt/ghc", "usr/share/kept"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "usr/share/dotnet/large").write_bytes(b"x" * 3_000_000)
    (tmp_path / "usr/share/swift").symlink_to(tmp_path / "usr/share/kept")
    output = run_script([], str(tmp_path), ("/usr/share/dotnet", "/opt/ghc", "/usr/share/swift", "/opt/missing"))
    found = parse_removed(output)
    assert [one.path for one in found] == ["/usr/share/dotnet", "/opt/ghc"]
    assert 2_900_000 < found[0].size < 3_200_000
    assert sorted(path.name for path in (tmp_path / "usr/share").iterdir()) == ["kept", "swift"]
    assert list((tmp_path / "opt").iterdir()) == []


@pytest.mark.parametrize(
    ("prefix", "why"),
    [
        (["sh", "-c", "echo sudo: a password is required >&2; exit 1"], "sudo: a password is required"),
        (["false"], "the shell ended with 1"),
        (["no-such-program"], "No such file or directory: 'no-such-program'"),
    ],
)
def test_a_refusal_is_a_warning(prefix: list[str], why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = reclaim.run_script
    monkeypatch.setattr(reclaim, "in_container", lambda: False)
    monkeypatch.setattr(reclaim, "run_script", lambda _sudo, root, paths: real(prefix, root, paths))
    events: list[Event] = []
    assert reclaim_disk(ENGINE, {"RUNNER_ENVIRONMENT": "github-hosted"}, events.append) == ()
    [notice] = [event for event in events if isinstance(event, Notice)]
    assert (notice.level, why in notice.text) == ("warning", True)


def test_folders_that_were_removed_are_listed_with_the_one_that_was_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("opt/ghc", "usr/share/dotnet"):
        (tmp_path / folder).mkdir(parents=True)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "rm").write_text('#!/bin/sh\ncase "$*" in */dotnet) echo "rm: no" >&2; exit 1;; esac\n/bin/rm "$@"\n')
    (programs / "rm").chmod(0o755)
    real = reclaim.run_script
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setattr(reclaim, "in_container", lambda: False)
    monkeypatch.setattr(reclaim, "run_script", lambda _sudo, _root, paths: real([], str(tmp_path), paths))
    events: list[Event] = []
    found = reclaim_disk(ENGINE, {"RUNNER_ENVIRONMENT": "github-hosted"}, events.append)
    assert [one.path for one in found] == ["/opt/ghc"]
    warning, listed = (event.text for event in events if isinstance(event, Notice))
    assert warning == "`image.reclaim-disk` failed: rm: no"
    assert "GHC (/opt/ghc, " in listed
