from pathlib import Path

import yaml

from aml_train.azure.sdk_v2 import component_files

COMPONENT = {
    "type": "command",
    "command": "x",
    "code": "src",
    "additional_includes": ["shared"],
    "environment": {"image": "i", "conda_file": "conda.yml", "build": {"path": "docker"}},
}


def test_components_become_files_with_absolute_paths(tmp_path: Path) -> None:
    inner = {
        "type": "pipeline",
        "jobs": {"a": {"component": dict(COMPONENT, code="azureml:/subscriptions/s/codes/c")}},
    }
    document = {
        "type": "pipeline",
        "jobs": {
            "train": {"component": COMPONENT},
            "sub": {"type": "pipeline", "component": inner},
            "tune": {"type": "sweep", "trial": dict(COMPONENT, environment="file:env.yml")},
            "given": {"component": "azureml:c:1"},
        },
    }
    with component_files(document, tmp_path) as written:
        jobs = written["jobs"]
        assert jobs["given"] == {"component": "azureml:c:1"}
        train = yaml.safe_load(Path(jobs["train"]["component"]).read_text())
        assert train["code"] == str(tmp_path / "src")
        assert train["additional_includes"] == [str(tmp_path / "shared")]
        assert train["environment"]["conda_file"] == str(tmp_path / "conda.yml")
        assert train["environment"]["build"]["path"] == str(tmp_path / "docker")
        sub = yaml.safe_load(Path(jobs["sub"]["component"]).read_text())
        nested = yaml.safe_load(Path(sub["jobs"]["a"]["component"]).read_text())
        assert nested["code"] == "azureml:/subscriptions/s/codes/c"
        assert (
            yaml.safe_load(Path(jobs["tune"]["trial"]).read_text())["environment"] == f"file:{tmp_path / 'env.yml'}"
        )
        folder = Path(jobs["train"]["component"]).parent
    assert not folder.exists()
    assert document["jobs"]["train"]["component"]["code"] == "src", "the job itself is not changed"  # type: ignore[index]


def test_another_job_is_left_as_it_is(tmp_path: Path) -> None:
    document = {"command": "x", "code": "src"}
    with component_files(document, tmp_path) as written:
        assert written == document
