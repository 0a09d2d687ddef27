"""Answers for artifacts, for run history and azureml-core's artifact service.

Shapes are those of the clients' generated models (``ArtifactContentInformation``, ``BatchArtifactContentInformation``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from aml_emulator.api.routing import Call, Reply, Route
from aml_emulator.api.run_shapes import run_of, run_routes
from aml_emulator.api.shapes import continued, iso
from aml_emulator.context import Context
from aml_emulator.domain.artifacts import OF_RUNS, Artifacts, File, RunArtifacts, UploadedArtifacts, check_paths
from aml_emulator.domain.errors import NotFoundError
from aml_emulator.domain.runs import known_run
from aml_emulator.schema import WORD, Fields, ListOf


def history_routes(context: Context) -> Sequence[Route]:
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


def v1_routes(context: Context) -> Sequence[Route]:
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
        Route("GET", f"{base}/{place}", answers.list),
        Route("POST", f"{base}/batch/metadata/{place}", answers.create),
        Route("GET", f"{base}/contentinfo/{place}/{{path*}}", answers.content),
        Route("GET", f"{base}/content/{place}/{{path*}}", answers.download),
        Route("GET", f"{base}/prefix/contentinfo/{place}", answers.contents),
        Route("GET", f"{base}/prefix/contentinfo/{place}/{{path*}}", answers.contents),
        Route("GET", f"{base}/metadata/{place}/{{path*}}", answers.metadata),
        Route("GET", f"{base}/{place}/{{path*}}", answers.list),
        # azureml-mlflow has the operation behind the place, and the path in the query: its generated client is
        # azureml/mlflow/_restclient/artifact/operations/_artifacts_operations.py of azureml-mlflow 1.62.
        Route("POST", f"{base}/{place}/batch/metadata", answers.create),
        Route("GET", f"{base}/{place}/contentinfo", answers.content),
        Route("GET", f"{base}/{place}/content", answers.download),
        Route("GET", f"{base}/{place}/metadata", answers.metadata),
        Route("GET", f"{base}/{place}/prefix/contentinfo", answers.contents),
    )


_RANGE: Final = re.compile(r"bytes=(\d{1,18})-(\d{1,18})?")
_MOST_AT_ONCE: Final = 4 << 20


class ArtifactAnswers:
    """Answers for the artifacts of one container.

    Args:
        artifacts_of: gives the artifacts that a request names.
        path_of: gives the path that a request names, empty for none.
    """

    def __init__(
        self, context: Context, *, artifacts_of: Callable[[Call], Artifacts], path_of: Callable[[Call], str]
    ) -> None:
        self._context = context
        self._artifacts_of = artifacts_of
        self._path_of = path_of

    def list(self, call: Call) -> dict[str, Any]:
        """Return the files, or those below the request's path."""
        artifacts = self._artifacts_of(call)
        found = artifacts.files(self._path_of(call).strip("/"))
        return continued(call, found, key=_path, view=lambda file: _view(artifacts, file))

    def contents(self, call: Call) -> dict[str, Any]:
        """Return where each file below the request's path can be read."""
        artifacts = self._artifacts_of(call)
        found = artifacts.files(self._path_of(call).strip("/"))
        return continued(call, found, key=_path, view=lambda file: self._content(artifacts, file))

    def content(self, call: Call) -> dict[str, Any]:
        """Return where one file can be read."""
        artifacts = self._artifacts_of(call)
        return self._content(artifacts, artifacts.file(self._path_of(call)))

    def uri(self, call: Call) -> str:
        """Return the URL at which one file can be read."""
        return str(self.content(call)["contentUri"])

    def metadata(self, call: Call) -> dict[str, Any]:
        """Return one file."""
        artifacts = self._artifacts_of(call)
        return _view(artifacts, artifacts.file(self._path_of(call)))

    def create(self, call: Call) -> dict[str, Any]:
        """Record files, and return where each can be written."""
        given = call.json(Fields({"paths": ListOf(Fields({"path": WORD}))})).get("paths") or []
        paths = [str(item.get("path") or "") for item in given]
        check_paths(paths)
        with self._context.store.transaction():
            artifacts = self._artifacts_of(call)
            files = {path: artifacts.create(path) for path in paths}
        return {
            "artifacts": {path: _view(artifacts, file) for path, file in files.items()},
            "artifactContentInformation": {
                path: self._content(artifacts, file, permissions="rcw") for path, file in files.items()
            },
            "errors": {},
        }

    def download(self, call: Call) -> Reply:
        """Return a file's content, for clients that do not reach Blob storage."""
        artifacts = self._artifacts_of(call)
        file = artifacts.file(self._path_of(call))
        return self._read(call, artifacts.folder.container, artifacts.folder.name_of(file.path))

    def _read(self, call: Call, container: str, name: str) -> Reply:
        """Return a blob's content, or a few megabytes of the requested range."""
        blobs = self._context.blobs
        size = blobs.size(container, name)
        if size is None:
            raise NotFoundError(f"content of '{name}': made known, and not uploaded")
        match = _RANGE.fullmatch(call.headers.get("range", ""))
        if match is None:
            return Reply(data=b"".join(blobs.read(container, name)))
        start = int(match[1])
        if start >= size:
            return Reply(status=416, headers={"Content-Range": f"bytes */{size}"})
        end = min(size, int(match[2] or size) + 1, start + _MOST_AT_ONCE)
        data = blobs.read_range(container, name, start, end - start)
        return Reply(status=206, data=data, headers={"Content-Range": f"bytes {start}-{end - 1}/{size}"})

    def _content(self, artifacts: Artifacts, file: File, *, permissions: str = "r") -> dict[str, Any]:
        folder = artifacts.folder
        return {
            "contentUri": self._context.blobs.sas_url(
                folder.container, folder.name_of(file.path), permissions=permissions
            ),
            "origin": artifacts.origin,
            "container": artifacts.container,
            "path": file.path,
            "tags": None,
        }


def _path(file: File) -> str:
    return file.path


def _view(artifacts: Artifacts, file: File) -> dict[str, Any]:
    return {
        "artifactId": f"{artifacts.origin}/{artifacts.container}/{file.path}",
        "origin": artifacts.origin,
        "container": artifacts.container,
        "path": file.path,
        "etag": file.etag,
        "createdTime": iso(file.created),
        "dataPath": None,
    }
