// What lives on the heap of Azurite, again and again. Loaded into its process: NODE_OPTIONS=--require=live_heap.cjs
//
// Between two collections a heap of V8 has garbage of some ten megabytes, which hides how what lives grows. This collects and writes
// a line into the file SOAK_HEAP each SOAK_HEAP_SECONDS: seconds since the epoch, and bytes.
"use strict";

const { appendFileSync } = require("fs");
const { setFlagsFromString } = require("v8");
const { runInNewContext } = require("vm");

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc");

setInterval(() => {
  collect();
  const { heapUsed, external } = process.memoryUsage();
  appendFileSync(process.env.SOAK_HEAP, `${Date.now() / 1000} ${heapUsed + external}\n`);
}, 1000 * Number(process.env.SOAK_HEAP_SECONDS)).unref();
