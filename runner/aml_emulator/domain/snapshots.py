"""Snapshots of azureml-core: code assets in folders of the default datastore.

A client sends the files that changed since its last snapshot, and a tree of all of them. The others are copied from that
snapshot, so that each snapshot has all of its files in one folder.
"""

from __future__ import annotations

import tempfile
import uuid
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from aml_emulator.domain.errors import InvalidError, NotFoundError
from aml_emulator.domain.locations import BlobPath, parse_location
from aml_emulator.domain.workspace import Workspace
from aml_emulator.executor.layout import UnsafePathError, safe_relative
from aml_emulator.executor.spec import Folder

FOLDER: Final = "Snapshots"
"""The folder of the default datastore that holds snapshots."""

NO_SNAPSHOT: Final = str(uuid.UUID(int=0))
"""The id of the parent of a client's first snapshot."""

SPOOLED_BYTES: Final = 16 * 1024 * 1024


def snapshot_upload_urls(workspace: Workspace, names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Return the signed URL and the path of each file of a new snapshot."""
    folder = _folder(workspace, str(uuid.uuid4()))
    found = {}
    for name in names:
        path = folder.name_of(_relative(name))
        found[name] = (workspace.blobs.sas_url(folder.container, path, permissions="rcw"), path)
    return found


def create_snapshot(
    workspace: Workspace, snapshot: str, *, nodes: Sequence[Mapping[str, Any]], parent: str, tree: Mapping[str, Any]
) -> None:
    """Create a snapshot of the uploaded files, and of those of its parent's tree.

    Args:
        snapshot: its id; one that exists stays as it is.
        nodes: the uploaded files: ``FullName`` and ``BlobUri``.
        parent: the id of the snapshot that the tree was compared with.
        tree: all files of the snapshot.

    Raises:
        InvalidError: a file is missing, or was uploaded elsewhere.
        NotFoundError: there is no such parent.
    """
    if workspace.store.assets.version("codes", snapshot, "1") is not None:
        return
    sent = _sent(workspace, nodes)
    folder = next(iter(sent.values()), None) or _folder(workspace, str(uuid.uuid4()))
    missing = [path for path in _files(tree) if path not in sent]
    if missing and parent == NO_SNAPSHOT:
        raise InvalidError(f"The snapshot lacks '{missing[0]}': it was not sent, and there is no parent snapshot.")
    if missing:
        source = workspace.folder(str(_known(workspace, parent)["codeUri"]))
        for path in missing:
            _copy(workspace, source, folder, path)
    properties = {"isAnonymous": True, "codeUri": workspace.datastore_uri(folder)}
    workspace.store.assets.put("codes", snapshot, "1", properties)


def snapshot_archive_url(workspace: Workspace, snapshot: str) -> str:
    """Return the signed URL of a snapshot's zip archive, created at first request."""
    folder = workspace.folder(str(_known(workspace, snapshot)["codeUri"]))
    blobs = workspace.blobs
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
    return blobs.sas_url(target.container, target.prefix)


def snapshot_id_of(workspace: Workspace, given: Any) -> str | None:
    """Return the snapshot that a run names, or None.

    Raises:
        InvalidError: there is no such snapshot.
    """
    if not given or given == NO_SNAPSHOT:
        return None
    if workspace.store.assets.version("codes", str(given), "1") is None:
        raise InvalidError(
            f"The snapshot '{given}' is not in this workspace. azureml-core remembers the last one that it sent in"
            " ~/.azureml/.projectcontent: remove that folder, and submit again."
        )
    return str(given)


def _known(workspace: Workspace, snapshot: str) -> Mapping[str, Any]:
    version = workspace.store.assets.version("codes", snapshot, "1")
    if version is None:
        raise NotFoundError(f"snapshot '{snapshot}'")
    return version.properties


def _folder(workspace: Workspace, name: str) -> Folder:
    return Folder(container=workspace.identity.blob_container, prefix=f"{FOLDER}/{name}")


def _sent(workspace: Workspace, nodes: Sequence[Mapping[str, Any]]) -> dict[str, Folder]:
    """Return the folder that each file was uploaded to; they are all in one."""
    found = {}
    for node in nodes:
        path = _relative(str(node.get("FullName") or ""))
        location = parse_location(str(node.get("BlobUri") or ""))
        if not isinstance(location, BlobPath) or not location.path.endswith(f"/{path}"):
            raise InvalidError(f"The file '{path}' of the snapshot was not uploaded to where it was to be.")
        folder = Folder(container=location.container, prefix=location.path.removesuffix(f"/{path}"))
        root, _, name = folder.prefix.partition("/")
        if (folder.container, root) != (workspace.identity.blob_container, FOLDER) or "/" in name:
            raise InvalidError(f"The file '{path}' of the snapshot was not uploaded to where it was to be.")
        found[path] = folder
    if len(set(found.values())) > 1:
        raise InvalidError("The files of a snapshot were uploaded to several places.")
    return found


def _copy(workspace: Workspace, source: Folder, target: Folder, path: str) -> None:
    blobs = workspace.blobs
    size = blobs.size(source.container, source.name_of(path))
    if size is None:
        raise InvalidError(f"The snapshot lacks '{path}': it was not sent, and its parent does not have it.")
    with tempfile.SpooledTemporaryFile(max_size=SPOOLED_BYTES) as file:
        for chunk in blobs.read(source.container, source.name_of(path)):
            file.write(chunk)
        file.seek(0)
        blobs.write(target.container, target.name_of(path), file, size)


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
        raise InvalidError(str(error)) from error
