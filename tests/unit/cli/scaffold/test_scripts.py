"""How a training script is run: its command, its folder, what it reads and requires."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from aml_train.cli.scaffold.draft import render
from aml_train.cli.scaffold.project import scan, unread
from aml_train.cli.scaffold.proposal import candidates, named
from aml_train.cli.scaffold.scripts import script_of, training_scripts

MAIN = "if __name__ == '__main__':\n    pass\n"


def write(folder: Path, files: Mapping[str, str]) -> None:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


LAYOUTS = {
    "a script": ({"train.py": MAIN}, "train.py", "python train.py", ".", ""),
    "a script in a folder": ({"src/train.py": MAIN}, "src/train.py", "python train.py", "src", ""),
    "modules next to it": ({"src/train.py": "import model\n" + MAIN, "src/model.py": ""}, "src/train.py", "python train.py", "src", ""),
    "a module of a package": (
        {"src/tides/__init__.py": "", "src/tides/train.py": "from tides import model\n" + MAIN, "src/tides/model.py": ""},
        "src/tides/train.py",
        "python -m tides.train",
        "src",
        "",
    ),
    "a relative import": (
        {"tides/__init__.py": "", "tides/train.py": "from . import model\n" + MAIN, "tides/model.py": ""},
        "tides/train.py",
        "python -m tides.train",
        ".",
        "",
    ),
    "a nested package": (
        {"a/__init__.py": "", "a/b/__init__.py": "", "a/b/train.py": "from a.b.c import x\n" + MAIN, "a/b/c.py": ""},
        "a/b/train.py",
        "python -m a.b.train",
        ".",
        "",
    ),
    "a package without __init__": (
        {"src/models/train.py": "from src.data import load\n" + MAIN, "src/data.py": ""},
        "src/models/train.py",
        "python -m src.models.train",
        ".",
        "",
    ),
    "a package that runs": ({"src/tides/__init__.py": "", "src/tides/__main__.py": MAIN}, "src/tides/__main__.py", "python -m tides", "src", ""),
    "a script outside of the package that it uses": (
        {"scripts/train.py": "from tides import model\n" + MAIN, "src/tides/__init__.py": "", "src/tides/model.py": ""},
        "scripts/train.py",
        "python scripts/train.py",
        ".",
        "src",
    ),
    "a file of the project": (
        {"src/train.py": "open('configs/a.yml')\n" + MAIN, "configs/a.yml": ""},
        "src/train.py",
        "python src/train.py",
        ".",
        "",
    ),
    "a file next to it": (
        {"src/train.py": "open('a.csv')\n" + MAIN, "src/a.csv": ""},
        "src/train.py",
        "python train.py",
        "src",
        "",
    ),
    "a file by __file__": (
        {"src/train.py": "from pathlib import Path\nHERE = Path(__file__).resolve().parents[1] / 'data'\nopen(HERE / 'a.csv')\n" + MAIN, "data/a.csv": ""},
        "src/train.py",
        "python src/train.py",
        ".",
        "",
    ),
    "a package that reads a file of the project": (
        {"src/tides/__init__.py": "", "src/tides/train.py": "open('data/a.csv')\n" + MAIN, "data/a.csv": ""},
        "src/tides/train.py",
        "python -m tides.train",
        ".",
        "src",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_command_of_a_layout(tmp_path: Path, name: str) -> None:
    files, path, command, code, python_path = LAYOUTS[name]
    write(tmp_path, files)
    project = scan(tmp_path)
    script = script_of(project, next(file for file in project.scripts if file.path == path))
    assert (script.what, script.code) == (command, code)
    variables = yaml.safe_load(render(script.items)).get("environment_variables", {})
    assert variables.get("PYTHONPATH", "") == python_path


RUNS = [
    ("import pandas as pd\ndata = pd.read_csv('a.csv')\n", True),
    ("for epoch in range(3):\n    print(epoch)\n", True),
    ("model = make()\nmodel.fit([1])\n", True),
    ("import click\n\n@click.command()\ndef main(): ...\n\nif __name__ == '__main__':\n    main()\n", True),
    ("import logging\nlogging.basicConfig()\n\ndef train(): ...\n", False),
    ("RATE = 0.1\n\nclass Trainer: ...\n", False),
]


@pytest.mark.parametrize(("text", "runs"), RUNS)
def test_a_script_does_something_when_it_is_run(tmp_path: Path, text: str, *, runs: bool) -> None:
    write(tmp_path, {"train.py": text})
    assert bool(training_scripts(scan(tmp_path))) is runs


def test_a_script_of_any_name_that_fits_a_model(tmp_path: Path) -> None:
    write(
        tmp_path,
        {"model.py": "model = make()\nmodel.fit([1])\n", "show.py": "print(1)\n", "setup.py": "make().fit()\n"},
    )
    (one,) = candidates(scan(tmp_path))
    assert one.path == "model.py"


def test_the_likeliest_script_is_a_guess(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": MAIN, "train_large.py": MAIN, "main.py": MAIN})
    (one,) = candidates(scan(tmp_path))
    assert one.path == "train.py"
    assert one.notes == (
        "train.py: a guess: it trains by its name; name another with --job: main.py, train_large.py",
    )
    write(tmp_path, {"more/train.py": MAIN})
    assert len(candidates(scan(tmp_path))) == 4


def test_a_file_is_named_by_its_path(tmp_path: Path) -> None:
    write(tmp_path, {"odd.py": "x = 1\n"})
    found = named(scan(tmp_path), "odd.py")
    assert found is not None
    assert found.what == "python odd.py"
    assert named(scan(tmp_path), "none.py") is None


@pytest.mark.parametrize(
    ("notebook", "path"),
    [
        (
            '{"cells": [{"source": ["d = \'src\'\\n", "x = 1"]}, {"source": "%%writefile {d}/a.py\\nx"}]}',
            "nb/src/a.py",
        ),
        ('{"cells": [{"source": "%%writefile -a ./b.py"}, {"source": "%%writefile c.txt"}]}', "nb/b.py"),
        ('{"cells": [{"source": "%%writefile {unknown}/a.py"}]}', "nb/{unknown}/a.py"),
        ('{"cells": [1, {"source": null}]}', None),
        ('{"cells": {}}', None),
        ("{", None),
    ],
)
def test_files_that_a_notebooks_cells_write(tmp_path: Path, notebook: str, path: str | None) -> None:
    write(tmp_path, {"nb/a.ipynb": notebook})
    ((_, line),) = unread(scan(tmp_path))
    assert line.removeprefix("nb/a.ipynb:1: ").startswith(
        f"a cell writes {path}," if path else "a notebook, which is"
    )
    if path is not None:
        write(tmp_path, {path: ""})
        assert "a notebook" in next(iter(unread(scan(tmp_path))))[1]
