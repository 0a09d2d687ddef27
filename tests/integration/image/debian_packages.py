"""Debian packages and flat repositories of them, made without Debian's tools."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Mapping


def deb(name: str, version: str, *, depends: str = "", files: Mapping[str, bytes] | None = None) -> bytes:
    """Return a package for all architectures that holds *files* (absolute path → contents)."""
    control = f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: Test <test@example.com>\n"
    control += (f"Depends: {depends}\n" if depends else "") + "Description: a test's\n"
    members = {
        "debian-binary": b"2.0\n",
        "control.tar.gz": _tar({"control": control.encode()}),
        "data.tar.gz": _tar({path.lstrip("/"): content for path, content in (files or {}).items()}),
    }
    archive = b"!<arch>\n"
    for member, content in members.items():
        archive += f"{member:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode() + content
        archive += b"\n" if len(content) % 2 else b""
    return archive


def repository(packages: Mapping[str, bytes], label: str) -> dict[str, bytes]:
    """Return the files of a flat repository of packages: path → contents.

    Args:
        packages: ``NAME_VERSION`` → the package; its file is below ``pool``.
        label: its Label, which apt's preferences can name.
    """
    index = "".join(_entry(name, content) for name, content in packages.items())
    digest = hashlib.sha256(index.encode()).hexdigest()
    release = f"Label: {label}\nDate: Mon, 01 Jan 2024 00:00:00 UTC\nSHA256:\n {digest} {len(index)} Packages\n"
    return {
        "Packages": index.encode(),
        "Release": release.encode(),
        **{f"pool/{name}_all.deb": content for name, content in packages.items()},
    }


def _entry(name: str, content: bytes) -> str:
    control = _control(content)
    place = f"Filename: ./pool/{name}_all.deb\nSize: {len(content)}\n"
    return f"{control}{place}SHA256: {hashlib.sha256(content).hexdigest()}\n\n"


def _control(content: bytes) -> str:
    """Return the control file of a package that :func:`deb` made."""
    start = content.index(b"control.tar.gz")
    size = int(content[start + 48 : start + 58])
    with tarfile.open(fileobj=io.BytesIO(content[start + 60 : start + 60 + size])) as archive:
        file = archive.extractfile("./control")
        if file is None:
            raise ValueError("the package has no control file")
        return file.read().decode()


def _tar(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path, content in files.items():
            info = tarfile.TarInfo(f"./{path}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()
