"""The journal of Azurite's metadata: what it costs to append to a log, and that a kill at any change loses nothing."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.emulator_process import ROOT, azurite_modules

JOURNAL = ROOT / "runner/aml_emulator/processes/azurite_journal.js"
#: Changes a database as Azurite does, and ends without saving it again, as a kill does.
WRITE = """
const Loki = require("lokijs"), fs = require("fs");
const [file, count, saveAt] = [process.argv[1], Number(process.argv[2]), Number(process.argv[3])];
const one = new Loki(file, { persistenceMethod: "fs", autosave: false });
one.loadDatabase({}, () => {
  const blobs = one.addCollection("$BLOBS$");
  let size = 0;
  for (const name of ["log", "other"]) blobs.insert({ name, properties: { blobType: "AppendBlob" }, committedBlocksInOrder: [] });
  blobs.insert({ name: "block", properties: { blobType: "BlockBlob" }, committedBlocksInOrder: [{ name: "a" }, { name: "b" }] });
  const step = (number) => {
    if (number === count) { console.log(JSON.stringify({ size })); process.exit(0); }
    const log = blobs.findOne({ name: number % 10 ? "log" : "other" });
    log.committedBlocksInOrder.push({ number, persistency: { id: "0123456789abcdef", offset: number * 100, count: 100 } });
    blobs.update(log);
    if (number === 5) {
      const block = blobs.findOne({ name: "block" });
      block.committedBlocksInOrder = [{ name: "c" }];
      blobs.update(block);
    }
    if (number === count - 1) {
      setImmediate(() => {
        for (const name of fs.readdirSync(".")) if (name.includes(".journal.")) size += fs.statSync(name).size;
        step(number + 1);
      });
    } else if (number === saveAt) one.saveDatabase(() => step(number + 1));
    else setImmediate(() => step(number + 1));
  };
  step(0);
});
"""
READ = """
const Loki = require("lokijs");
const one = new Loki(process.argv[1], { persistenceMethod: "fs", autosave: false });
one.loadDatabase({}, () => {
  const found = {};
  for (const blob of one.getCollection("$BLOBS$").find()) found[blob.name] = blob.committedBlocksInOrder;
  console.log(JSON.stringify(found));
});
"""


def _node(folder: Path, program: str, *arguments: str) -> Any:
    modules = azurite_modules()
    if modules is None:
        pytest.skip("this Azurite does not have its modules in a folder")
    done = subprocess.run(
        ["node", "--require", str(JOURNAL), "--eval", program, "--", *arguments],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "NODE_PATH": str(modules)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("save_at", [-1, 0, 3, 7, 28])
def test_a_kill_after_any_save_loses_no_block(save_at: int, tmp_path: Path) -> None:
    _node(tmp_path, WRITE, "db.json", "30", str(save_at))
    found = _node(tmp_path, READ, "db.json")
    assert [one["number"] for one in found["log"]] == [number for number in range(30) if number % 10]
    assert [one["number"] for one in found["other"]] == [0, 10, 20]
    assert [one["name"] for one in found["block"]] == ["c"]


def test_an_append_costs_as_much_at_the_end_of_a_log_as_at_its_beginning(tmp_path: Path) -> None:
    sizes = []
    for count in (500, 2000):
        folder = tmp_path / str(count)
        folder.mkdir()
        sizes.append(_node(folder, WRITE, "db.json", str(count), "-1")["size"])
    assert sizes[1] < 5 * sizes[0]
