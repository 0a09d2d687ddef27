"""Which SDK submits a job."""

from __future__ import annotations

from pathlib import Path

import pytest

from aml_train.config.load import load_config
from aml_train.config.model import Config
from aml_train.core.errors import InvalidError
from aml_train.pipeline import sdk
from aml_train.pipeline.prepare import prepare_run
from aml_train.pipeline.project_name import folder_project
from aml_train.pipeline.target import Host

RUNCONFIG = "script: train.py\nenvironment: {docker: {baseImage: x}}\n"
WITH_OUTPUT = "runconfig: b\nmodel: {name: m, output: trained}\n"
JOB = "job: {command: x, environment: 'azureml:e:1'}\n"


def config_of(folder: Path, text: str) -> Config:
    (folder / "train.py").write_text("")
    (folder / "a.runconfig").write_text(RUNCONFIG)
    (folder / "b.runconfig").write_text(f"{RUNCONFIG}outputData: {{trained: {{}}}}\n")
    (folder / "aml-train.yml").write_text(text)
    return load_config(None, directory=folder)


@pytest.mark.parametrize(
    ("text", "installed", "expected", "notice"),
    [
        ("runconfig: a\n", "1.61.0", "v1", "The SDK v1, azureml-core 1.61.0, submits the run, because it is a run configuration"),
        ("runconfig: a\n", None, "v2", "azureml-core is not installed, which would submit it by default (pip install 'aml-train["),
        ("runconfig: a\ndata: {raw: 'azureml:raw:1'}\n", "1.61.0", "v2", "the SDK v1 cannot bring the `data` of aml-train.yml"),
        (WITH_OUTPUT, "1.61.0", "v2", "runs of the SDK v1 have no outputs with names, as `model.output` is"),
        ("runconfig: a\nsdk: v1\n", "1.61.0", "v1", None),
        ("runconfig: a\nsdk: v2\n", "1.61.0", "v2", None),
        ("runconfig: a\nsdk: v2\n", None, "v2", None),
        (JOB, "1.61.0", "v2", None),
        (JOB, None, "v2", None),
    ],
)  # fmt: skip
def test_the_sdk(
    text: str,
    installed: str | None,
    expected: str,
    notice: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def installed_v1() -> str | None:
        asked.append(True)
        return installed

    monkeypatch.setattr(sdk, "installed_v1", installed_v1)
    config = config_of(tmp_path, text)
    found = sdk.with_sdk(config)
    assert found.sdk == expected
    new = found.notices[len(config.notices) :]
    assert len(new) == (notice is not None)
    assert notice is None or notice in new[0]
    assert bool(asked) == ("runconfig" in text and "sdk: v2" not in text), "looked for only if it matters"


def test_azureml_core_is_asked_for_and_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sdk, "installed_v1", lambda: None)
    with pytest.raises(InvalidError, match="`sdk: v1` needs azureml-core, which is not installed") as caught:
        sdk.with_sdk(config_of(tmp_path, "runconfig: a\nsdk: v1\n"))
    assert "aml-train[azure-v1]" in str(caught.value.hint)
    assert "sdk: v2" in str(caught.value.hint)


def test_whoever_attaches_to_a_job_by_its_name_needs_no_sdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sdk, "installed_v1", lambda: None)
    monkeypatch.setattr("aml_train.pipeline.prepare.read_commit", lambda *_, **__: None)  # it asks git
    monkeypatch.setattr(
        "aml_train.pipeline.prepare.read_project", lambda directory, _environment, **_more: folder_project(directory)
    )
    prepared = prepare_run(config_of(tmp_path, "runconfig: a\nsdk: v1\n"), Host(environ={}), image=False)
    assert not [notice for notice in prepared.plan.notices if "SDK" in notice]
