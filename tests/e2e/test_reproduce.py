"""The example's training, repeated from its lineage alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.conftest import Local


@pytest.mark.full
def test_the_example_is_identical(local: Local, digits: Path) -> None:
    ended = local.run(digits)
    assert ended.code == 0, ended.output
    model = ended.only("model-registered")
    address = f"{model['model']}:{model['version']}"
    planned = json.loads(local.command("model", "reproduce", address, "-C", str(digits), "--plan", "--json"))
    assert (planned["model"], planned["gone"]) == (address, [])
    found = json.loads(local.command("model", "reproduce", address, "-C", str(digits), "--json"))
    assert (found["state"], found["metrics"], found["files"]) == ("identical", [], [])
