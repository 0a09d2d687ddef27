// Small files for Azurite's contents. Loaded into Azurite's process: node --require azurite_extents.js
//
// Azurite appends blobs to one file, an extent, until it has 64 MiB (DEFAULT_MAX_EXTENT_SIZE of its 3.35), and removes the file when
// none of its blobs is left. A model of a few kilobytes that stays would keep the space of 64 MiB of logs that were cleaned up.
"use strict";

const Module = require("module");

const EXTENT_BYTES = 4 * 1024 * 1024;

const load = Module._load;
Module._load = function (request, ...rest) {
  const found = load.call(this, request, ...rest);
  if (request.endsWith("utils/constants") && found.DEFAULT_MAX_EXTENT_SIZE !== undefined) {
    found.DEFAULT_MAX_EXTENT_SIZE = EXTENT_BYTES;
  }
  return found;
};
