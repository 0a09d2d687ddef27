// A journal for Azurite's metadata. Loaded into Azurite's process: node --require azurite_journal.js
//
// Azurite keeps what it knows of blobs and extents in two Loki databases, in memory, and writes each out whole every five
// seconds. A blob that it has acknowledged since would be lost with a process that is killed. So every change is written
// to a journal before it is acknowledged: beside `NAME.json` lie `NAME.json.journal.1`, `.2`, ... A save begins a new one
// and, when it is done, removes those before. At the start what is in the journals is done again.
//
// Written is not flushed: it survives the end of the process and of its container, not that of the machine.
"use strict";

const fs = require("fs");
const path = require("path");
const Module = require("module");

class Journal {
  constructor(base) {
    this.base = base;
    this.descriptor = null;
    this.pending = [];
  }

  numbers() {
    const prefix = path.basename(this.base) + ".journal.";
    const folder = path.dirname(this.base);
    if (!fs.existsSync(folder)) return [];
    const names = fs.readdirSync(folder).filter((name) => name.startsWith(prefix));
    return names.map((name) => Number(name.slice(prefix.length))).sort((a, b) => a - b);
  }

  // One change: the document of this id is now as given, or gone (null).
  add(collection, id, document) {
    // Written before whoever made the change goes on, and with all else that it changed at once: a blob that replaces
    // another is a removal and an insertion.
    if (this.pending.length === 0) queueMicrotask(() => this.write());
    // As text, for the document may change in place before it is written.
    this.pending.push(JSON.stringify([collection, id, document]));
  }

  write() {
    if (this.pending.length === 0) return;
    if (this.descriptor === null) this.open();
    fs.appendFileSync(this.descriptor, `[${this.pending.join(",")}]\n`);
    this.pending = [];
  }

  open() {
    this.descriptor = fs.openSync(`${this.base}.journal.${(this.numbers().at(-1) ?? 0) + 1}`, "a", 0o600);
  }

  // Begin a new file, and return the numbers of those before.
  begin() {
    this.write();
    const before = this.numbers();
    if (this.descriptor !== null) fs.closeSync(this.descriptor);
    this.open();
    return before;
  }

  forget(numbers) {
    for (const number of numbers) fs.unlinkSync(`${this.base}.journal.${number}`);
  }

  // Return the last known state of each document, by ascending id.
  states() {
    const found = new Map();
    for (const number of this.numbers()) {
      for (const line of fs.readFileSync(`${this.base}.journal.${number}`, "utf8").split("\n")) {
        try {
          for (const change of JSON.parse(line)) found.set(`${change[0]}/${change[1]}`, change);
        } catch (error) {
          // Empty, or cut off by the end of the process: it was not acknowledged.
        }
      }
    }
    return [...found.values()].sort((a, b) => a[1] - b[1]);
  }
}

function restore(database, journal) {
  for (const [name, id, document] of journal.states()) {
    const collection = database.getCollection(name) || database.addCollection(name);
    const known = collection.get(id);
    if (document === null) {
      if (known) collection.remove(known);
    } else if (known) {
      collection.update(Object.assign(known, document));
    } else {
      // An id that the saved state does not have was given after it, so that ids stay in order.
      const highest = collection.maxId;
      collection.maxId = id - 1;
      delete document.$loki;
      collection.insert(document);
      collection.maxId = Math.max(highest, id);
    }
  }
}

function keepJournals(Loki) {
  const owners = new WeakMap();
  const journals = new WeakMap();
  const database = Loki.prototype;
  const collection = Loki.Collection.prototype;
  const { addCollection, loadDatabase, saveDatabase } = database;
  const { insertOne, update, remove, removeBatchByPositions } = collection;

  function journalOf(one) {
    if (one.persistenceMethod !== "fs") return null;
    if (!journals.has(one)) journals.set(one, new Journal(one.filename));
    return journals.get(one);
  }

  function own(one) {
    const journal = journalOf(one);
    if (journal !== null) for (const item of one.collections) owners.set(item, journal);
  }

  function note(one, id, document) {
    owners.get(one)?.add(one.name, id, document);
  }

  database.addCollection = function (...given) {
    const made = addCollection.apply(this, given);
    own(this);
    return made;
  };
  database.loadDatabase = function (options, callback) {
    return loadDatabase.call(this, options, (error) => {
      const journal = error ? null : journalOf(this);
      if (journal !== null) {
        restore(this, journal);
        own(this);
      }
      if (callback) callback(error);
    });
  };
  database.saveDatabase = function (callback) {
    const journal = journalOf(this);
    const before = journal === null ? [] : journal.begin();
    return saveDatabase.call(this, (error) => {
      if (error) console.error(`${this.filename} cannot be saved: ${error}`);
      else if (journal !== null) journal.forget(before);
      if (callback) callback(error);
    });
  };
  database.save = database.saveDatabase;

  collection.insertOne = function (...given) {
    const made = insertOne.apply(this, given);
    if (made) note(this, made.$loki, made);
    return made;
  };
  collection.update = function (document) {
    const result = update.call(this, document);
    if (!Array.isArray(document)) note(this, document.$loki, document);
    return result;
  };
  collection.remove = function (document) {
    // Many are removed below; a number is an id.
    const many = Array.isArray(document);
    const id = typeof document === "number" ? document : document && document.$loki;
    const result = remove.call(this, document);
    if (!many) note(this, id, null);
    return result;
  };
  collection.removeBatchByPositions = function (positions) {
    const ids = positions.map((position) => this.data[position].$loki);
    const result = removeBatchByPositions.call(this, positions);
    for (const id of ids) note(this, id, null);
    return result;
  };
}

// To find the files that blobs are in, Azurite lists all blobs by name, in pages of 5,000, and a page begins after the last name
// of the page before. Blobs of different containers may have the same name, as each run's code has its train.py: those for which a
// page had no room would be left out, and their files removed. So a page goes on until the name changes.
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

// Azurite looks a blob up by account, container, name and snapshot, in this order, and Loki uses an index for the first alone, which
// every blob has: each request would look at all blobs. So the name comes first where the properties together are a key.
function lookUpByName(Loki) {
  const resultset = Loki.Resultset.prototype;
  const { findAnd } = resultset;
  resultset.findAnd = function (expressions) {
    const name = expressions.find((one) => typeof one.name === "string");
    const key = expressions.some((one) => typeof (one.snapshot ?? one.blobName) === "string");
    const ordered = name && key ? [name, ...expressions.filter((one) => one !== name)] : expressions;
    return findAnd.call(this, ordered);
  };
  // The operator by which a query of several properties gets there.
  resultset.$and = resultset.findAnd;
}

// Loki is changed when Azurite loads it. In the image, too, where all else is bundled into one file, it is a module of its own.
const load = Module._load;
let changed = false;
Module._load = function (request, ...rest) {
  const found = load.call(this, request, ...rest);
  if (request === "lokijs" && !changed) {
    changed = true;
    keepJournals(found);
    keepNamesTogether(found);
    lookUpByName(found);
  }
  return found;
};
