"""The files of runs: recorded, listed, and found in Blob storage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aml_emulator.api.artifacts import ArtifactAnswers
from aml_emulator.api.routing import Call, Route
from aml_emulator.api.run_shapes import OWNERS, run_of
from aml_emulator.context import Context
from aml_emulator.domain import RunArtifacts


def routes(context: Context) -> Sequence[Route]:
    """Return the routes of ``/history/v1.0`` that are about files."""
    answers = ArtifactAnswers(
        context,
        artifacts_of=lambda call: RunArtifacts(context, run_of(context, call)),
        path_of=lambda call: call.query.get("path", ""),
    )
    operations: tuple[tuple[str, str, Callable[[Call], Any]], ...] = (
        ("GET", "", answers.list),
        ("GET", "/path", answers.list),
        ("GET", "/contentinfo", answers.content),
        ("GET", "/metadata", answers.metadata),
        ("GET", "/artifacturi", answers.uri),
        ("GET", "/prefix/contentinfo", answers.contents),
        ("POST", "/batch/metadata", answers.create),
    )
    return [
        Route(method=method, path=f"/history/v1.0{{WS}}{owner}/runs/{{run}}/artifacts{tail}", handler=handler)
        for owner in OWNERS
        for method, tail, handler in operations
    ]
