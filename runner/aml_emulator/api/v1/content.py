"""The content service of azureml-core, ``/content``: a snapshot is a code asset.

A client sends the files that changed since its last snapshot, and a tree of all of them; the others are copied from that
snapshot, so that each has all of its files in one folder.
"""

from __future__ import annotations

import tempfile
import uuid
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aml_emulator.api.bodies import TEXT, WORD, Fields, ListOf, Tree
from aml_emulator.api.routing import Call, Route
from aml_emulator.context import Services
from aml_emulator.domain.locations import BlobPath, LocationError, parse
from aml_emulator.errors import bad_request, not_found
from aml_emulator.executor.layout import UnsafePathError, safe_relative
from aml_emulator.executor.spec import Folder

FOLDER = "Snapshots"
"""The folder of the default datastore that holds snapshots."""

NONE = str(uuid.UUID(int=0))
"""The id of the snapshot that a client gets as its parent that has none yet."""

SPOOLED_BYTES = 16 * 1024 * 1024


NODES = ListOf(Fields({"FullName": WORD, "BlobUri": WORD}))
SNAPSHOT = Fields(
    {
        "FileRevisionList": Fields({"FileNodes": NODES}),
        "ParentSnapshotId": WORD,
        "DirTreeNode": Tree({"type": TEXT}, "children"),
    }
)


def routes(services: Services) -> Sequence[Route]:
    """Return the routes of snapshots."""
    content = Content(services)
    return (
        Route(method="GET", path="/content/v1.0{WS}/snapshots/latest/metadata", handler=content.latest),
        Route(method="POST", path="/content/v2.0{WS}/snapshots/getblob", handler=content.addresses),
        Route(method="POST", path="/content/v2.0{WS}/snapshots/{snapshot}", handler=content.create),
        Route(method="POST", path="/content/v2.0{WS}/snapshots/{snapshot}/zip", handler=content.zip),
    )


