"""`make clean` on an engine whose images are built on one another."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

import pytest

from scripts.clean import LABELS, remove_all

IMAGES = ("image", "ls", "--all", "--quiet"), ("image", "rm", "--force")
VOLUMES = ("volume", "ls", "--quiet"), ("volume", "rm")


class Engine:
    """An engine's objects: the label of each, the parent that it needs, and those that are in use."""

    def __init__(self, labels: dict[str, str], *, parents: dict[str, str] | None = None, used: str = "") -> None:
        self.labels, self.parents, self.used = dict(labels), parents or {}, used
        self.removals = 0

    def __call__(self, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
        if "--filter" in arguments:
            label = arguments[-1].removeprefix("label=")
            # Docker lists an image once for each of its names.
            found = [name for name, has in self.labels.items() if has == label for _ in range(2)]
            return subprocess.CompletedProcess(arguments, 0, "\n".join(found), "")
        self.removals += 1
        refused = []
        for name in arguments:
            if name in self.labels and (name in self.parents.values() or name == self.used):
                refused.append(f"conflict: unable to delete {name}")
            elif name in self.labels:
                del self.labels[name]
                self.parents.pop(name, None)
        return subprocess.CompletedProcess(arguments, 1 if refused else 0, "", "\n".join(refused))


def test_images_go_from_the_last_to_the_first_and_others_stay() -> None:
    names = [f"i{number}" for number in range(5)]
    engine = Engine(
        {**dict.fromkeys(names, "org.aml-train.owner"), "other": "org.other"},
        parents=dict(zip(names[1:], names, strict=False)),
    )
    assert remove_all(engine, *IMAGES)
    assert engine.labels == {"other": "org.other"}


def test_what_is_in_use_is_named_and_the_rest_goes(capsys: pytest.CaptureFixture[str]) -> None:
    engine = Engine(dict.fromkeys(("a", "b"), "org.aml-train.emulator.name"), used="b")
    assert not remove_all(engine, *VOLUMES)
    assert (set(engine.labels), engine.removals) == ({"b"}, 2)
    assert "1 x volume cannot be removed:\nconflict: unable to delete b" in capsys.readouterr().err


def test_volumes_of_the_local_azureml_have_a_label_of_ours() -> None:
    from aml_train.local.container import NAME_LABEL

    assert NAME_LABEL in LABELS
