"""What `validate` refuses is what a plan refuses without asking a service; every fault is reported at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aml_train.config.load import load_config
from aml_train.core.errors import InvalidError
from aml_train.core.files import FileSet
from aml_train.pipeline.check import check_image, check_run
from aml_train.pipeline.prepare import prepare_run
from aml_train.pipeline.project_name import folder_project
from aml_train.pipeline.target import Host

JOB = "command: python train.py\ncode: src\n"
AZURE = "target: azure\ntargets: {azure: {subscription-id: 00000000-0000-0000-0000-000000000000}}\n"


def faults(folder: Path, image: str = "base: python:3.12", more: str = "", job: str = JOB, **files: str) -> list[str]:
    """Validate a project; return its faults, each as place and complaint."""
    written = {"src/train.py": "print(1)\n", "job.yml": job, **files}
    written["aml-train.yml"] = f"job: job.yml\n{more}" + (f"image:\n  {image}\n" if image else "")
    for name, text in written.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    try:
        check_run(load_config(None, directory=folder, check=check_image), {})
    except InvalidError as error:
        return [f"{one.where}: {one.what}".replace(f"{folder}/", "") for one in error.faults] or [error.message]
    return []


def test_nothing_is_asked_and_nothing_large_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_args: Any) -> str:
        raise AssertionError("the contents of files are hashed")

    monkeypatch.setattr(FileSet, "_hash", read)
    data = f"{JOB}inputs: {{d: {{type: uri_folder, path: data}}}}\n"
    image = "base: python:3.12\n  ofed: auto\n  copy: [{from: data, to: /data}]"
    tests = "tests: {command: pytest src}\n"
    assert faults(tmp_path, image, tests, data, **{"data/a.csv": "1\n"}) == []


def test_every_fault_of_every_part_at_once(tmp_path: Path) -> None:
    image = "base: python:3.12\n  pip: r.txt\n  conda: e.yml\n  ca-certificates: [ca.pem]"
    more = f"{AZURE}code: {{max-files: 1}}\ndata: {{train.py: 'azureml:d:1'}}\ntests: {{command: pytest src}}\n"
    files = {"r.txt": "-e .\n", "e.yml": "dependencies: [{pip: [-e .]}]\n", "ca.pem": "x", "src/b.py": ""}
    (tmp_path / "out").symlink_to("/etc/passwd")
    found = faults(tmp_path, image, more, **files)
    assert found[0].startswith(": The target 'azure' does not say its resource-group, workspace")
    assert [one.partition(": ")[0] for one in found[1:]] == ["r.txt:1", "e.yml:1", "ca.pem", "out", "aml-train.yml:5"]


def test_faults_of_files_next_to_those_of_the_configuration(tmp_path: Path) -> None:
    found = faults(tmp_path, "base: python:3.12\n  pip: r.txt", "gaet: {a: '> 1'}\n", **{"r.txt": "-e .\n"})
    assert found == ["aml-train.yml:2: unknown key `gaet`", "r.txt:1: `-e .` is a file of the project"]


@pytest.mark.parametrize(
    ("image", "more", "files", "fault"),
    [
        ("dockerfile: Dockerfile", "", {"Dockerfile": "FROM py\\\nthon:3.12\n"}, "Dockerfile:1: `python:3.12` cannot be pinned"),
        ("dockerfile: Dockerfile", "", {"Dockerfile": "FROM a\n", ".dockerignore": "[z-a]\n"}, ".dockerignore:1: `[z-a]` is no pattern"),
        ("base: a\n  ofed: {source: doca, version: '2.5.0', os: ubuntu22.04}", "", {}, "aml-train.yml:4: `image.ofed` cannot be installed: DOCA 2.5.0 has no doca-ofed-userspace: the first release with it is 2.9"),
        ("base: a\n  repository: x-proposals", "", {}, "the image's repository x-proposals has a name as those that proposed commits write to"),
        ("base: a", "code: {max-files: 1}\n", {"src/b.py": ""}, "The code in src has 2 files, more than 1 (code.max-files). The most is in:"),
    ],
)  # fmt: skip
def test_what_a_plan_refuses(image: str, more: str, files: dict[str, str], fault: str, tmp_path: Path) -> None:
    (found,) = faults(tmp_path, image, more, **files)
    assert found.partition("\n")[0].replace(f"{tmp_path}/", "") == fault


def test_the_conda_file_of_a_jobs_own_environment_goes_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aml_train.pipeline.prepare.read_project", lambda *_, **__: folder_project(tmp_path))
    job = f"{JOB}environment: {{image: 'python:3.12', conda_file: e.yml}}\n"
    files = {"e.yml": "dependencies:\n- pip:\n  - -r requirements.txt\n", "requirements.txt": "a\n"}
    assert faults(tmp_path, "", "", job, **files) == ["e.yml:3: `-r requirements.txt` names a file"]
    assert faults(tmp_path, "base: python:3.12", "", job, **files) == [], "the image replaces it"
    found = prepare_run(load_config(None, directory=tmp_path), Host(environ={}), image=False, commit=lambda _: None)
    assert found.plan.job.document["command"] == "python train.py", "a job is followed whose image replaced it"
