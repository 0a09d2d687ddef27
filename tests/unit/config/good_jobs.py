"""The jobs of good_jobs.txt, and the files that they name."""

from __future__ import annotations

import re
from pathlib import Path

GOOD_JOBS = Path(__file__).with_name("good_jobs.txt")


def good_jobs() -> dict[str, str]:
    """Read good_jobs.txt: name → YAML."""
    sections = re.split(r"(?m)^=== ", GOOD_JOBS.read_text(encoding="utf-8"))[1:]
    return {section.partition("\n")[0]: section.partition("\n")[2] for section in sections}


def write_job_folder(folder: Path) -> None:
    """Write the files that the jobs of good_jobs.txt name."""
    for name, text in {
        "src/train.py": "print('hello')\n",
        "data.csv": "1,2\n",
        "table/MLTable": "paths: []\n",
        "environment.yml": "name: mine\nimage: python:3.11\nconda_file: conda.yml\n",
        "conda.yml": "dependencies: [python=3.11]\n",
        "context/Dockerfile": "FROM python:3.11\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
