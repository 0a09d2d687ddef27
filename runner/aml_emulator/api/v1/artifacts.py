"""The artifact service of azureml-core, ``/artifact/v2.0``: run files and uploads.

Files of a run (``ExperimentRun/dcid.<run>``) are those of run history. All others (``LocalUpload/…``, and
files in a datastore, under its name) are found in Blob storage itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from aml_emulator.api.artifacts import ArtifactAnswers
from aml_emulator.api.routing import Call, Route
from aml_emulator.context import Context
from aml_emulator.domain import OF_RUNS, Artifacts, RunArtifacts, UploadedArtifacts, known_run


def routes(context: Context) -> Sequence[Route]:
    """Return the routes of the artifact service."""

    def artifacts_of(call: Call) -> Artifacts:
        origin, container = call.params["origin"], call.params["container"]
        if origin == OF_RUNS and container.startswith("dcid."):
            return RunArtifacts(context, known_run(context, container.removeprefix("dcid.")))
        return UploadedArtifacts(context, origin, container)

    answers = ArtifactAnswers(context, artifacts_of=artifacts_of, path_of=lambda call: call.params.get("path", ""))
    base, place = "/artifact/v2.0{WS}/artifacts", "{origin}/{container}"
    return (
        Route(method="GET", path=f"{base}/{place}", handler=answers.list),
        Route(method="POST", path=f"{base}/batch/metadata/{place}", handler=answers.create),
        Route(method="GET", path=f"{base}/contentinfo/{place}/{{path*}}", handler=answers.content),
        Route(method="GET", path=f"{base}/content/{place}/{{path*}}", handler=answers.download),
        Route(method="GET", path=f"{base}/prefix/contentinfo/{place}", handler=answers.contents),
        Route(method="GET", path=f"{base}/prefix/contentinfo/{place}/{{path*}}", handler=answers.contents),
        Route(method="GET", path=f"{base}/metadata/{place}/{{path*}}", handler=answers.metadata),
        Route(method="GET", path=f"{base}/{place}/{{path*}}", handler=answers.list),
    )
