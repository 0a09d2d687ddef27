// A small heap for Azurite. Loaded into Azurite's process: node --require azurite_memory.js
//
// By default V8 lets the heap grow to several times what is in use before it collects garbage. That is for programs that must be fast;
// here it is the largest part of the local AzureML's memory. NODE_OPTIONS does not take this flag.
"use strict";

require("v8").setFlagsFromString("--heap-growing-percent=50");
