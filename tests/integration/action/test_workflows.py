"""The metadata that GitHub reads, by the linters made for it. All of them work offline."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from aml_train.cli.init import workflow_text as first_workflow

ROOT = Path(__file__).parents[3]
WORKFLOWS = sorted(
    [*(ROOT / ".github/workflows").glob("*.yml"), *(ROOT / "examples").glob("*/.github/workflows/*.yml")]
)


def check(tool: str, *arguments: str) -> None:
    done = subprocess.run(
        [str(Path(sys.executable).with_name(tool)), *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_there_are_workflows() -> None:
    assert len(WORKFLOWS) >= 4


#: Each tool's arguments before the workflows. They begin once for all of them, and name the file of what they find.
TOOLS = {
    "check-jsonschema": ("--builtin-schema", "vendor.github-workflows"),
    "actionlint": ("-config-file", ".github/actionlint.yaml"),
    "zizmor": ("--offline", "--quiet", "--config", ".github/zizmor.yml"),
}


@pytest.mark.parametrize("tool", TOOLS)
def test_workflows_are_sound(tool: str) -> None:
    check(tool, *TOOLS[tool], *map(str, WORKFLOWS))


DOCUMENTED = [
    text
    for page in sorted((ROOT / "docs").glob("*.md"))
    for text in re.findall(r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), re.S)
    if "\njobs:\n" in text
]


def test_there_are_documented_workflows() -> None:
    assert len(DOCUMENTED) >= 9


@pytest.mark.full
@pytest.mark.parametrize("tool", TOOLS)
def test_documented_workflows_are_sound(tool: str, tmp_path: Path) -> None:
    folder = tmp_path / ".github/workflows"
    folder.mkdir(parents=True)
    workflows = [folder / f"documented-{number}.yml" for number in range(len(DOCUMENTED) + 1)]
    for workflow, text in zip(workflows, [*DOCUMENTED, first_workflow("org/aml-train@v1")], strict=True):
        workflow.write_text(text)
    check(tool, *TOOLS[tool], *map(str, workflows))


def test_the_actions_metadata_is_sound() -> None:
    check("check-jsonschema", "--builtin-schema", "vendor.github-actions", "action.yml")


@pytest.mark.parametrize("dockerfile", ["Dockerfile", "runner/aml_emulator/Dockerfile"])
def test_a_dockerfile_is_sound(dockerfile: str) -> None:
    check("hadolint", dockerfile)
