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

const { changeLoki } = require("./azurite_loki.js");

class Journal {
  constructor(base) {
    this.base = base;
    this.number = 0;
    this.descriptor = null;
    this.pending = [];
    this.blocks = new Map();
  }

  numbers() {
    const prefix = path.basename(this.base) + ".journal.";
    const folder = path.dirname(this.base);
    if (!fs.existsSync(folder)) return [];
    return fs
      .readdirSync(folder)
      .filter((name) => name.startsWith(prefix))
      .map((name) => Number(name.slice(prefix.length)))
      .sort((a, b) => a - b);
  }

  file(number) {
    return `${this.base}.journal.${number}`;
  }

  // One change: the document of this id is now as given, or gone (null).
  add(collection, id, document) {
    if (this.pending.length === 0) {
      // Before whoever made the change goes on, and with all else that it changed at once: a blob that replaces another
      // is a removal and an insertion.
      queueMicrotask(() => this.write());
    }
    // As text, for the document may change in place before it is written.
    this.pending.push(JSON.stringify(this.change(collection, id, document)));
  }

  // The change as it is written. A log is a blob to which thousands of blocks are appended, one at a time: only the blocks that
  // this file does not have yet are written, with the number of those before. All of them each time would be more and more.
  change(collection, id, document) {
    const key = `${collection}/${id}`;
    const all = document && document.properties && document.properties.blobType === "AppendBlob"
      ? document.committedBlocksInOrder : null;
    if (!Array.isArray(all)) {
      this.blocks.delete(key);
      return [collection, id, document];
    }
    const known = this.blocks.get(key);
    const last = all.length ? JSON.stringify(all[all.length - 1]) : null;
    this.blocks.set(key, { count: all.length, last });
    if (known === undefined || known.count === 0 || known.count > all.length
      || JSON.stringify(all[known.count - 1]) !== known.last) {
      return [collection, id, document];
    }
    return [collection, id, { ...document, committedBlocksInOrder: all.slice(known.count) }, known.count];
  }

  write() {
    const changes = this.pending;
    this.pending = [];
    if (changes.length === 0) return;
    if (this.descriptor === null) this.begin();
    fs.appendFileSync(this.descriptor, `[${changes.join(",")}]\n`);
  }

  begin() {
    const known = this.numbers();
    this.number = Math.max(this.number, known.length ? known[known.length - 1] : 0) + 1;
    this.descriptor = fs.openSync(this.file(this.number), "a", 0o600);
    // Files before this one may be removed before it: it says all that it needs.
    this.blocks.clear();
  }

  // Begin a new file, and return the number of the last one that is complete.
  rotate() {
    this.write();
    if (this.descriptor !== null) fs.closeSync(this.descriptor);
    this.begin();
    return this.number - 1;
  }

  forget(last) {
    for (const number of this.numbers()) if (number <= last) fs.unlinkSync(this.file(number));
  }

  // Yield the last known state of each document, by collection and ascending id.
  *states() {
    const found = new Map();
    for (const number of this.numbers()) {
      for (const line of fs.readFileSync(this.file(number), "utf8").split("\n")) {
        let changes;
        try {
          changes = JSON.parse(line);
        } catch (error) {
          // Empty, or cut off by the end of the process: it was not acknowledged.
          continue;
        }
        for (const [collection, id, document, before] of changes) {
          if (!found.has(collection)) found.set(collection, new Map());
          const documents = found.get(collection);
          if (before !== undefined) {
            const blocks = documents.get(id).committedBlocksInOrder.slice(0, before);
            document.committedBlocksInOrder = blocks.concat(document.committedBlocksInOrder);
          }
          documents.set(id, document);
        }
      }
    }
    for (const [collection, documents] of found) {
      for (const id of [...documents.keys()].sort((a, b) => a - b)) yield [collection, id, documents.get(id)];
    }
  }
}

function restore(database, journal) {
  let count = 0;
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
    count += 1;
  }
  if (count) console.error(`journal of ${path.basename(journal.base)}: ${count} changes done again`);
}

function keepJournals(Loki) {
  const owners = new WeakMap();
  const journals = new WeakMap();
  const database = Loki.prototype;
  const collection = Loki.Collection.prototype;
  const original = {
    addCollection: database.addCollection,
    loadDatabase: database.loadDatabase,
    saveDatabase: database.saveDatabase,
    insertOne: collection.insertOne,
    update: collection.update,
    remove: collection.remove,
    removeBatchByPositions: collection.removeBatchByPositions,
  };

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
    const journal = owners.get(one);
    if (journal) journal.add(one.name, id, document);
  }

  database.addCollection = function (...given) {
    const made = original.addCollection.apply(this, given);
    own(this);
    return made;
  };
  database.loadDatabase = function (options, callback) {
    return original.loadDatabase.call(this, options, (error) => {
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
    const last = journal === null ? 0 : journal.rotate();
    return original.saveDatabase.call(this, (error) => {
      if (error) console.error(`${this.filename} cannot be saved: ${error}`);
      else if (journal !== null) journal.forget(last);
      if (callback) callback(error);
    });
  };
  database.save = database.saveDatabase;

  collection.insertOne = function (...given) {
    const made = original.insertOne.apply(this, given);
    if (made) note(this, made.$loki, made);
    return made;
  };
  collection.update = function (document) {
    const result = original.update.call(this, document);
    if (!Array.isArray(document)) note(this, document.$loki, document);
    return result;
  };
  collection.remove = function (document) {
    // Many are removed below; a number is an id.
    const id = typeof document === "number" ? document : document && document.$loki;
    const many = Array.isArray(document);
    const result = original.remove.call(this, document);
    if (!many) note(this, id, null);
    return result;
  };
  collection.removeBatchByPositions = function (positions) {
    const ids = positions.map((position) => this.data[position].$loki);
    const result = original.removeBatchByPositions.call(this, positions);
    for (const id of ids) note(this, id, null);
    return result;
  };
}

changeLoki(keepJournals);
