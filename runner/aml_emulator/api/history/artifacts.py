"""The files of runs: recorded, listed, and found in Blob storage."""

from __future__ import annotations

from collections.abc import Sequence

from aml_emulator.api.artifacts import ArtifactAnswers
from aml_emulator.api.routing import Route
from aml_emulator.api.run_shapes import run_of, run_routes
from aml_emulator.context import Context
from aml_emulator.domain.artifacts import RunArtifacts


def routes(context: Context) -> Sequence[Route]:
    """Return the routes of ``/history/v1.0`` that are about files."""
    answers = ArtifactAnswers(
        context,
        artifacts_of=lambda call: RunArtifacts(context, run_of(context, call)),
        path_of=lambda call: call.query.get("path", ""),
    )
    return run_routes(
        ("GET", "/artifacts", answers.list),
        ("GET", "/artifacts/path", answers.list),
        ("GET", "/artifacts/contentinfo", answers.content),
        ("GET", "/artifacts/metadata", answers.metadata),
        ("GET", "/artifacts/artifacturi", answers.uri),
        ("GET", "/artifacts/prefix/contentinfo", answers.contents),
        ("POST", "/artifacts/batch/metadata", answers.create),
    )
