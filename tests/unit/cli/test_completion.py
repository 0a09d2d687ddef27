"""What a shell completes; tests/integration/cli/test_completion.py tries it in shells."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from aml_train.cli.main import cli

CONFIGURATION = """\
job: job.yml
targets: {azure: {workspace: w}, other: {workspace: x}}
promote: {production: {gate: {}}, staging: }
"""


def completed(*words: str) -> list[str]:
    *before, last = words
    found = ShellComplete(cli, {}, "aml-train", "_AML_TRAIN_COMPLETE").get_completions(before, last)
    return [item.value for item in found]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "aml-train.yml").write_text(CONFIGURATION)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("pro",), ["promote"]),
        (("jobs", "l"), ["list", "logs"]),
        (("jobs", "list", "--so"), ["--sort"]),
        (("jobs", "list", "--status", "run"), ["running"]),
        (("jobs", "list", "--status", "Can"), ["cancelrequested", "canceled"]),
        (("jobs", "list", "--sort", "d"), ["duration"]),
        (("run", "--on-cancel", ""), ["cancel", "detach"]),
        (("run", "--target", ""), ["azure", "other", "local"]),
        (("run", "--target", "o"), ["other"]),
        (("promote", "--to", ""), ["production", "staging"]),
        (("model", "list", "--stage", "a"), ["archived"]),
        (("completion", ""), ["bash", "zsh", "fish"]),
        (("emulator", "job", "p"), ["preempt"]),
    ],
)
def test_commands_options_and_values(project: Path, words: tuple[str, ...], found: list[str]) -> None:
    assert completed(*words) == found


def test_the_configuration_is_that_of_the_command_line(project: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "aml-train.yml").write_text("targets: {third: {workspace: w}}\n")
    assert completed("run", "-C", str(folder), "--target", "") == ["third", "local"]
    assert completed("run", "--config", str(folder / "aml-train.yml"), "--target", "t") == ["third"]


@pytest.mark.parametrize("text", ["targets: [", "targets: [a]\n", "- a\n", "", None])
def test_a_configuration_that_cannot_be_read_completes_nothing(project: Path, text: str | None) -> None:
    file = project / "aml-train.yml"
    file.unlink() if text is None else file.write_text(text)
    assert completed("run", "--target", "") == ["local"]
    assert completed("promote", "--to", "") == []


@pytest.mark.parametrize(
    ("shell", "line"),
    [
        ("bash", "complete -o nosort -F _aml_train_completion aml-train"),
        ("zsh", "compdef _aml_train_completion aml-train"),
        ("fish", "complete --no-files --command aml-train"),
    ],
)
def test_the_scripts(shell: str, line: str) -> None:
    result = CliRunner().invoke(cli, ["completion", shell])
    assert (result.exit_code, result.stderr) == (0, "")
    assert line in result.stdout
    assert f"_AML_TRAIN_COMPLETE={shell}_complete" in result.stdout


def test_another_shell_is_refused() -> None:
    result = CliRunner().invoke(cli, ["completion", "tcsh"])
    assert result.exit_code == 2
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in result.stderr
