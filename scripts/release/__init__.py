"""Make a release: build, test, publish, verify, and commit it.

Each step is a command that runs on any machine with a Docker engine: ``python -m scripts.release --help``. The workflow
``.github/workflows/release.yml`` runs the same commands. docs/releasing.md describes a release.
"""
