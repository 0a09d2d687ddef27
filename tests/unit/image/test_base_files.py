from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Mapping
from typing import Any

import pytest

from aml_train.core.errors import ImageError
from aml_train.core.references import ImageRef
from aml_train.image.base import BaseImages
from aml_train.image.base_files import (
    find_in_layer,
    installed_drivers,
    named_drivers,
    parse_os_release,
)
from aml_train.image.inputs import BaseImage
from aml_train.image.registry.client import Registry
from aml_train.image.registry.manifest import sha256_digest
from tests.unit.image.registry.fake_registry import FakeRegistry

STATUS = """\
Package: libibverbs1
Status: install ok installed
Version: 39.0-1
Description: Library for direct userspace use of RDMA
 Status: of a description

Package: ibverbs-providers
Status: {status}
Version: 39.0-1
"""


@pytest.mark.parametrize(
    ("text", "os"),
    [
        ('NAME="Ubuntu"\nVERSION_ID="22.04"\nID=ubuntu\n', "ubuntu22.04"),
        ("ID=debian\nVERSION_ID='12'\n# ID=x\n", "debian12"),
        ("ID=debian\n", None),
        ('ID="bro\nVERSION_ID=1\n', None),
        ("", None),
    ],
)
def test_os_release(text: str, os: str | None) -> None:
    assert parse_os_release(text) == os


def test_os_release_in_a_layer() -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in (
            ("etc/passwd", b"x" * 5000),
            ("./usr/lib/os-release", b"ID=ubuntu\n"),
            ("later", b"y" * 50_000),
        ):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    read = 0

    def chunks(content: bytes) -> Any:
        nonlocal read
        for start in range(0, len(content), 700):
            read += 1
            yield content[start : start + 700]

    assert find_in_layer(chunks(buffer.getvalue())) == "ID=ubuntu\n"
    assert read < 40
    assert find_in_layer(chunks(gzip.compress(buffer.getvalue()))) == "ID=ubuntu\n"
    assert find_in_layer(chunks(b"\x28\xb5\x2f\xfd" * 300)) is None
    assert find_in_layer(iter(())) is None


@pytest.mark.parametrize(
    ("environment", "drivers"),
    [
        ({"RDMACORE_VERSION": "56.0", "MOFED_VERSION": "5.4-rdmacore56.0"}, "rdma-core 56.0 (RDMACORE_VERSION)"),
        ({"MOFED_VERSION": "5.4-rdmacore36.0"}, "rdma-core 36.0 (MOFED_VERSION)"),
        ({"MOFED_VERSION": "5.1-2.3.7"}, "MLNX_OFED 5.1-2.3.7 (MOFED_VERSION)"),
        ({"MOFED_VERSION": "", "CUDA_VERSION": "12"}, None),
        ({}, None),
    ],
)
def test_drivers_that_variables_name(environment: dict[str, str], drivers: str | None) -> None:
    assert named_drivers(environment) == drivers


def test_drivers_in_dpkgs_list() -> None:
    found = installed_drivers(STATUS.format(status="install ok installed"))
    assert found == "libibverbs1 and ibverbs-providers 39.0-1 (dpkg)"
    assert installed_drivers(STATUS.format(status="deinstall ok config-files")) is None
    assert installed_drivers("") is None


def layer(files: Mapping[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    return buffer.getvalue()


def in_registry(
    layers: list[bytes], *, env: list[str] | None = None, kind: str = "tar+gzip", size: int | None = None
) -> tuple[BaseImages, BaseImage, FakeRegistry]:
    """Return a base that only a registry has, behind an index."""
    server = FakeRegistry()

    def put(content: bytes) -> dict[str, Any]:
        digest = sha256_digest(content)
        server.blobs["team/base", digest] = content
        return {"digest": digest, "size": len(content)}

    document = {
        "config": put(json.dumps({"config": {"Env": env or ["PATH=/bin"]}}).encode()),
        "layers": [
            {
                **put(one),
                "mediaType": f"application/vnd.oci.image.layer.v1.{kind}",
                **({"size": size} if size else {}),
            }
            for one in layers
        ],
    }
    content = json.dumps(document).encode()
    digest = sha256_digest(content)
    server.manifests["team/base", digest] = (content, "application/vnd.oci.image.manifest.v1+json")
    platform = {"os": "linux", "architecture": "amd64"}
    index = json.dumps({"manifests": [{"digest": digest, "size": len(content), "platform": platform}]}).encode()
    top = sha256_digest(index)
    server.manifests["team/base", top] = (index, "application/vnd.oci.image.index.v1+json")
    files = BaseImages(
        engine=lambda: None,
        registries=lambda name: Registry(f"https://{name}", transport=server, attempts=1),
    )
    return files, BaseImage(reference=ImageRef.parse("r.test/team/base:1"), digest=top), server


def test_the_latest_list_of_packages_of_a_base_in_a_registry_counts() -> None:
    installed = {"var/lib/dpkg/status": STATUS.format(status="install ok installed")}
    removed = {"var/lib/dpkg/status": STATUS.format(status="deinstall ok config-files")}
    files, base, _ = in_registry([layer(installed), layer({"etc/x": "y"})])
    assert files.drivers(base, "linux/amd64") == "libibverbs1 and ibverbs-providers 39.0-1 (dpkg)"
    files, base, _ = in_registry([layer(installed), layer(removed)])
    assert files.drivers(base, "linux/amd64") is None


@pytest.mark.parametrize(
    ("content", "options"),
    [
        (layer({"etc/alpine-release": "3"}), {}),
        (layer({"var/lib/dpkg/status": ""}), {"kind": "tar+zstd"}),
        (layer({"var/lib/dpkg/status": ""}), {"size": 5 << 30}),
    ],
    ids=["no list", "zstd", "large"],
)
def test_unknown_drivers_are_not_taken_for_none(content: bytes, options: dict[str, Any]) -> None:
    files, base, _ = in_registry([content], **options)
    with pytest.raises(ImageError, match=r"the drivers of the base r\.test/team/base:1 are not known") as caught:
        files.drivers(base, "linux/amd64")
    assert caught.value.hint == "Pull it first (docker pull), or write `ofed: none` or `ofed: distro`."


def test_a_base_that_is_not_made_for_the_platform() -> None:
    files, base, _ = in_registry([layer({})])
    with pytest.raises(ImageError, match="is not made for linux/arm64") as caught:
        files.distribution(base, "linux/arm64")
    assert caught.value.hint == "Give image.platform."
