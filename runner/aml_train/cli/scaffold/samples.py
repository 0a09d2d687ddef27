"""What is written where there is nothing to begin with, and the workflow."""

from __future__ import annotations

CHECKOUT = "actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683 # v4.2.2"

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

WORKFLOW = f"""\
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
      - uses: {CHECKOUT}
        with:
          persist-credentials: false
      - uses: org/aml-train@v1
        with:
          target: local
"""
"""A workflow; it reads aml-train.yml at the top of the repository."""
