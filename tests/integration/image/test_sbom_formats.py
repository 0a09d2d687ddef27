"""Lists of packages, as syft writes them with our options, by the tools of their formats."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from aml_train.image.sbom import SbomFormat, arguments, find_syft

_STATUS = """\
Package: libc6
Status: install ok installed
Priority: optional
Section: libs
Maintainer: GNU Libc Maintainers <debian-glibc@lists.debian.org>
Architecture: amd64
Source: glibc
Version: 2.41-12
Description: GNU C Library
"""
_SECONDS = 300


def image(folder: Path) -> Path:
    """Write the file system of an image: one package of apt and one of pip."""
    files = {
        "var/lib/dpkg/status": _STATUS,
        "etc/os-release": 'ID=debian\nVERSION_ID="13"\n',
        "usr/lib/python3/dist-packages/numpy-2.3.0.dist-info/METADATA": "Metadata-Version: 2.4\nName: numpy\nVersion: 2.3.0\n",
        "usr/lib/python3/dist-packages/numpy-2.3.0.dist-info/RECORD": "numpy/__init__.py,,\n",
    }
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def listed(folder: Path, format_: SbomFormat) -> str:
    """Return the list that syft writes outside a container, with the options that it gets inside."""
    options = [
        f"dir:{folder}" if one == "dir:/" else one.partition("=/")[0]
        for one in arguments(format_, "amllocal.azurecr.io/digits", f"sha256:{'1' * 64}")[1:]
    ]
    done = subprocess.run(
        [str(find_syft(os.environ)), *options],
        env={**os.environ, "SYFT_CHECK_FOR_APP_UPDATE": "false"},
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_list_of_cyclonedx_follows_its_schema(tmp_path: Path) -> None:
    found = listed(image(tmp_path), "cyclonedx")
    document = json.loads(found)
    assert {"libc6", "numpy"} <= {one["name"] for one in document["components"]}
    version = SchemaVersion.from_version(document["specVersion"])
    assert JsonStrictValidator(version).validate_str(found) is None


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_list_of_spdx_is_a_valid_document(tmp_path: Path) -> None:
    from spdx_tools.spdx.parser.parse_anything import parse_file
    from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

    file = tmp_path / "list.spdx.json"
    file.write_text(listed(image(tmp_path / "root"), "spdx"))
    document = parse_file(str(file))
    assert {"libc6", "numpy"} <= {one.name for one in document.packages}
    assert document.creation_info.spdx_version == "SPDX-2.3"
    assert validate_full_spdx_document(document) == []
