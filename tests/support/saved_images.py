"""The file of ``docker save`` for an image that a test describes."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

#: A file's path → its contents.
Files = Mapping[str, str]


def layer(files: Files, *, mtime: float = 2_000_000_000.5, folders: Sequence[str] = ()) -> bytes:
    """Return the tar of a layer whose entries have *mtime*."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for folder in folders:
            info = tarfile.TarInfo(folder)
            info.type, info.mode, info.mtime = tarfile.DIRTYPE, 0o755, mtime
            archive.addfile(info)
        for path, text in files.items():
            info = tarfile.TarInfo(path)
            info.size, info.mode, info.mtime = len(text.encode()), 0o644, mtime
            info.pax_headers = {"SCHILY.xattr.user.note": "kept"}
            archive.addfile(info, io.BytesIO(text.encode()))
    return buffer.getvalue()


def write_saved(target: Path, layers: Sequence[bytes], *, compressed: bool = False, created: str = "") -> list[str]:
    """Write the file of ``docker save`` for an image of *layers*; return the digests of its layers."""
    digests = [f"sha256:{hashlib.sha256(one).hexdigest()}" for one in layers]
    config = {
        "architecture": "amd64",
        "os": "linux",
        "created": created or "2033-05-18T03:33:20.123456789Z",
        "container": "0123",
        "config": {"Hostname": "builder", "Env": ["A=b"], "Labels": {"org.opencontainers.image.title": "x"}},
        "history": [
            {"created": "2001-01-01T00:00:00Z", "created_by": "base"},
            {"created": created or "2033-05-18T03:33:20Z", "created_by": "RUN"},
        ],
        "rootfs": {"type": "layers", "diff_ids": digests},
    }
    names = [f"{number}/layer.tar" for number, _ in enumerate(layers)]
    manifest = [{"Config": "config.json", "RepoTags": ["x:1"], "Layers": names}]
    files = {"config.json": json.dumps(config).encode(), "manifest.json": json.dumps(manifest).encode()}
    files |= dict(zip(names, (gzip.compress(one) if compressed else one for one in layers), strict=True))
    with tarfile.open(target, "w:") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return digests
