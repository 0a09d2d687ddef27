"""Azurite's files of contents: small ones, so that a blob that stays keeps little of the space of those that are deleted."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.emulator_process import ROOT, azurite_modules

SCRIPT = """
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


def appended(modules: Path, folder: Path, *options: str) -> list[list[int]]:
    """Append 3, 2, 9 and 1 MiB to Azurite's store of contents; return file, offset and size of each, MiB."""
    folder.mkdir()
    done = subprocess.run(
        ["node", *options, "-e", SCRIPT, str(folder), "azurite/dist/src/common/persistence/FSExtentStore"],
        env={"PATH": os.environ["PATH"], "NODE_PATH": str(modules)},
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    value: list[list[int]] = json.loads(done.stdout)
    return value


def test_a_file_takes_no_further_blob_when_it_has_four_mebibytes(tmp_path: Path) -> None:
    modules = azurite_modules()
    if modules is None:
        pytest.skip("this Azurite does not have its modules in a folder")
    plain = appended(modules, tmp_path / "plain")
    assert plain == [[0, 0, 3], [0, 3, 2], [0, 5, 9], [0, 14, 1]]
    small = appended(
        modules, tmp_path / "small", "--require", str(ROOT / "runner/aml_emulator/processes/azurite_extents.js")
    )
    assert small == [[0, 0, 3], [0, 3, 2], [1, 0, 9], [2, 0, 1]]
