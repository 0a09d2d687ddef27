"""The packages in an image: the list that syft makes, and its check.

The check reads the records of dpkg, pip and npm in the layers.
"""

from __future__ import annotations

import io
import json
import re
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path, PurePosixPath
from typing import Any, Final, Literal, cast

from scripts.release.commands import ReleaseError, run, tool
from scripts.release.layout import Layout

_DPKG: Final = re.compile(r"var/lib/dpkg/(?:status|status\.d/[^/]+)")
_PYTHON: Final = re.compile(r".*\.dist-info/METADATA")
_LOCK: Final = re.compile(r".*/package-lock\.json")
_WHITEOUT: Final = ".wh."
_OPAQUE: Final = ".wh..wh..opq"


@dataclass(frozen=True, kw_only=True, order=True)
class Package:
    """One installed package; *kind* is the type in its package URL."""

    kind: Literal["deb", "pypi", "npm"]
    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name} {self.version}"


def write_sbom(layout: Layout, target: Path, *, name: str, version: str) -> int:
    """Write the packages of an image into *target*; return their number.

    npm's packages are bundled into one file of the image, so that they are read from the lock file next to it.

    Raises:
        ReleaseError: syft fails, or its list lacks a package that the image's own records name.
    """
    argv = [tool("syft"), "scan", f"oci-archive:{layout.file}", f"--output=spdx-json={target}"]
    argv += [f"--source-name={name}", f"--source-version={version}", "--select-catalogers=+javascript-lock-cataloger"]
    run(argv, cwd=target.parent, environ={"SYFT_CHECK_FOR_APP_UPDATE": "false"})
    return check_sbom(layout, target)


def check_sbom(layout: Layout, file: Path) -> int:
    """Return the number of packages in an SBOM that has all packages of an image.

    Raises:
        ReleaseError: it lacks one.
    """
    listed = read_sbom(json.loads(file.read_text(encoding="utf-8")))
    if missing := sorted(read_packages(layout) - listed):
        named = ", ".join(map(str, missing[:10])) + (", …" if len(missing) > 10 else "")
        raise ReleaseError(f"{file.name} lacks {len(missing)} packages of the image: {named}")
    return len(listed)


def read_packages(layout: Layout) -> set[Package]:
    """Return every package of apt, pip and npm that the image's own records name."""
    found: set[Package] = set()
    for path, content in final_files(layout.read(blob) for blob in layout.blobs[1:]).items():
        text = content.decode("utf-8", errors="replace")
        if _DPKG.fullmatch(path):
            found.update(_debian(text))
        elif _PYTHON.fullmatch(path):
            headers = HeaderParser().parsestr(text, headersonly=True)
            found.add(Package(kind="pypi", name=normal(headers["Name"]), version=headers["Version"]))
        else:
            found.update(_node(json.loads(text)))
    return found


def final_files(layers: Iterable[bytes]) -> dict[str, bytes]:
    """Return the records of packages as the last layer leaves them: path → contents."""
    files: dict[str, bytes] = {}
    for layer in layers:
        with tarfile.open(fileobj=io.BytesIO(layer), mode="r:gz") as archive:
            added: dict[str, bytes] = {}
            for member in archive:
                path = PurePosixPath(member.name.removeprefix("./"))
                if path.name == _OPAQUE:
                    _remove(files, str(path.parent))
                elif path.name.startswith(_WHITEOUT):
                    _remove(files, str(path.with_name(path.name.removeprefix(_WHITEOUT))))
                elif member.isreg() and any(kind.fullmatch(str(path)) for kind in (_DPKG, _PYTHON, _LOCK)):
                    stream = archive.extractfile(member)
                    added[str(path)] = stream.read() if stream else b""
        files |= added
    return files


def _remove(files: dict[str, bytes], path: str) -> None:
    for name in [name for name in files if f"{name}/".startswith(f"{path}/")]:
        del files[name]


def _debian(text: str) -> Iterator[Package]:
    for paragraph in text.split("\n\n"):
        headers = HeaderParser().parsestr(paragraph.strip("\n"), headersonly=True)
        removed = not (headers["Status"] or "install ok installed").endswith(" installed")
        if headers["Package"] and not removed:
            yield Package(kind="deb", name=headers["Package"], version=headers["Version"])


def _node(lock: Any) -> Iterator[Package]:
    """Yield the packages of a package-lock.json, without those of its build."""
    for path, one in lock.get("packages", {}).items():
        if path and not one.get("dev") and "version" in one:
            name = one.get("name") or path.rpartition("node_modules/")[2]
            yield Package(kind="npm", name=name, version=one["version"])


def read_sbom(document: Any) -> set[Package]:
    """Return the packages of apt, pip and npm that an SPDX document names."""
    found = set()
    for one in document.get("packages", ()):
        for reference in one.get("externalRefs", ()):
            kind = reference["referenceLocator"].removeprefix("pkg:").partition("/")[0]
            if reference["referenceType"] == "purl" and kind in ("deb", "pypi", "npm"):
                known = cast("Literal['deb', 'pypi', 'npm']", kind)
                name = normal(one["name"]) if kind == "pypi" else one["name"]
                found.add(Package(kind=known, name=name, version=one["versionInfo"]))
    return found


def normal(name: str) -> str:
    """Return the normalized name of a Python package (PyPA specification of names)."""
    return re.sub(r"[-_.]+", "-", name).lower()
