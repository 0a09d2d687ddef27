"""The artifact service of azureml-core, ``/artifact/v2.0``: files of runs, and files that it uploads for models.

What belongs to a run (``ExperimentRun/dcid.<run>``) is what run history shows. Everything else (``LocalUpload/…``, and
what lies in a datastore, under its name) is found in Blob storage itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from starlette.datastructures import QueryParams

from aml_emulator.api.history.artifacts import Artifacts, checked_paths, content_reply
from aml_emulator.api.routing import Call, Reply, Route
from aml_emulator.api.shapes import continued, iso
from aml_emulator.context import Services
from aml_emulator.errors import not_found
from aml_emulator.executor.layout import UnsafePathError, safe_relative
from aml_emulator.executor.spec import Folder

OF_RUNS = "ExperimentRun"
"""The origin of the files of runs; their container is ``dcid.`` and the run's id."""


def routes(services: Services) -> Sequence[Route]:
    """Return the routes of the artifact service."""
    of_runs, uploads = Artifacts(services), Uploads(services)

    def one_of(run: Callable[[Call], Any], other: Callable[[Call], Any]) -> Callable[[Call], Any]:
        def handle(call: Call) -> Any:
            container = call.params["container"]
            if call.params["origin"] != OF_RUNS or not container.startswith("dcid."):
                return other(call)
            query = QueryParams({**call.query, "path": call.params.get("path", "")})
            return run(replace(call, query=query, params={"run": container.removeprefix("dcid.")}))

        return handle

    base, place = "/artifact/v2.0{WS}/artifacts", "{origin}/{container}"
    return (
        Route(method="GET", path=f"{base}/{place}", handler=one_of(of_runs.list, uploads.list)),
        Route(
            method="POST",
            path=f"{base}/batch/metadata/{place}",
            handler=one_of(of_runs.create, uploads.create),
        ),
        Route(
            method="GET",
            path=f"{base}/contentinfo/{place}/{{path*}}",
            handler=one_of(of_runs.content, uploads.content),
        ),
        Route(
            method="GET",
            path=f"{base}/content/{place}/{{path*}}",
            handler=one_of(of_runs.download, uploads.download),
        ),
        Route(
            method="GET",
            path=f"{base}/prefix/contentinfo/{place}",
            handler=one_of(of_runs.contents, uploads.contents),
        ),
        Route(
            method="GET",
            path=f"{base}/prefix/contentinfo/{place}/{{path*}}",
            handler=one_of(of_runs.contents, uploads.contents),
        ),
        Route(
            method="GET",
            path=f"{base}/metadata/{place}/{{path*}}",
            handler=one_of(of_runs.metadata, uploads.metadata),
        ),
        Route(method="GET", path=f"{base}/{place}/{{path*}}", handler=one_of(of_runs.list, uploads.list)),
    )


class Uploads:
    """Answers for files that belong to no run."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def list(self, call: Call) -> dict[str, Any]:
        """Return the files under a path."""
        return continued(call, self._paths(call), key=str, view=lambda path: self._artifact(call, path))

    def create(self, call: Call) -> dict[str, Any]:
        """Return where each of some files can be written."""
        paths = checked_paths(call)
        return {
            "artifacts": {path: self._artifact(call, path) for path in paths},
            "artifactContentInformation": {path: self._content(call, path, permissions="rcw") for path in paths},
            "errors": {},
        }

    def content(self, call: Call) -> dict[str, Any]:
        """Return where one file can be read."""
        return self._content(call, self._known(call))

    def download(self, call: Call) -> Reply:
        """Return a file's content."""
        folder = self._folder(call)
        return content_reply(self._services, call, folder.container, folder.name_of(self._known(call)))

    def contents(self, call: Call) -> dict[str, Any]:
        """Return where each file under a path can be read."""
        return continued(call, self._paths(call), key=str, view=lambda path: self._content(call, path))

    def metadata(self, call: Call) -> dict[str, Any]:
        """Return one file."""
        return self._artifact(call, self._known(call))

    def _folder(self, call: Call) -> Folder:
        try:
            prefix = safe_relative(f"{call.params['origin']}/{call.params['container']}")
        except UnsafePathError as error:
            raise not_found(f"artifact '{call.params['origin']}/{call.params['container']}'") from error
        for datastore in self._services.all_datastores():
            if datastore.name == call.params["origin"]:
                return Folder(container=datastore.container, prefix=prefix.removeprefix(f"{datastore.name}/"))
        return Folder(container=self._services.identity.artifact_container, prefix=prefix)

    def _paths(self, call: Call) -> Sequence[str]:
        folder, path = self._folder(call), call.params.get("path", "").strip("/")
        place = folder.name_of(path) if path else folder.prefix
        found = self._services.blobs.walk(folder.container, place)
        return sorted("/".join(part for part in (path, entry.name) if part) for entry in found)

    def _known(self, call: Call) -> str:
        folder, path = self._folder(call), call.params["path"].strip("/")
        if self._services.blobs.size(folder.container, folder.name_of(path)) is None:
            raise not_found(f"artifact '{folder.prefix}/{path}'")
        return path

    def _artifact(self, call: Call, path: str) -> dict[str, Any]:
        origin, container = call.params["origin"], call.params["container"]
        return {
            "artifactId": f"{origin}/{container}/{path}",
            "origin": origin,
            "container": container,
            "path": path,
            "etag": None,
            "createdTime": iso(self._services.clock()),
            "dataPath": None,
        }

    def _content(self, call: Call, path: str, *, permissions: str = "r") -> dict[str, Any]:
        folder = self._folder(call)
        url = self._services.blobs.sas_url(folder.container, folder.name_of(path), permissions=permissions)
        return {
            "contentUri": url,
            "origin": call.params["origin"],
            "container": call.params["container"],
            "path": path,
            "tags": None,
        }
