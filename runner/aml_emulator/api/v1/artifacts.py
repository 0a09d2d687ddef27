"""The artifact service, ``/artifact/v2.0``: run files and uploads.

azureml-core and azureml-mlflow use it.

Files of a run (``ExperimentRun/dcid.<run>``) are those of run history. All others (``LocalUpload/…``, and
files in a datastore, under its name) are found in Blob storage itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from aml_emulator.api.artifacts import ArtifactAnswers
from aml_emulator.api.routing import Call, Route
from aml_emulator.context import Context
from aml_emulator.domain.artifacts import OF_RUNS, Artifacts, RunArtifacts, UploadedArtifacts
from aml_emulator.domain.runs import known_run


def routes(context: Context) -> Sequence[Route]:
    """Return the routes of the artifact service."""

    def artifacts_of(call: Call) -> Artifacts:
        origin, container = call.params["origin"], call.params["container"]
        if origin == OF_RUNS and container.startswith("dcid."):
            return RunArtifacts(context, known_run(context, container.removeprefix("dcid.")))
        return UploadedArtifacts(context, origin, container)

    def path_of(call: Call) -> str:
        return call.params.get("path") or call.query.get("path", "")

    answers = ArtifactAnswers(context, artifacts_of=artifacts_of, path_of=path_of)
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
        # azureml-mlflow has the operation behind the place, and the path in the query: its generated client is
        # azureml/mlflow/_restclient/artifact/operations/_artifacts_operations.py of azureml-mlflow 1.62.
        Route(method="POST", path=f"{base}/{place}/batch/metadata", handler=answers.create),
        Route(method="GET", path=f"{base}/{place}/contentinfo", handler=answers.content),
        Route(method="GET", path=f"{base}/{place}/content", handler=answers.download),
        Route(method="GET", path=f"{base}/{place}/metadata", handler=answers.metadata),
        Route(method="GET", path=f"{base}/{place}/prefix/contentinfo", handler=answers.contents),
    )