class Content:
    """Answers for snapshots."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def latest(self, call: Call) -> dict[str, Any]:
        """Return an empty tree: what a client sends first, it sends whole."""
        del call
        return {"id": NONE, "root": {}}

    def addresses(self, call: Call) -> dict[str, Any]:
        """Return where each file of a new snapshot can be written: in one folder of its own."""
        folder = self._folder(str(uuid.uuid4()))
        nodes = []
        for name in call.json(Fields({"FileNames": ListOf(WORD)})).get("FileNames") or ():
            path = folder.name_of(_relative(str(name)))
            url = self._services.blobs.sas_url(folder.container, path, permissions="rcw")
            nodes.append({"fullName": name, "blobUri": url, "blobName": path})
        return {"fileNodes": nodes}

    def create(self, call: Call) -> dict[str, Any]:
        """Make a snapshot of what was uploaded and of what its parent has of the same tree."""
        snapshot, body = call.params["snapshot"], call.json(SNAPSHOT)
        if self._services.store.assets.version("codes", snapshot, "1") is not None:
            return {"id": snapshot}
        sent = self._sent((body.get("FileRevisionList") or {}).get("FileNodes") or ())
        folder = next(iter(sent.values()), None) or self._folder(str(uuid.uuid4()))
        parent = str(body.get("ParentSnapshotId") or NONE)
        missing = [path for path in _files(body.get("DirTreeNode") or {}) if path not in sent]
        if missing and parent == NONE:
            raise bad_request(f"The snapshot lacks '{missing[0]}': it was not sent, and there is no parent snapshot.")
        if missing:
            source = self._services.folder(str(self._known(parent)["codeUri"]))
            for path in missing:
                self._copy(source, folder, path)
        uri = self._services.datastore_uri(folder)
        properties = {"tags": {}, "properties": {}, "isAnonymous": True, "codeUri": uri}
        self._services.store.assets.put("codes", snapshot, "1", properties)
        return {"id": snapshot}

    def zip(self, call: Call) -> dict[str, Any]:
        """Return where a snapshot can be read as one archive, made at the first request."""
        snapshot = call.params["snapshot"]
        folder = self._services.folder(str(self._known(snapshot)["codeUri"]))
        blobs = self._services.blobs
        target = Folder(container=folder.container, prefix=f"{FOLDER}/zips/{snapshot}.zip")
        if blobs.size(target.container, target.prefix) is None:
            with tempfile.SpooledTemporaryFile(max_size=SPOOLED_BYTES) as file:
                with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
                    for entry in blobs.walk(folder.container, folder.prefix):
                        with archive.open(entry.name, "w", force_zip64=True) as member:
                            for chunk in blobs.read(folder.container, folder.name_of(entry.name)):
                                member.write(chunk)
                length = file.tell()
                file.seek(0)
                blobs.write(target.container, target.prefix, file, length)
        return {"zipSasUri": blobs.sas_url(target.container, target.prefix)}

    def _known(self, snapshot: str) -> Mapping[str, Any]:
        version = self._services.store.assets.version("codes", snapshot, "1")
        if version is None:
            raise not_found(f"snapshot '{snapshot}'")
        return version.properties

    def _folder(self, name: str) -> Folder:
        return Folder(container=self._services.identity.blob_container, prefix=f"{FOLDER}/{name}")

    def _sent(self, nodes: Sequence[Mapping[str, Any]]) -> dict[str, Folder]:
        """Return the folder that each file was uploaded to; they are all in one."""
        found = {}
        for node in nodes:
            path = _relative(str(node.get("FullName") or ""))
            try:
                location = parse(str(node.get("BlobUri") or ""))
            except LocationError as error:
                raise bad_request(str(error)) from error
            if not isinstance(location, BlobPath) or not location.path.endswith(f"/{path}"):
                raise bad_request(f"The file '{path}' of the snapshot was not uploaded to where it was to be.")
            folder = Folder(container=location.container, prefix=location.path.removesuffix(f"/{path}"))
            root, _, name = folder.prefix.partition("/")
            if (folder.container, root) != (self._services.identity.blob_container, FOLDER) or "/" in name:
                raise bad_request(f"The file '{path}' of the snapshot was not uploaded to where it was to be.")
            found[path] = folder
        if len(set(found.values())) > 1:
            raise bad_request("The files of a snapshot were uploaded to several places.")
        return found

    def _copy(self, source: Folder, target: Folder, path: str) -> None:
        blobs = self._services.blobs
        size = blobs.size(source.container, source.name_of(path))
        if size is None:
            raise bad_request(f"The snapshot lacks '{path}': it was not sent, and its parent does not have it.")
        with tempfile.SpooledTemporaryFile(max_size=SPOOLED_BYTES) as file:
            for chunk in blobs.read(source.container, source.name_of(path)):
                file.write(chunk)
            file.seek(0)
            blobs.write(target.container, target.name_of(path), file, size)


def snapshot_id_of(services: Services, given: Any) -> str | None:
    """Return the snapshot that a run names, None where it names none: an empty folder has no changes to the snapshot that is none.

    Raises:
        ServiceError: 400 for one that is not there.
    """
    if not given or given == NONE:
        return None
    if services.store.assets.version("codes", str(given), "1") is None:
        raise bad_request(
            f"The snapshot '{given}' is not in this workspace. azureml-core remembers the last one that it sent in"
            " ~/.azureml/.projectcontent: remove that folder, and submit again."
        )
    return str(given)


def _files(node: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """Yield the paths of all files of a tree."""
    for name, child in (node.get("children") or {}).items():
        path = f"{above}{name}"
        if child.get("type") == "Directory":
            yield from _files(child, f"{path}/")
        else:
            yield _relative(path)


def _relative(path: str) -> str:
    try:
        return safe_relative(path)
    except UnsafePathError as error:
        raise bad_request(str(error)) from error
