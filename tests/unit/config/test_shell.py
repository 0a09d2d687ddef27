"""The commands whose failure a shell loses."""

from __future__ import annotations

from pathlib import Path

import pytest

from aml_train.config.load import load_config

PIPE = "python train.py | tee log.txt"


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
    command: "python a.py\\n\\npython b.py"
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
        (f"job:\n  command: |\n    python a.py \\\n      --x 1\n{CODE}", []),
        (f"job:\n  command: |\n    python a.py || exit 1\n    python b.py\n{CODE}", []),
        (f'job:\n  command: |\n    python -c "import a; a.main()"\n{CODE}', []),
        (f"job:\n  command: |\n    python -c 'import a\n    a.main()'\n{CODE}", []),
        (f"job:\n  command: 'for x in 1 2; do python a.py; done'\n{CODE}", []),
        (f"job:\n  command: |\n    # first\n    echo x\n    export A=b\n    python a.py\n{CODE}", []),
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
