// Loki, Azurite's database, changed as Azurite loads it. For the scripts beside this one.
"use strict";

const Module = require("module");

// Have *change* called with Loki's class before Azurite gets it. In the image, too, where all else is bundled into one file, Loki is a
// module that is loaded by its name.
exports.changeLoki = function (change) {
  const load = Module._load;
  const changed = new WeakSet();
  Module._load = function (request, ...rest) {
    const found = load.call(this, request, ...rest);
    if (request === "lokijs" && !changed.has(found)) {
      changed.add(found);
      change(found);
    }
    return found;
  };
};
