"""Which command lines run pytest, and of which the exit status is pytest's own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aml_train.image.testing.pytest_command import ends_as_pytest, runs_pytest


@pytest.mark.parametrize(
    ("command", "runs", "ends"),
    [
        ("pytest", True, True),
        ("pytest -q tests", True, True),
        ("python -m pytest -q tests", True, True),
        ("PYTHONPATH=src /opt/conda/bin/py.test -x", True, True),
        ("pytest-3 tests", True, True),
        ("cd sub && pytest -q", True, True),
        ("coverage run -m pytest && coverage report", True, False),
        ("poetry run pytest", True, True),
        ("conda run -n env pytest", True, True),
        ("timeout 60 pytest -q", True, True),
        ("exec pytest", True, True),
        ("pytest; true", True, False),
        ("pytest ;", True, False),
        ("pytest || true", True, False),
        ("pytest | tee log", True, False),
        ("! pytest", True, False),
        ("pytest &", True, False),
        ("pytest > log 2>&1", True, True),
        ("pytest\ntrue", True, False),
        ("true\npytest", True, False),
        ("pytest \\\n  -q", True, True),
        ("if ! pytest; then exit 1; fi", True, False),
        ('bash -lc "cd x && pytest -q"', True, False),
        ("(cd x; pytest)", True, False),
        ("make test", False, False),
        ("./run.sh", False, False),
        ("python -m unittest", False, False),
        ("pip install pytest && python -m unittest", False, False),
        ("echo pytest", False, False),
        ("command -v pytest", False, False),
        ("cd tests/pytest && ./run.sh", False, False),
        ("python run.py --suite pytest", False, False),
        ("./pytest_like.sh", False, False),
        ("pytest 'unclosed", True, True),
        ("", False, False),
        ("; ;", False, False),
    ],
)
def test_a_command_line(command: str, runs: bool, ends: bool) -> None:
    assert (runs_pytest(command), ends_as_pytest(command)) == (runs, ends)


@given(st.text(alphabet=" \n;&|()<>\"'\\$#=-cmpytest./", max_size=60))
def test_any_text_is_read(text: str) -> None:
    assert runs_pytest(text) >= ends_as_pytest(text)
