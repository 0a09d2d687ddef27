"""The proposed configuration as text with reasons, and the files of ``init``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import yaml

from aml_train.config.yaml.nodes import Mark
from aml_train.core.errors import InvalidError

Value = str | int | float | bool


@dataclass(frozen=True, kw_only=True)
class Item:
    """One key of the configuration.

    Attributes:
        key: its name.
        value: a scalar, a list of scalars, or further keys.
        why: why it was chosen.
        origin: the file and line that it was read from; None for a default.
        proposed: written as a comment, because only the user can decide on it.
    """

    key: str
    value: Value | Sequence[Value] | Sequence[Item]
    why: str = ""
    origin: Mark | None = None
    proposed: bool = False

    @property
    def reason(self) -> str:
        """Origin and reason in one line."""
        where = self.origin.where if self.origin else ""
        return ": ".join(part for part in (where, self.why) if part)


@dataclass(kw_only=True)
class Draft:
    """A proposed configuration.

    Attributes:
        items: the keys, in their order.
        notes: findings that were not used, and points to check.
    """

    items: list[Item] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


HEADER = """\
# A first configuration, written by `aml-train init`. Each guess has its origin as a comment: review them, then run
# `aml-train validate`. docs/configuration.md has every key.
"""


def render(draft: Draft) -> str:
    """Return the text of the configuration; each value that was read or guessed has its reason as a comment."""
    lines = HEADER.splitlines()
    for item in draft.items:
        lines += [f"# {line}" for line in _lines(item)] if item.proposed else _lines(item)
    return "\n".join(lines) + "\n"


def _lines(item: Item, indent: str = "") -> list[str]:
    comment = f"   # {' '.join(item.reason.split())}" if item.reason else ""
    key = f"{indent}{scalar(item.key)}:"
    if isinstance(item.value, str | int | float | bool):
        return [f"{key} {scalar(item.value)}{comment}"]
    found = [f"{key}{comment}"]
    for inner in item.value:
        found += _lines(inner, f"{indent}  ") if isinstance(inner, Item) else [f"{indent}  - {scalar(inner)}"]
    return found


def scalar(value: Value) -> str:
    """Return a scalar as YAML on one line, quoted if YAML would read another type."""
    text: str = yaml.safe_dump(value, default_flow_style=True, width=1_000_000, allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...")


# Writing


def write_files(directory: Path, files: Mapping[str, str], *, force: bool) -> None:
    """Write texts to their paths.

    Args:
        directory: where the paths start from.
        files: texts by path, with ``/``; written in UTF-8, in this order.
        force: replace existing files.

    Raises:
        InvalidError: one of them exists, and *force* is not given: then none is written.
        OSError: a folder or file cannot be written.
    """
    there = [path for path in files if os.path.lexists(directory / path)]
    if there and not force:
        raise InvalidError(
            f"{', '.join(there)} {'exists' if len(there) == 1 else 'exist'} already; nothing was written.",
            hint="Replace with --force, or only look with --dry-run.",
        )
    for path, text in files.items():
        file = directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8", newline="\n")


# The example project and the workflow

_CHECKOUT = "actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1"

_CONFIGURATION = """\
# A first configuration, written by `aml-train init --example`. Try it: aml-train run
job:
  command: python train.py --rate ${{inputs.rate}}
  code: src
  inputs:
    rate: 0.1
  compute: azureml:cpu-cluster   # the name of your cluster; the target `local` needs none
image:
  base: python:3.11-slim-bookworm
  pip: [mlflow-skinny, pytest]
  azureml-mlflow: latest
tests:
  command: pytest -q tests
gate:
  loss: "< 0.01"
model:
  name: example
  path: outputs/model
"""

_TRAIN = '''\
"""Find the minimum of a parabola by gradient descent: the smallest training there is."""

import argparse
import json
from pathlib import Path


def step(x, rate):
    """Return the next x: one step down the slope of (x - 3)²."""
    return x - rate * 2 * (x - 3)


def main():
    import mlflow

    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=float, default=0.1)
    rate = parser.parse_args().rate
    x = 0.0
    for epoch in range(50):
        x = step(x, rate)
        mlflow.log_metric("loss", (x - 3) ** 2, step=epoch)
    model = Path("outputs/model")
    model.mkdir(parents=True, exist_ok=True)
    (model / "model.json").write_text(json.dumps({"x": x}))


if __name__ == "__main__":
    main()
'''

_TESTS = """\
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from train import step


def test_a_step_leads_towards_the_minimum():
    assert abs(step(0.0, 0.1) - 3) < 3
    assert step(3.0, 0.1) == 3.0
"""

EXAMPLE = {"aml-train.yml": _CONFIGURATION, "src/train.py": _TRAIN, "tests/test_train.py": _TESTS}
"""A project that trains in seconds, by path."""

WORKFLOW_PATH = ".github/workflows/train.yml"

_WORKFLOW: Final = f"""\
# Written by `aml-train init --workflow`: train on every push on the local AzureML, without a cloud and without secrets.
# For a workspace in Azure see docs/workflows.md: `target`, `permissions: id-token: write`, and a federated credential.
name: train

on:
  push:
  pull_request:

permissions:
  contents: read

jobs:
  train:
    runs-on: ubuntu-latest
    timeout-minutes: 60
    steps:
      - uses: {_CHECKOUT}
        with:
          fetch-depth: 0
          persist-credentials: false
"""
_UNKNOWN: Final = "OWNER/NAME@v1"
_FILL_IN: Final = (
    "      # Fill in: the repository and the version of aml-train's action. GitHub refuses it as it is.\n"
)


def workflow_text(action: str | None) -> str:
    """Return a workflow that runs the aml-train.yml at the top of the repository.

    Args:
        action: the value of ``uses:``; None leaves it to the user, with a comment that says so.
    """
    step = f"      - uses: {action or _UNKNOWN}\n        with:\n          target: local\n"
    return f"{_WORKFLOW}{'' if action else _FILL_IN}{step}"


def missing_action(text: str) -> str | None:
    """Return the note on a workflow whose action is to be filled in, or None."""
    lines = text.splitlines()
    number = next((at for at, line in enumerate(lines, start=1) if line.endswith(f"uses: {_UNKNOWN}")), None)
    if number is None:
        return None
    return (
        f"{WORKFLOW_PATH}:{number}: fill in the repository and version of aml-train's action in place of {_UNKNOWN}, "
        "or name them with --action: this version of aml-train is not published"
    )
