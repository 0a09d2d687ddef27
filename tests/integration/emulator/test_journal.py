"""The script in Azurite: a kill at any change loses nothing, and no file in use is taken for unused."""

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
const Loki = require("lokijs");
const [file, count, saveAt] = [process.argv[1], Number(process.argv[2]), Number(process.argv[3])];
const one = new Loki(file, { persistenceMethod: "fs", autosave: false });
one.loadDatabase({}, () => {
  const blobs = one.addCollection("$BLOBS$");
  for (const name of ["log", "other"]) blobs.insert({ name, properties: { blobType: "AppendBlob" }, committedBlocksInOrder: [] });
  blobs.insert({ name: "block", properties: { blobType: "BlockBlob" }, committedBlocksInOrder: [{ name: "a" }, { name: "b" }] });
  const step = (number) => {
    if (number === count) { console.log("{}"); process.exit(0); }
    const log = blobs.findOne({ name: number % 10 ? "log" : "other" });
    log.committedBlocksInOrder.push({ number, persistency: { id: "0123456789abcdef", offset: number * 100, count: 100 } });
    blobs.update(log);
    if (number === 5) {
      const block = blobs.findOne({ name: "block" });
      block.committedBlocksInOrder = [{ name: "c" }];
      blobs.update(block);
    }
    if (number === saveAt) one.saveDatabase(() => step(number + 1));
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


# Blobs of one block each, in their containers by name; printed is how many of the blocks' files Azurite finds in use.
REFERRED = """
const [store, iterator] = process.argv.slice(1);
const list = async (names) => {
  const metadata = new (require(store).default)("x", true);
  await metadata.init();
  const blobs = metadata.db.getCollection(metadata.BLOBS_COLLECTION);
  for (const [number, name] of names.entries()) {
    blobs.insert({
      accountName: "a", containerName: `c${number}`, name, snapshot: "", isCommitted: true, properties: {},
      committedBlocksInOrder: [{ persistency: { id: `file-${number}` } }],
    });
  }
  const found = [];
  const iterate = new (require(iterator).default)(metadata);
  for (let page = await iterate.next(); !page.done; page = await iterate.next()) found.push(...page.value);
  return [names.length, new Set(found).size, found.length];
};
const blobs = (count, name) => Array.from({ length: count }, (_, number) => name(number));
const all = async () => console.log(JSON.stringify([
  await list(blobs(12_000, () => "train.py")),
  await list(blobs(12_000, (number) => `n${String(Math.floor(number / 7)).padStart(5, "0")}`)),
  await list(blobs(12_000, (number) => `n${number}`)),
  await list(blobs(5_000, () => "train.py")),
  await list(blobs(5_001, (number) => (number === 5_000 ? "z" : "train.py"))),
  await list([]),
]));
all().then(() => process.exit(0));
"""


@pytest.mark.parametrize("save_at", [-1, 0, 3, 7, 28])
def test_a_kill_after_any_save_loses_no_block(save_at: int, tmp_path: Path) -> None:
    _node(tmp_path, WRITE, "db.json", "30", str(save_at))
    found = _node(tmp_path, READ, "db.json")
    assert [one["number"] for one in found["log"]] == [number for number in range(30) if number % 10]
    assert [one["number"] for one in found["other"]] == [0, 10, 20]
    assert [one["name"] for one in found["block"]] == ["c"]


def test_the_file_of_every_blob_is_found_whatever_the_names(tmp_path: Path) -> None:
    """A file that is not found is removed. Containers of code have blobs of the same names, and a page has 5,000 blobs."""
    parts = ("LokiBlobMetadataStore", "BlobReferredExtentsAsyncIterator")
    seen = _node(tmp_path, REFERRED, *(f"azurite/dist/src/blob/persistence/{part}" for part in parts))
    assert [files for _, files, _ in seen] == [12_000, 12_000, 12_000, 5_000, 5_001, 0]
    assert [files for _, files, _ in seen] == [answered for _, _, answered in seen]  # none twice
