"""Logs of jobs: names, reading, following, tracebacks."""
