"""How a night's inputs are divided among the targets."""

from __future__ import annotations

from typing import Final

THOUSANDS: Final[dict[str, int]] = {
    "addresses": 45,
    "answers": 12,
    "arguments": 15,
    "artifacts": 40,
    "bodies": 10,
    "bundles": 15,
    "comments": 50,
    "configuration": 25,
    "decisions": 30,
    "devcontainers": 40,
    "dockerfiles": 25,
    "events": 20,
    "filters": 50,
    "globs": 60,
    "ignore_files": 8,
    "images": 45,
    "inputs": 15,
    "jobs": 15,
    "junit": 60,
    "lineage": 25,
    "logs": 15,
    "masks": 20,
    "overrides": 8,
    "patterns": 7,
    "projects": 8,
    "promotions": 50,
    "references": 60,
    "reports": 20,
    "requirements": 20,
    "rules": 60,
    "runconfigs": 12,
    "specs": 15,
    "text": 50,
    "tokens": 50,
}
"""Inputs of each target in a night, in thousands: fewer of the slow ones; docs/fuzzing.md has the rates."""


def share(name: str, inputs: int) -> int:
    """Return the target's share of so many inputs in all, at least one."""
    return max(1, round(inputs * THOUSANDS[name] / sum(THOUSANDS.values())))
