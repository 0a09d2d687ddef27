"""The commands whose failure a shell loses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aml_train.config.shell import lost_failures

PIPE = "python train.py | tee log.txt"


@pytest.mark.parametrize(
    ("command", "shell", "lost"),
    [
        ("python prep.py\npython train.py\n", "", [("line", "python prep.py")]),
        ("pip install -r 'a\nb'\n\npython train.py", "", [("line", "pip install -r 'a\nb'")]),
        ("python prep.py; python train.py", "", [("line", "python prep.py")]),
        ("cd src && A=1 python prep.py\npython train.py", "", [("line", "cd src && A=1 python prep.py")]),
        ("for x in 1 2; do\n  python train.py $x\ndone", "", [("line", "python train.py $x")]),
        ("if test -e x; then python prep.py; fi\npython train.py", "", [("line", "python prep.py")]),
        ("python a.py  # first\nset -e\npython b.py\npython c.py", "", [("line", "python a.py")]),
        (PIPE, "", [("pipe", "python train.py")]),
        (f"set -e\n{PIPE}", "", [("pipe", "python train.py")]),
        ("cat x | python train.py 2>&1 |& tee log", "", [("pipe", "python train.py 2>&1")]),
        (f"python prep.py\n{PIPE}", "bash -e", [("pipe", "python train.py")]),
        ("python train.py", "", []),
        ("python prep.py && python train.py", "", []),
        ("python prep.py &&\n  python train.py \\\n  --rate 1\n", "", []),
        ("python prep.py || exit 1\npython train.py", "", []),
        ("set -e\npython prep.py\npython train.py", "", []),
        ("set -euo pipefail\npython prep.py\npython train.py | tee log", "", []),
        ("set -o errexit; python prep.py; python train.py", "", []),
        ("set +e\npython prep.py\npython train.py", "", []),
        ("python prep.py\npython train.py | tee log", "bash -eo pipefail", []),
        ('bash -ec "python prep.py\npython train.py"', "", []),
        ("export A=b\nX=$(nproc; true)\n# python prep.py\necho x; python train.py ${{inputs.a}}", "", []),
        ("cat x | python train.py", "", []),
        ("if python check.py; then python a.py; else python b.py; fi", "", []),
        ("while ! nc -z host 1; do sleep 1; done", "", []),
        ("python server.py & python train.py", "", []),
        ("cat <<EOF > x\na\nb\nEOF\npython train.py", "", []),
        ("case $X in\n  a) python a.py ;;\nesac\npython b.py", "", []),
        ("", "", []),
    ],
)
def test_lost_failures(command: str, shell: str, lost: list[tuple[str, str]]) -> None:
    assert list(lost_failures(command, shell)) == lost


@given(st.text(alphabet=" \n;&|()<>\"'\\$#=-{}`acdefinorst./", max_size=60))
def test_any_text_is_read(text: str) -> None:
    assert all(found in text and found.strip() for _, found in lost_failures(text))
