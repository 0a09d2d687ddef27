"""The arguments and files that act gets."""

from __future__ import annotations

import re
from pathlib import Path

from scripts.act_demo import ACTION_PARTS, ROOT, act_command, export_action, rename_workflows


def test_the_command_maps_the_action_and_pulls_nothing(tmp_path: Path) -> None:
    command = act_command(tmp_path, {"B": "2", "A": "1"}, act="act", action=Path("/the/action"), variables={"V": "3"})
    assert command[:2] == ["act", "push"]
    assert "--pull=false" in command
    assert command[command.index("--local-repository") + 1] == "org/aml-train@v1=/the/action"
    assert command[-6:] == ["--env", "A=1", "--env", "B=2", "--var", "V=3"]


def test_everything_that_the_action_is_built_from_is_exported_and_little_else(tmp_path: Path) -> None:
    exported = export_action(tmp_path)
    assert sorted(path.name for path in exported.iterdir()) == sorted(ACTION_PARTS)
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    for source in re.findall(r"^COPY (?!--from)(\S+)", dockerfile, re.M):
        assert (exported / source).exists(), source
    assert not list(exported.rglob("__pycache__"))


def test_workflows_get_a_name_of_their_project(tmp_path: Path) -> None:
    folder = tmp_path / ".github" / "workflows"
    folder.mkdir(parents=True)
    texts = {
        "plain.yml": (
            "# ours\nname: pull request\non: push\njobs: {}\n",
            "# ours\nname: pull request ab12\non: push\njobs: {}\n",
        ),
        "quoted.yaml": ("name: 'train'\non: push\n", "name: 'train ab12'\non: push\n"),
        "none.yml": (
            "on: push\njobs:\n  one:\n    name: inner\n",
            "name: none ab12\non: push\njobs:\n  one:\n    name: inner\n",
        ),
    }
    for name, (before, _) in texts.items():
        (folder / name).write_text(before, encoding="utf-8")
    rename_workflows(tmp_path, "ab12")
    for name, (_, after) in texts.items():
        assert (folder / name).read_text(encoding="utf-8") == after, name
