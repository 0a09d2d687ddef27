"""Project files that are no part of the job's code, though they are in its folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from aml_train.config.load import load_config
from aml_train.config.model import Config
from aml_train.config.sections.image import DockerfileConfig
from aml_train.core.errors import InvalidError
from aml_train.core.file_selection import FileId
from aml_train.image.collect import collect_context, unresolved_base
from aml_train.pipeline import prepare
from aml_train.pipeline.project_name import folder_project
from aml_train.pipeline.resolve import Resolved, Surroundings, resolve
from aml_train.pipeline.run_files import own_output
from aml_train.pipeline.target import Host
from tests.support.base_lookup import Bases

JOB = "command: python train.py\ncode: .\nenvironment: azureml:e:1\n"
CONFIG = "job: job.yml\ngate: {accuracy: '>= 0.9'}\n"


def _project(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in {"job.yml": JOB, "aml-train.yml": CONFIG, "train.py": "pass", **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def _resolved(config: Config, own: frozenset[FileId] = frozenset()) -> Resolved:
    return resolve(
        config,
        Surroundings(platform="linux/amd64", lookup=Bases(unresolved_base), commit=lambda _: None, own=own),
    )


def _sent(config: Config) -> list[str]:
    found = _resolved(config)
    assert found.code is not None
    return [entry.path for entry in found.code.entries]


def _digest(project: Path) -> str | None:
    return _resolved(load_config(None, directory=project)).code_digest


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("aml-train.yml", CONFIG.replace("0.9", "0.95")),
        ("aml-train.yml", CONFIG + "model: {name: m, path: outputs/m}\npromote: {production: {from: [staging]}}\n"),
        ("aml-train.yml", f"# A comment.\n{CONFIG}"),
        ("job.yml", f"# A comment.\n{JOB}display_name: again\n"),
        (".github/workflows/train.yml", "on: push\n"),
    ],
)
def test_what_changes_nothing_of_the_job_is_no_other_code(tmp_path: Path, file: str, text: str) -> None:
    before = _digest(_project(tmp_path, {}))
    assert _digest(_project(tmp_path, {file: text})) == before
    assert _digest(_project(tmp_path, {"train.py": "print()"})) != before


@pytest.mark.parametrize(
    ("files", "sent"),
    [
        ({}, ["train.py"]),
        (
            {"aml-train.yml": f"{CONFIG}baseline: {{file: gate/baseline.json}}\n", "gate/baseline.json": "{}"},
            ["train.py"],
        ),
        (
            {
                "aml-train.yml": "job: job.yml\nimage: {dockerfile: docker/Dockerfile}\n",
                "docker/Dockerfile": "FROM x",
                "docker/Dockerfile.dockerignore": "",
                "docker/entry.sh": "",
            },
            ["docker/entry.sh", "train.py"],
        ),
        # Files that the image is made of may be read by the job, too: MLflow records it with a model.
        (
            {"aml-train.yml": "job: job.yml\nimage: {base: x, pip: r.txt}\n", "r.txt": ""},
            ["r.txt", "train.py"],
        ),
        # The job's own file, by its name.
        ({"job.yml": JOB.replace("train.py", "train.py --config job.yml")}, ["job.yml", "train.py"]),
        ({"aml-train.yml": f"{CONFIG}setup: [cat aml-train.yml]\n"}, ["aml-train.yml", "train.py"]),
        (
            {"job.yml": f"{JOB}environment_variables: {{BASELINE: b.json}}\n", "b.json": "{}",
             "aml-train.yml": f"{CONFIG}baseline: {{file: b.json}}\n"},
            ["b.json", "train.py"],
        ),
        ({"aml-train.yml": f"{CONFIG}code: {{include: [/aml-train.yml, .github/]}}\n", ".github/x.yml": ""},
         [".github/x.yml", "aml-train.yml", "train.py"]),
        # Names that only look alike.
        ({"lib/job.yml": "", "lib/.github": "", "aml-train.yml.txt": ""},
         ["aml-train.yml.txt", "lib/.github", "lib/job.yml", "train.py"]),
    ],
)  # fmt: skip
def test_what_is_sent(tmp_path: Path, files: dict[str, str], sent: list[str]) -> None:
    assert _sent(load_config(None, directory=_project(tmp_path, files))) == sent


def test_the_log_of_the_run_belongs_to_neither_code_nor_tests_nor_image(tmp_path: Path) -> None:
    config = "job: job.yml\nimage: {dockerfile: Dockerfile}\ntests: {command: pytest}\n"
    project = _project(tmp_path, {"aml-train.yml": config, "Dockerfile": "FROM x", "run.log": "", "record.json": ""})
    own = own_output(project / "run.log", project / "record.json", project / "absent")
    found = _resolved(load_config(None, directory=project), own)
    assert found.code is not None
    image = found.images[""]
    assert image.test_files is not None
    for files in (found.code, image.test_files, image.inputs.trees[""]):
        paths = [entry.path for entry in files.entries]
        assert "train.py" in paths
        assert not {"run.log", "record.json"} & set(paths)


IMAGES = ("{base: x, copy: [{from: ., to: /p}]}", "{dockerfile: Dockerfile}")


@pytest.mark.parametrize("image", IMAGES)
def test_secrets_of_the_configuration_are_sent_nowhere(
    tmp_path: Path, image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under whatever name, and though the job mentions the file."""
    config = f"job: job.yml\nimage: {image}\ntests: {{command: pytest, files: ['**']}}\npassport: {{key: link.txt}}\n"
    files = {"real/key.txt": "2"}
    job = JOB.replace("train.py", "train.py link.txt")
    project = _project(tmp_path, {"aml-train.yml": config, "job.yml": job, "Dockerfile": "FROM x", **files})
    (project / "link.txt").symlink_to("real/key.txt")
    (project / "hard.txt").hardlink_to(project / "real/key.txt")
    loaded = load_config(None, directory=project)
    monkeypatch.setattr(prepare, "_lookup", lambda *_: Bases(unresolved_base))
    monkeypatch.setattr(prepare, "read_project", lambda *_, **__: folder_project(project))
    monkeypatch.setattr(Host, "place", lambda *_: SimpleNamespace(platform=lambda: "linux/amd64"))
    plan = prepare.prepare_run(loaded, Host(environ={}), commit=lambda _: None).plan
    assert plan.image is not None
    assert plan.job.code is not None
    assert plan.tests is not None
    (context,) = plan.image.trees.values()
    for sent in (plan.job.code, plan.tests.files, context):
        paths = {entry.path for entry in sent.entries if entry.link is None}
        assert "train.py" in paths
        assert not paths & {*files, "link.txt", "hard.txt"}
    assert "Left out as secrets: link.txt." in plan.notices


@pytest.mark.parametrize(("line", "number"), [("[z-a]", 2), ("a/[z-a]/b", 2)])
def test_a_dockerignore_that_docker_refuses(tmp_path: Path, line: str, number: int) -> None:
    (tmp_path / ".dockerignore").write_text(f"# A comment.\n{line}\n")
    config = DockerfileConfig(file=tmp_path / "Dockerfile", context=tmp_path)
    with pytest.raises(InvalidError, match=rf"\.dockerignore:{number}: `.*` is no pattern: bad character range"):
        collect_context(config)
