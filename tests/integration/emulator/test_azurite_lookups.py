"""Azurite's look-ups with the name first: the same answers, by its index."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.emulator_process import ROOT, azurite_modules

SCRIPT = """
const Loki = require(process.argv[1]);
const blobs = new Loki("x").addCollection("blobs", { indices: ["accountName", "containerName", "name", "snapshot"] });
for (let number = 0; number < 400; number++) {
  blobs.insert({ accountName: "a", containerName: `c${number % 4}`, name: `n${number >> 3}`, snapshot: number & 4 ? "" : "s" });
}
const find = Loki.Resultset.prototype.find;
const first = [];
Loki.Resultset.prototype.find = function (query, one) {
  if (!this.filterInitialized && Object.keys(query).length === 1 && !query.$and) first.push(Object.keys(query)[0]);
  return find.call(this, query, one);
};
const queries = [
  { accountName: "a", containerName: "c1", name: "n7", snapshot: "" },
  { accountName: "a", containerName: "c1", name: "n7", snapshot: "s" },
  { accountName: "a", containerName: "c1", name: "nothing", snapshot: "" },
  { accountName: "a", containerName: "c1", name: "n7" },
  { accountName: "a", containerName: "c1", name: { $gt: "n48" }, snapshot: "" },
  { accountName: "b", containerName: "c1", name: "n7" },
  { accountName: "a", snapshot: "s" },
];
const seen = queries.map((query) => [blobs.find(query).map((blob) => blob.$loki), (blobs.findOne(query) || {}).$loki || null]);
console.log(JSON.stringify({ seen, first: [...new Set(first)] }));
"""


def answers(modules: Path, *options: str) -> dict[str, list[object]]:
    """Ask Loki by the name by which Azurite loads it."""
    done = subprocess.run(
        ["node", *options, "-e", SCRIPT, "lokijs"],
        env={"PATH": os.environ["PATH"], "NODE_PATH": str(modules)},
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    value: dict[str, list[object]] = json.loads(done.stdout)
    return value


def test_the_name_comes_first_and_changes_no_answer() -> None:
    modules = azurite_modules()
    if modules is None:
        pytest.skip("this Azurite does not have its modules in a folder")
    plain = answers(modules)
    quick = answers(modules, "--require", str(ROOT / "runner/aml_emulator/processes/azurite_lookups.js"))
    assert quick["seen"] == plain["seen"]
    assert (plain["first"], quick["first"]) == (["accountName"], ["name", "accountName"])
