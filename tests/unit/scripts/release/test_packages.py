"""The packages of an image, from its own records and from an SBOM."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts.release.commands import ReleaseError
from scripts.release.layout import Layout, write_layout
from scripts.release.packages import Package, check_sbom, read_packages, read_sbom
from tests.support.saved_images import layer, write_saved

STATUS = """\
Package: git
Status: install ok installed
Version: 1:2.39.5-0+deb12u2
Description: fast
 version control

Package: gone
Status: deinstall ok config-files
Version: 1
"""
METADATA = "Metadata-Version: 2.1\nName: Ruamel.YAML\nVersion: 0.18\n\nPackage: text\n"
LOCK = {
    "packages": {
        "": {"name": "root", "version": "1"},
        "node_modules/@azure/core": {"version": "2.0.0"},
        "node_modules/a/node_modules/b": {"version": "3.0.0"},
        "node_modules/esbuild": {"version": "4.0.0", "dev": True},
    }
}


def image(folder: Path) -> Layout:
    layers = [
        layer(
            {
                "var/lib/dpkg/status": "Package: old\nVersion: 1\n",
                "opt/x-1.dist-info/METADATA": "Name: x\nVersion: 1\n",
            }
        ),
        layer(
            {
                "./var/lib/dpkg/status": STATUS,
                "var/lib/dpkg/status.d/docker-cli": "Package: docker-cli\nVersion: 26.1\n",
                "opt/.wh.x-1.dist-info": "",
                "opt/lib/y-2.dist-info/METADATA": METADATA,
                "opt/app/package-lock.json": json.dumps(LOCK),
                "opt/other.json": "{}",
            }
        ),
    ]
    write_saved(folder / "saved", layers)
    return write_layout(folder / "saved", folder / "x.tar", epoch=1, base_layers=(), name="x:1")


FOUND = {
    Package(kind="deb", name="git", version="1:2.39.5-0+deb12u2"),
    Package(kind="deb", name="docker-cli", version="26.1"),
    Package(kind="pypi", name="ruamel-yaml", version="0.18"),
    Package(kind="npm", name="@azure/core", version="2.0.0"),
    Package(kind="npm", name="b", version="3.0.0"),
}


def test_the_packages_are_those_of_the_last_layer(tmp_path: Path) -> None:
    assert read_packages(image(tmp_path)) == FOUND


def document(packages: set[Package]) -> dict[str, object]:
    """Return an SPDX document as syft writes it."""
    return {
        "packages": [
            {
                "name": {"ruamel-yaml": "ruamel.yaml"}.get(one.name, one.name),
                "versionInfo": one.version,
                "externalRefs": [
                    {"referenceType": "cpe23Type", "referenceLocator": "cpe:2.3:a:x"},
                    {"referenceType": "purl", "referenceLocator": f"pkg:{one.kind}/{one.name}@{one.version}"},
                ],
            }
            for one in sorted(packages)
        ]
        + [
            {
                "name": "stdlib",
                "versionInfo": "go1",
                "externalRefs": [{"referenceType": "purl", "referenceLocator": "pkg:golang/stdlib@1"}],
            },
            {"name": "the image itself"},
        ]
    }


def test_a_list_that_has_every_package_passes(tmp_path: Path) -> None:
    assert read_sbom(document(FOUND)) == FOUND
    (tmp_path / "x.spdx.json").write_text(json.dumps(document(FOUND)))
    assert check_sbom(image(tmp_path), tmp_path / "x.spdx.json") == len(FOUND)


@pytest.mark.parametrize("missing", sorted(FOUND), ids=str)
def test_a_list_that_lacks_a_package_fails_with_its_name(tmp_path: Path, missing: Package) -> None:
    (tmp_path / "x.spdx.json").write_text(json.dumps(document(FOUND - {missing})))
    with pytest.raises(ReleaseError, match="lacks 1 packages of the image: ") as caught:
        check_sbom(image(tmp_path), tmp_path / "x.spdx.json")
    assert str(missing) in str(caught.value)
