"""Projects for the tests of the configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.config.good_jobs import good_jobs, write_job_folder


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "good_job" in metafunc.fixturenames:
        jobs = good_jobs()
        metafunc.parametrize("good_job", jobs.values(), ids=jobs.keys())


@pytest.fixture
def job_folder(tmp_path: Path) -> Path:
    """A folder with the files that the jobs of good_jobs.txt name."""
    folder = tmp_path / "My Project"
    write_job_folder(folder)
    return folder
