"""Names of what only recordings need."""

from __future__ import annotations

SANITIZED = "Sanitized"


class FakeTokenCredential:
    """A credential of played-back tests; a live run never asks it."""
