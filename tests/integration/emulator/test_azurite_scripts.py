"""The scripts that are loaded into Azurite: what changes in its own modules, and what does not."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.emulator_process import ROOT, azurite_modules

LOOKUPS = """
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
EXTENTS = """
const [folder, store] = process.argv.slice(1);
const FSExtentStore = require(store).default;
const none = () => {};
const logger = { info: none, verbose: none, debug: none, warn: none, error: none };
const metadata = { isInitialized: () => true, updateExtent: async () => {} };
const place = { locationId: "Default", locationPath: folder, maxConcurrency: 1 };
const append = async () => {
  const extents = new FSExtentStore(metadata, [place], logger);
  await extents.init();
  const chunks = [];
  for (const mebibytes of [3, 2, 9, 1]) chunks.push(await extents.appendExtent(Buffer.alloc(mebibytes * 2 ** 20)));
  const files = [...new Set(chunks.map((chunk) => chunk.id))];
  console.log(JSON.stringify(chunks.map((chunk) => [files.indexOf(chunk.id), chunk.offset / 2 ** 20, chunk.count / 2 ** 20])));
};
append().then(() => process.exit(0));
"""
REMOVED = """
const [extents, manager] = process.argv.slice(1);
const none = () => {};
const list = async (times) => {
  const store = new (require(extents).default)("x", true);
  await store.init();
  for (const [id, seconds] of [["old", 601], ["recent", 61], ["new", 59]]) {
    const extent = () => ({ id, locationId: "Default", path: id, size: 1, lastModifiedInMS: Date.now() - seconds * 1000 });
    for (let written = 0; written < times; written++) await store.updateExtent(extent());
  }
  return (await store.iteratorExtents().next()).value;
};
const all = async () => {
  const every = new (require(manager).default)({}, {}, {}, none, {}).gcIntervalInMS / 1000;
  console.log(JSON.stringify({ once: await list(1), twice: await list(2), every }));
};
all().then(() => process.exit(0));
"""
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
# Objects that live on, and others that live just long enough to get among them.
HEAP = """
const live = Array.from({ length: 300_000 }, (_, number) => ({ number, text: `x${number}` }));
const passing = new Array(100_000);
let most = 0;
for (let number = 0; number < 6_000_000; number++) {
  passing[number % passing.length] = { number, text: `y${number}`, list: [number, number] };
  if (number % 20_000 === 0) {
    most = Math.max(most, require("v8").getHeapSpaceStatistics().find((one) => one.space_name === "old_space").physical_space_size);
  }
}
console.log(JSON.stringify([live.length, most]));
"""


@pytest.fixture(scope="module")
def modules() -> Path:
    found = azurite_modules()
    if found is None:
        pytest.skip("this Azurite does not have its modules in a folder")
    return found


def answer(modules: Path, program: str, *arguments: str, loaded: str | None = None) -> Any:
    """Run a program of Node.js that finds Azurite's modules; return what it prints, JSON.

    *loaded* names a script of ours that is loaded before, as into Azurite.
    """
    options = ["--require", str(ROOT / f"runner/aml_emulator/processes/azurite_{loaded}.js")] if loaded else []
    done = subprocess.run(
        ["node", *options, "-e", program, *arguments],
        env={"PATH": os.environ["PATH"], "NODE_PATH": str(modules)},
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    return json.loads(done.stdout)


def test_the_name_comes_first_and_changes_no_answer(modules: Path) -> None:
    # By the name by which Azurite loads it.
    plain = answer(modules, LOOKUPS, "lokijs")
    quick = answer(modules, LOOKUPS, "lokijs", loaded="lookups")
    assert quick["seen"] == plain["seen"]
    assert (plain["first"], quick["first"]) == (["accountName"], ["name", "accountName"])


@pytest.mark.parametrize(
    ("loaded", "chunks"),
    [
        (None, [[0, 0, 3], [0, 3, 2], [0, 5, 9], [0, 14, 1]]),
        ("extents", [[0, 0, 3], [0, 3, 2], [1, 0, 9], [2, 0, 1]]),
    ],
)
def test_a_file_takes_no_further_blob_when_it_has_four_mebibytes(
    modules: Path, tmp_path: Path, loaded: str | None, chunks: list[list[int]]
) -> None:
    """A chunk is file, offset and size; both in MiB."""
    store = "azurite/dist/src/common/persistence/FSExtentStore"
    assert answer(modules, EXTENTS, str(tmp_path), store, loaded=loaded) == chunks


@pytest.mark.parametrize(
    ("loaded", "removed"),
    [
        (None, {"once": ["old", "recent", "new"], "twice": ["old"], "every": 600}),
        ("extents", {"once": ["old", "recent"], "twice": ["old", "recent"], "every": 120}),
    ],
)
def test_files_without_blobs_are_removed_every_two_minutes(
    modules: Path, loaded: str | None, removed: object
) -> None:
    """Those that were written to once or twice, 601, 61 and 59 seconds ago."""
    parts = ("common/persistence/LokiExtentMetadataStore", "blob/gc/BlobGCManager")
    assert answer(modules, REMOVED, *(f"azurite/dist/src/{part}" for part in parts), loaded=loaded) == removed


@pytest.mark.parametrize(
    ("loaded", "found"),
    [
        (None, [5_000, 11_990, 12_000, 5_000, 5_001, 0]),
        ("extents", [12_000, 12_000, 12_000, 5_000, 5_001, 0]),
    ],
)
def test_the_file_of_every_blob_is_found_whatever_the_names(
    modules: Path, loaded: str | None, found: list[int]
) -> None:
    """A file that is not found is removed. Containers of code have blobs of the same names, and a page has 5,000 blobs."""
    parts = ("LokiBlobMetadataStore", "BlobReferredExtentsAsyncIterator")
    seen = answer(modules, REFERRED, *(f"azurite/dist/src/blob/persistence/{part}" for part in parts), loaded=loaded)
    assert [files for _, files, _ in seen] == found
    assert [files for _, files, _ in seen] == [answered for _, _, answered in seen]  # none twice


def test_the_heap_stays_near_what_is_in_use() -> None:
    (live, most), (same, less) = (answer(ROOT, HEAP, loaded=script) for script in (None, "memory"))
    assert live == same
    assert less < 0.8 * most
