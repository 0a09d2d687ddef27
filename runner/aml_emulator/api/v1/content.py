"""The content service of azureml-core, ``/content``: a snapshot is a code asset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aml_emulator.api.routing import Answers, Call, Route
from aml_emulator.context import Context
from aml_emulator.domain.snapshots import NO_SNAPSHOT, create_snapshot, snapshot_archive_url, snapshot_upload_urls
from aml_emulator.schema import TEXT, WORD, Fields, ListOf, Tree

NODES = ListOf(Fields({"FullName": WORD, "BlobUri": WORD}))
SNAPSHOT = Fields(
    {
        "FileRevisionList": Fields({"FileNodes": NODES}),
        "ParentSnapshotId": WORD,
        "DirTreeNode": Tree({"type": TEXT}, "children"),
    }
)


def routes(context: Context) -> Sequence[Route]:
    """Return the routes of snapshots."""
    content = Content(context)
    return (
        Route(method="GET", path="/content/v1.0{WS}/snapshots/latest/metadata", handler=content.latest),
        Route(method="POST", path="/content/v2.0{WS}/snapshots/getblob", handler=content.addresses),
        Route(method="POST", path="/content/v2.0{WS}/snapshots/{snapshot}", handler=content.create),
        Route(method="POST", path="/content/v2.0{WS}/snapshots/{snapshot}/zip", handler=content.zip),
    )


class Content(Answers):
    """Answers for snapshots."""

    def latest(self, call: Call) -> dict[str, Any]:
        """Return an empty tree: what a client sends first, it sends whole."""
        del call
        return {"id": NO_SNAPSHOT, "root": {}}

    def addresses(self, call: Call) -> dict[str, Any]:
        """Return where each file of a new snapshot can be written: in one separate folder."""
        names = call.json(Fields({"FileNames": ListOf(WORD)})).get("FileNames") or ()
        found = snapshot_upload_urls(self._context, map(str, names))
        return {
            "fileNodes": [
                {"fullName": name, "blobUri": found[str(name)][0], "blobName": found[str(name)][1]} for name in names
            ]
        }

    def create(self, call: Call) -> dict[str, Any]:
        """Create a snapshot of the uploaded files, and of those that its parent has."""
        snapshot, body = call.params["snapshot"], call.json(SNAPSHOT)
        create_snapshot(
            self._context,
            snapshot,
            nodes=(body.get("FileRevisionList") or {}).get("FileNodes") or (),
            parent=str(body.get("ParentSnapshotId") or NO_SNAPSHOT),
            tree=body.get("DirTreeNode") or {},
        )
        return {"id": snapshot}

    def zip(self, call: Call) -> dict[str, Any]:
        """Return where a snapshot can be read as one archive."""
        return {"zipSasUri": snapshot_archive_url(self._context, call.params["snapshot"])}
