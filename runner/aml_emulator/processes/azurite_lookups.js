// Quick look-ups in Azurite's metadata. Loaded into Azurite's process: node --require azurite_lookups.js
//
// Azurite looks a blob up by account, container, name and snapshot, in this order, for each request. Loki uses an index for
// the first of them alone, and every blob has the same account: it looks at all of them. So the name comes first here, where the
// properties together are a key: there is one answer at most then, whatever the order.
"use strict";

const { changeLoki } = require("./azurite_loki.js");

// What makes a key of account, container and name: a blob's snapshot (empty for the blob itself), or a block's blob.
const COMPLETING = ["snapshot", "blobName"];

function lookUpByName(Loki) {
  const resultset = Loki.Resultset.prototype;
  const original = resultset.findAnd;
  resultset.findAnd = function (expressions) {
    const name = expressions.find((one) => typeof one.name === "string");
    const key = expressions.some((one) => COMPLETING.some((property) => typeof one[property] === "string"));
    if (!name || !key) return original.call(this, expressions);
    return original.call(this, [name, ...expressions.filter((one) => one !== name)]);
  };
  // The operator by which a query of several properties gets there.
  resultset.$and = resultset.findAnd;
}

changeLoki(lookUpByName);
