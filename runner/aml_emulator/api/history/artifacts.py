"""The files of runs: made known, listed, and found in Blob storage.

Shapes are those of the clients' generated models (``ArtifactContentInformation``, ``BatchArtifactContentInformation``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from aml_emulator.api.bodies import WORD, Fields, ListOf
from aml_emulator.api.history.runs import OWNERS, known_run
from aml_emulator.api.routing import Call, Reply, Route
from aml_emulator.api.shapes import continued, iso
from aml_emulator.context import Services
from aml_emulator.errors import bad_request, not_found
from aml_emulator.store.runs import Artifact, Run

_RANGE: Final = re.compile(r"bytes=(\d{1,18})-(\d{1,18})?")
_MOST_AT_ONCE: Final = 4 << 20


def routes(services: Services) -> Sequence[Route]:
    """Return the routes of ``/history/v1.0`` that are about files."""
    artifacts = Artifacts(services)
    operations: tuple[tuple[str, str, Callable[[Call], Any]], ...] = (
        ("GET", "", artifacts.list),
        ("GET", "/path", artifacts.list),
        ("GET", "/contentinfo", artifacts.content),
        ("GET", "/metadata", artifacts.metadata),
        ("GET", "/artifacturi", artifacts.uri),
        ("GET", "/prefix/contentinfo", artifacts.contents),
        ("POST", "/batch/metadata", artifacts.create),
    )
    return [
        Route(method=method, path=f"/history/v1.0{{WS}}{owner}/runs/{{run}}/artifacts{tail}", handler=handler)
        for owner in OWNERS
        for method, tail, handler in operations
    ]


class Artifacts:
    """Answers for the files of runs."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def list(self, call: Call) -> dict[str, Any]:
        """Return the run's files; with ``path``, those under it."""
        run = known_run(self._services, call)
        prefix = call.query.get("path", "").strip("/")
        found = self._services.store.runs.artifacts(run.id, prefix=prefix)
        inside = [item for item in found if not prefix or _under(item.path, prefix)]
        return continued(call, inside, key=lambda item: item.path, view=lambda item: _artifact(run, item))

    def content(self, call: Call) -> dict[str, Any]:
        """Return where one file can be read."""
        run = known_run(self._services, call)
        return self._content(run, self._file(call, run).path)

    def metadata(self, call: Call) -> dict[str, Any]:
        """Return one file."""
        run = known_run(self._services, call)
        return _artifact(run, self._file(call, run))

    def uri(self, call: Call) -> str:
        """Return the URL at which one file can be read."""
        run = known_run(self._services, call)
        return str(self._content(run, self._file(call, run).path)["contentUri"])

    def contents(self, call: Call) -> dict[str, Any]:
        """Return where each file under a path can be read."""
        run = known_run(self._services, call)
        prefix = call.query.get("path", "").strip("/")
        found = self._services.store.runs.artifacts(run.id, prefix=prefix)
        inside = [item for item in found if not prefix or _under(item.path, prefix)]
        return continued(call, inside, key=lambda item: item.path, view=lambda item: self._content(run, item.path))

    def create(self, call: Call) -> dict[str, Any]:
        """Make files known, and return where each can be written."""
        run = known_run(self._services, call)
        paths = checked_paths(call)
        made = {path: self._services.store.runs.add_artifact(run.id, path) for path in paths}
        return {
            "artifacts": {path: _artifact(run, item) for path, item in made.items()},
            "artifactContentInformation": {path: self._content(run, path, permissions="rcw") for path in paths},
            "errors": {},
        }

    def download(self, call: Call) -> Reply:
        """Return a file's content, by way of this service: for clients that Blob storage lets nothing through to."""
        run = known_run(self._services, call)
        folder = self._services.artifacts_of(run.id)
        return content_reply(self._services, call, folder.container, folder.name_of(self._file(call, run).path))

    def _file(self, call: Call, run: Run) -> Artifact:
        path = call.query.get("path", "")
        artifact = self._services.store.runs.artifact(run.id, path)
        if artifact is None:
            raise not_found(f"artifact '{path}' of run '{run.id}'")
        return artifact

    def _content(self, run: Run, path: str, *, permissions: str = "r") -> dict[str, Any]:
        folder = self._services.artifacts_of(run.id)
        return {
            "contentUri": self._services.blobs.sas_url(
                folder.container, folder.name_of(path), permissions=permissions
            ),
            "origin": "ExperimentRun",
            "container": f"dcid.{run.id}",
            "path": path,
            "tags": None,
        }


def checked_paths(call: Call) -> Sequence[str]:
    """Return the paths of files that a client is about to upload.

    Raises:
        ServiceError: 400 for one that is none.
    """
    paths = [
        str(item.get("path") or "")
        for item in call.json(Fields({"paths": ListOf(Fields({"path": WORD}))})).get("paths") or []
    ]
    for path in paths:
        if not path or path.startswith("/") or ".." in path.split("/"):
            raise bad_request(f"Not a path of an artifact: '{path}'")
    return paths


def _artifact(run: Run, artifact: Artifact) -> dict[str, Any]:
    return {
        "artifactId": f"ExperimentRun/dcid.{run.id}/{artifact.path}",
        "origin": "ExperimentRun",
        "container": f"dcid.{run.id}",
        "path": artifact.path,
        "etag": f'"{int(artifact.created * 1000):x}"',
        "createdTime": iso(artifact.created),
        "dataPath": None,
    }


def _under(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(f"{prefix}/")


def content_reply(services: Services, call: Call, container: str, name: str) -> Reply:
    """Return a blob's content: all of it, or of the range that the request names a few megabytes at most."""
    match = _RANGE.fullmatch(call.headers.get("range", ""))
    if match is None:
        return Reply(data=b"".join(services.blobs.read(container, name)))
    size, start = services.blobs.size(container, name) or 0, int(match[1])
    if start >= size:
        return Reply(status=416, headers={"Content-Range": f"bytes */{size}"})
    end = min(size, int(match[2] or size) + 1, start + _MOST_AT_ONCE)
    data = services.blobs.read_range(container, name, start, end - start)
    return Reply(status=206, data=data, headers={"Content-Range": f"bytes {start}-{end - 1}/{size}"})
