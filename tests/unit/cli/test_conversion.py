"""Run configurations written as command jobs: our own loader reads back what is printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from aml_train.cli.main import cli
from aml_train.cli.validate import render_job
from aml_train.config.load import load_config
from aml_train.core.errors import InvalidError
from tests.unit.config.test_runconfig import CASES, write

DOCUMENTATION = Path(__file__).parents[3] / "docs" / "sdk-v1.md"


@pytest.mark.parametrize("name", CASES)
def test_what_is_printed_is_the_job(name: str, tmp_path: Path) -> None:
    write(tmp_path, {"train.py": "", "src/train.py": "", **CASES[name][0]})
    config = load_config(None, directory=tmp_path)
    text = render_job(config)
    assert yaml.safe_load(text).keys() >= {"$schema", "type", "command"}
    file = config.job.directory / "printed.yml"
    file.write_text(text)
    (tmp_path / "around.yml").write_text(
        f"job: {file.relative_to(tmp_path)}\n" + ("image: {base: x}\n" if config.image else "")
    )
    back = load_config(Path("around.yml"), directory=tmp_path).job
    document = dict(back.document)
    assert (document.pop("$schema").rpartition("/")[2], document.pop("type")) == ("commandJob.schema.json", "command")
    assert document == config.job.document
    assert (back.code, back.directory) == (config.job.code, config.job.directory)


def test_the_command(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "src/train.py": "",
            "conf/a.yml": "script: train.py\nenvironment: {docker: {baseImage: x}}\n"
            "dataReferences: {raw: {dataStoreName: w, pathOnDataStore: a}}\n",
            "aml-train.yml": "runconfig: {file: conf/a.yml, source-directory: src}\nimage: {base: python}\nsdk: v1\n",
        },
    )
    done = CliRunner().invoke(cli, ["convert", "-C", str(tmp_path), "--set", "job.experiment_name=digits"])
    assert done.exit_code == 0, done.output
    assert done.output == (
        "# The command job that does what the run configuration conf/a.yml says. Save it as src/job.yml: its paths start there.\n"
        "# In aml-train.yml, `job: src/job.yml` replaces `runconfig:`.\n"
        "# It runs in the image of aml-train.yml, and names no environment.\n"
        "$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json\n"
        "type: command\n"
        "experiment_name: digits\n"
        "command: |-\n"
        '  export AZUREML_DATAREFERENCE_raw="${{inputs.raw}}"\n'
        "  python train.py\n"
        "code: .\n"
        "inputs:\n"
        "  raw:\n"
        "    type: uri_folder\n"
        "    path: azureml://datastores/w/paths/a\n"
        "    mode: ro_mount\n"
    )


def test_a_command_job_is_not_converted(tmp_path: Path) -> None:
    write(tmp_path, {"job.yml": "command: x\nenvironment: azureml:e:1\n"})
    with pytest.raises(InvalidError, match=r"job\.yml is a command job already"):
        render_job(load_config(None, directory=tmp_path))


def test_the_example_of_the_documentation(tmp_path: Path) -> None:
    text = DOCUMENTATION.read_text(encoding="utf-8")
    found = re.search(
        r"(?s)```yaml\n# (\.azureml/gpu\.runconfig)\n(.*?)```.*?```yaml\n(# The command job.*?)```", text
    )
    assert found is not None
    write(tmp_path, {found[1]: found[2], "src/train.py": "", "train.py": ""})
    assert render_job(load_config(Path(found[1]), directory=tmp_path)) == found[3]
