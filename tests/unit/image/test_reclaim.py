"""What is removed from a hosted runner, and that nothing is removed elsewhere."""

from __future__ import annotations

from typing import Any, cast

import pytest

from aml_train.core.events import Event, Notice
from aml_train.image import reclaim
from aml_train.image.reclaim import FOLDERS, Removed, parse_removed, reclaim_disk, summary

ENGINE = cast("Any", None)


@pytest.mark.parametrize("environ", [{}, {"RUNNER_ENVIRONMENT": "self-hosted"}, {"GITHUB_ACTIONS": "true"}])
def test_nothing_is_removed_from_a_machine_that_is_no_hosted_runner(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_args: object) -> str:
        raise AssertionError("nothing may be removed")

    monkeypatch.setattr(reclaim, "run_script", never)
    monkeypatch.setattr(reclaim, "_by_container", never)
    events: list[Event] = []
    assert reclaim_disk(ENGINE, environ, events.append) == ()
    [notice] = [event.text for event in events if isinstance(event, Notice)]
    assert "removes nothing here: this is no hosted runner of GitHub" in notice


@pytest.mark.parametrize("contained", [True, False])
def test_a_hosted_runner_loses_the_listed_folders_alone(contained: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def script(prefix: list[str], root: str, paths: tuple[str, ...]) -> str:
        asked.append((prefix, root, paths))
        return "removed 2048 /usr/share/dotnet\n"

    monkeypatch.setattr(reclaim, "in_container", lambda: contained)
    monkeypatch.setattr(reclaim, "run_script", script)
    monkeypatch.setattr(reclaim, "_by_container", lambda *_args: "removed 2048 /usr/share/dotnet\n")
    events: list[Event] = []
    found = reclaim_disk(ENGINE, {"RUNNER_ENVIRONMENT": "github-hosted"}, events.append)
    assert found == (Removed(path="/usr/share/dotnet", size=2 << 20),)
    assert asked == ([] if contained else [(["sudo", "-n"], "", tuple(FOLDERS))])
    assert [event.text for event in events if isinstance(event, Notice)] == [summary(found)]


def test_the_output_is_read_strictly() -> None:
    output = "removed 1 /usr/share/dotnet\nremoved x /opt/ghc\nremoved 1 /etc\nnoise\nremoved 3 /opt/ghc\n"
    assert parse_removed(output) == (
        Removed(path="/usr/share/dotnet", size=1024),
        Removed(path="/opt/ghc", size=3072),
    )


def test_the_sentence() -> None:
    assert summary(()) == "`image.reclaim-disk` found nothing to remove on this runner."
    text = summary(
        [Removed(path="/opt/ghc", size=3_000_000_000), Removed(path="/usr/share/dotnet", size=1_000_000_000)]
    )
    assert "GHC (/opt/ghc, " in text
    assert ".NET (/usr/share/dotnet, " in text


def test_only_folders_of_the_two_mounted_ones_are_listed() -> None:
    assert all(path.startswith(("/usr/", "/opt/")) and ".." not in path for path in FOLDERS)
