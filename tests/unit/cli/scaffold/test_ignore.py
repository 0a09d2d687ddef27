"""The .amlignore that `aml-train init` writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from aml_train import __main__
from aml_train.config.load import load_config
from aml_train.core.files import FileSet

JOB = """\
$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json
command: python train.py
code: {code}
environment: azureml:e:1
compute: azureml:gpu
"""
FILES = {
    "train.py": "print()",
    "docs/index.md": "",
    "README.md": "",
    "tests/test_train.py": "def test_it(): pass",
    "notebooks/look.ipynb": "{}",
    "lib/deep/try.ipynb": "{}",
    "lib/tests.py": "",
}

Init = Callable[..., tuple[int, str, str]]


@pytest.fixture
def init(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Init:
    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["aml-train", "init", *arguments])
        code = __main__.run_command_line()
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def _project(folder: Path, files: Mapping[str, str], code: str = ".") -> Path:
    for name, text in {"job.yml": JOB.format(code=code), **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def _sent(folder: Path) -> list[str]:
    return [
        entry.path for entry in FileSet.collect_code(folder).entries if not entry.path.endswith(("yml", "ignore"))
    ]


def test_documentation_tests_and_notebooks_are_left_out(tmp_path: Path, init: Init) -> None:
    project = _project(tmp_path, {**FILES, ".gitignore": "*.log\n/data/\n", "run.log": "", "data/x.csv": ""})
    (project / "train.log").touch()
    (project / ".gitignore").write_text("/run.log\n/data/\n")
    code, _, said = init("-C", str(project))
    assert code == 0
    assert ".amlignore: /*.log (logs, which differ after each run)" in said
    assert "wrote aml-train.yml, .amlignore" in said
    for line in ("/docs/ (documentation)", "/tests/ (tests, which run before the job)", "/notebooks/ (notebooks)"):
        assert f".amlignore: {line}" in said
    assert ".amlignore: *.ipynb (notebooks, which change whenever they are run)" in said
    # What .gitignore leaves out stays out, though AzureML reads .amlignore in its place.
    assert _sent(project) == ["lib/tests.py", "train.py"]
    load_config(None, directory=project)


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_one_that_is_there_stays(tmp_path: Path, init: Init, force: tuple[str, ...]) -> None:
    project = _project(tmp_path, {**FILES, ".amlignore": "# mine\n"})
    code, _, said = init("-C", str(project), *force)
    assert (code, ".amlignore" in said) == (0, False)
    assert (project / ".amlignore").read_text() == "# mine\n"


@pytest.mark.parametrize(
    ("changes", "sent"),
    [
        ({"train.py": "open('docs/corpus.md')"}, ["README.md", "docs/index.md", "lib/tests.py", "train.py"]),
        ({"train.py": "from tests import helpers"}, ["lib/tests.py", "tests/test_train.py", "train.py"]),
        ({"train.py": "papermill('lib/deep/try.ipynb')"}, ["lib/deep/try.ipynb", "lib/tests.py", "train.py"]),
        ({"train.py": "subprocess.run('pip install .', shell=True)"}, ["README.md", "lib/tests.py", "train.py"]),
    ],
)
def test_what_the_project_mentions_stays_in(
    tmp_path: Path, init: Init, changes: dict[str, str], sent: list[str]
) -> None:
    project = _project(tmp_path, {**FILES, **changes})
    assert init("-C", str(project))[0] == 0
    assert _sent(project) == sent


def test_it_lies_in_the_folder_of_the_code(tmp_path: Path, init: Init) -> None:
    project = _project(tmp_path, {f"src/{name}": text for name, text in FILES.items()}, code="src")
    assert init("-C", str(project))[0] == 0
    assert (project / "src/.amlignore").is_file()
    assert not (project / ".amlignore").exists()


@pytest.mark.parametrize("files", [{"train.py": ""}, {"train.py": "", ".gitignore": "\xff", "docs/x": ""}])
def test_none_is_written_for_nothing(tmp_path: Path, init: Init, files: dict[str, str]) -> None:
    project = _project(tmp_path, {})
    for name, text in files.items():
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_bytes(text.encode("latin-1"))
    code, _, said = init("-C", str(project))
    assert code == 0, said
    assert not (project / ".amlignore").exists()


def test_a_dry_run_shows_it_and_writes_nothing(tmp_path: Path, init: Init) -> None:
    project = _project(tmp_path, FILES)
    _, shown, _ = init("-C", str(project), "--dry-run")
    assert "# .amlignore\n" in shown
    assert "/docs/\n" in shown
    assert not (project / ".amlignore").exists()
