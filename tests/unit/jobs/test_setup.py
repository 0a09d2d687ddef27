"""The prologue of a job: its inputs, and what may not stand where data is linked. tests/integration runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from aml_train.config.load import load_config
from aml_train.config.model import Config
from aml_train.config.sections.code import DataLink, SetupCommand
from aml_train.core.errors import InvalidError
from aml_train.core.files import FileSet
from aml_train.jobs.setup import add_setup, check_links

JOB = "job: {command: 'echo ${{inputs.rate}}', environment: 'azureml:e:1', inputs: {rate: 1}}\n"


def link(local: str) -> DataLink:
    return DataLink(local=local, path="azureml:x:1", where="aml-train.yml:2")


def config(folder: Path, text: str) -> Config:
    (folder / "aml-train.yml").write_text(JOB + text)
    return load_config(None, directory=folder)


def test_nothing_is_put_before_a_job_without_setup_and_data() -> None:
    document = {"command": "x"}
    assert add_setup(document, (), ()) is document


def test_the_command_stays_as_it_is_behind_the_prologue() -> None:
    document = {"command": "python train.py ${{inputs.data_a}}", "inputs": {"data_a": 1}}
    setup = (SetupCommand(command="pip install 'x y'", where="aml-train.yml:3"),)
    prepared = add_setup(document, setup, (link("a"), link("A!")))
    assert str(prepared["command"]).endswith("\n) || exit\npython train.py ${{inputs.data_a}}")
    assert prepared["inputs"]["data_a_3"] == {
        "type": "uri_folder",
        "path": "azureml:x:1",
        "mode": "ro_mount",
    }
    assert document["inputs"] == {"data_a": 1}


@pytest.mark.parametrize(
    ("files", "local", "why"),
    [
        (["data/images/1.png"], "data/images", "the code has `data/images/1.png`"),
        (["data"], "data/images", "the code has `data`"),
        (["data/images"], "data/images", "the code has `data/images`"),
    ],
)
def test_code_that_stands_in_the_way_is_named(tmp_path: Path, files: list[str], local: str, why: str) -> None:
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("")
    with pytest.raises(InvalidError, match=rf"aml-train.yml:2: the data cannot be linked to `{local}`: {why}"):
        check_links([link(local)], FileSet.collect_code(tmp_path))


def test_code_beside_it_is_not_in_the_way(tmp_path: Path) -> None:
    for file in ("data/images2", "data/labels/a"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("")
    check_links([link("data/images")], FileSet.collect_code(tmp_path))


def test_the_configuration_says_them_in_short_and_in_full(tmp_path: Path) -> None:
    text = "setup: [a, 'b c']\ndata:\n  ./data/x/: azureml:x@latest\n  y.csv: {path: 'https://h/y.csv', type: uri_file}\n"
    loaded = config(tmp_path, text)
    assert loaded.setup == (
        SetupCommand(command="a", where="aml-train.yml:2"),
        SetupCommand(command="b c", where="aml-train.yml:2"),
    )
    first, second = loaded.data
    assert (first.local, first.path, first.type, first.mode) == (
        "data/x",
        "azureml:x@latest",
        "uri_folder",
        "ro_mount",
    )
    assert (second.local, second.type, second.where) == ("y.csv", "uri_file", "aml-train.yml:5")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("data: {/data: 'azureml:x:1'}", "is no path below the code folder"),
        ("data: {a/../../b: 'azureml:x:1'}", "is no path below the code folder"),
        ("data: {.: 'azureml:x:1'}", "is no path below the code folder"),
        ("data: {a: ./local}", "must be an address such as"),
        ("data: {a: 'azureml:x:1', a/b: 'azureml:y:1'}", "one is inside the other"),
        ("data: {a: {type: uri_file}}", "the key `path` of `data.a` is missing"),
        ("setup: ['pip install ${{inputs.x}}']", "belongs into the job's command"),
        ("setup: []", "`setup` is empty"),
        ("code: {max-files: 0}", "`code.max-files` must be at least 1"),
        ("code: src", "`code` must be a mapping"),
    ],
)
def test_what_cannot_work_is_refused_with_its_place(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(InvalidError, match=what) as caught:
        config(tmp_path, text)
    assert str(caught.value).startswith("aml-train.yml:2: ")
