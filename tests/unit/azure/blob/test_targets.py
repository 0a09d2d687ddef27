"""Which target data commands mean, with and without a configuration; and what they say of their progress."""

from __future__ import annotations

import io
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from aml_train.azure.blob.transfer import Tally
from aml_train.cli import data as progress
from aml_train.config.load import load_targets
from aml_train.core.errors import CancelledError, InvalidError


def test_without_a_configuration_it_is_the_local_one(tmp_path: Path) -> None:
    targets = load_targets(None, directory=tmp_path)
    assert (targets.named(None).kind, targets.named("azure").kind) == ("local", "azure")


def test_the_configurations_choice_and_others(tmp_path: Path) -> None:
    (tmp_path / "aml-train.yml").write_text(
        "target: prod\ntargets:\n  prod: {workspace: ml, resource-group: rg}\n  local: {}\nnonsense: 1\n"
    )
    targets = load_targets(None, directory=tmp_path)
    assert (targets.named(None).name, targets.named(None).workspace) == ("prod", "ml")
    assert targets.named("local").kind == "local"
    with pytest.raises(InvalidError, match=r"--target: the target `prd` is not configured: did you mean `prod`\?"):
        targets.named("prd")


def test_wrong_targets_are_told_with_their_place(tmp_path: Path) -> None:
    (tmp_path / "aml-train.yml").write_text("targets:\n  prod: {workspce: ml}\n")
    with pytest.raises(InvalidError, match=r"aml-train\.yml:2.*workspce"):
        load_targets(None, directory=tmp_path).named("prod")
    with pytest.raises(InvalidError, match=r"other\.yml"):
        load_targets(Path("other.yml"), directory=tmp_path)


def test_the_summary_says_all_that_matters() -> None:
    tally = Tally()
    tally.add(files=4, size=4000, sent_files=1, sent_bytes=1000, same_files=2, same_bytes=2000)
    tally.add(unchecked=1)
    assert progress._summary("sent", tally, 1.0) == (
        "sent 1 file (1.0 kB) in 1.0 s; 2 were there already; 1 without a stored checksum, checked by size alone"
    )
    assert progress._amount(tally) == "3 of 4 so far files, 3.0 kB of 4.0 kB"


def test_progress_is_lines_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_LINE_SECONDS", 0.001)
    written = threading.Event()

    class Lines(io.StringIO):
        def flush(self) -> None:
            written.set()

    file = Lines()
    with progress._shown("sent", Tally(files=2, size=10, counted=True), file):
        assert written.wait(60)
    assert file.getvalue().splitlines()[0] == "· sent: 0 of 2 files, 0 B of 10 B"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["upload", "x"], "Neither an address nor --name is given"),
        (["upload", "x", "azureml:x:1"], "only paths in a datastore can"),
        (["upload", "x", "y"], "is a path on this machine, not an address of data"),
        (["download", "x"], "is a path on this machine, not an address of data"),
        (["ls", "azureml:x", "--target", "nowhere"], "`nowhere` is not configured"),
    ],
)
def test_wrong_arguments_are_told_before_anything_is_asked(
    arguments: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from aml_train.cli.main import cli

    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, ["data", *arguments])
    assert isinstance(result.exception, InvalidError)
    assert words in str(result.exception)


def test_an_interruption_says_how_to_go_on() -> None:
    from aml_train.cli.data import moved

    def work(tally: Tally) -> None:
        tally.add(files=3, sent_files=2)
        raise KeyboardInterrupt

    with pytest.raises(
        CancelledError, match=r"Interrupted: sent 2 of 3 so far files.*\n.*it continues from here"
    ) as caught:
        moved("sent", work)
    assert caught.value.exit_code == 7


def test_a_version_needs_a_name(tmp_path: Path) -> None:
    from aml_train.cli.main import cli

    result = CliRunner().invoke(
        cli, ["data", "upload", str(tmp_path), "azureml://datastores/d/paths/x", "--version", "1"]
    )
    assert (result.exit_code, "--version and --type describe a data asset" in result.output) == (2, True)
