"""The commands whose failure a shell loses."""

from __future__ import annotations

from pathlib import Path

import pytest

from aml_train.config.load import load_config
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


LOST = "a failure of `{}` is lost, because {}: {}"
LINE, LAST = (
    "the commands after it run, and the last one's status decides",
    "a pipe's status is that of its last command",
)
CODE = "  code: src\n  compute: azureml:c\n"
SWEEP = """\
job:
  type: sweep
  trial:
    command: python a.py; python b.py
    code: src
  compute: azureml:c
  sampling_algorithm: random
  objective: {primary_metric: a, goal: maximize}
  search_space: {x: {type: choice, values: [1]}}
  limits: {max_total_trials: 1}
"""


@pytest.mark.parametrize(
    ("text", "notices"),
    [
        (
            f"job:\n  command: |\n    pip install x\n\n    {PIPE}\n{CODE}",
            [
                ("aml-train.yml:3", "pip install x", LINE, "write `set -e` as its first line"),
                ("aml-train.yml:5", "python train.py", LAST, "write `set -o pipefail` as its first line"),
            ],
        ),
        (f"job:\n  command: |\n    set -eo pipefail\n    python a.py\n    {PIPE}\n{CODE}", []),
        (SWEEP, [("aml-train.yml:4", "python a.py", LINE, "write `set -e` as its first line")]),
        (f"job:\n  command: a\n{CODE}tests: {{command: './a.sh; pytest | tee log'}}\n", []),
        (
            f"job:\n  command: a\n{CODE}tests: {{command: './a.sh; ./b.sh | tee log', shell: sh, evidence: exit-code}}\n",
            [
                ("aml-train.yml:5", "./a.sh", LINE, "set `tests.shell`, such as to `bash -eo pipefail`"),
                ("aml-train.yml:5", "./b.sh", LAST, "set `tests.shell`, such as to `bash -eo pipefail`"),
            ],
        ),
    ],
)
def test_lost_failures_are_noted_with_place_and_remedy(
    tmp_path: Path, text: str, notices: list[tuple[str, ...]]
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "aml-train.yml").write_text(f"{text}image: {{base: python}}\n")
    assert load_config(None, directory=tmp_path).notices == tuple(
        f"{where}: {LOST.format(*others)}" for where, *others in notices
    )
