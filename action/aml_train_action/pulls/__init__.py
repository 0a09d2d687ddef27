"""The pull request: a report as its comment."""
