"""The leaf that every folder may use: errors, events, clock, files, text, threads."""
