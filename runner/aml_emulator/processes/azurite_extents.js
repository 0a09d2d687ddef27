// Disk space of Azurite's contents, given back soon. Loaded into Azurite's process: node --require azurite_extents.js
//
// Azurite appends blobs to files, its extents, until one has 64 MiB. Every 10 minutes it removes those in which no blob is left and to
// which nothing was written in the last 10 minutes (constants of its 3.35). A model of a few kilobytes that stays would keep the space of
// 64 MiB of logs that were cleaned up, and any space would be kept for up to 20 minutes. The protected time is for what is written and not
// yet recorded as part of a blob, which takes milliseconds; a file that is being written to is never removed.
"use strict";

const { changeLoki } = require("./azurite_loki.js");

const CONSTANTS = {
  DEFAULT_MAX_EXTENT_SIZE: 4 * 1024 * 1024,
  DEFAULT_GC_INTERVAL_MS: 2 * 60 * 1000,
  DEFAULT_EXTENT_GC_PROTECT_TIME_IN_MS: 60 * 1000,
};

// Azurite assigns them to the exports of its modules. In the image these are bundled into one file and none is loaded by a name, so
// that the assignment is all there is to meet.
for (const [name, value] of Object.entries(CONSTANTS)) {
  Object.defineProperty(Object.prototype, name, {
    configurable: true,
    set() {
      Object.defineProperty(this, name, { enumerable: true, get: () => value, set() {} });
    },
  });
}

// Azurite stores when a file was first written to as lastModifiedInMS and looks for LastModifyInMS, which it sets at the second time.
// What was written to once would not be protected.
function protectFirstWrite(Loki) {
  const collection = Loki.Collection.prototype;
  const original = collection.insert;
  collection.insert = function (document, ...rest) {
    if (document.lastModifiedInMS !== undefined) document.LastModifyInMS = document.lastModifiedInMS;
    return original.call(this, document, ...rest);
  };
}

// To find the files that blobs are in, Azurite lists all blobs by name, in pages of 5,000; a page begins after the last name of the page
// before. Blobs of different containers may have the same name, as each run's code has its train.py. Those for which a page had no room
// would be left out, and their files removed. So a page goes on until the name changes.
function keepNamesTogether(Loki) {
  const resultset = Loki.Resultset.prototype;
  const { simplesort, limit } = resultset;
  resultset.simplesort = function (property, ...rest) {
    const sorted = simplesort.call(this, property, ...rest);
    sorted.sortedBy = property;
    return sorted;
  };
  resultset.limit = function (count) {
    const page = limit.call(this, count);
    const rows = this.filteredrows;
    if (this.sortedBy !== "name" || count < 2 || rows.length < count) return page;
    const name = (row) => this.collection.data[rows[row]].name;
    // Azurite asks for one more than a page has, which says that there is another page, and takes it away.
    let more = count - 1;
    while (more < rows.length && name(more) === name(more - 1)) more++;
    page.filteredrows = [...rows.slice(0, more), rows[Math.min(more, rows.length - 1)]];
    return page;
  };
}

changeLoki(protectFirstWrite);
changeLoki(keepNamesTogether);
