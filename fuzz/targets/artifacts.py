"""Archives: the zip of a report, layers of images, notebooks."""

from __future__ import annotations

import base64
import binascii
import io
import tarfile
import zipfile
from collections.abc import Sequence
from typing import Any

from aml_train.core.errors import AmlTrainError
from aml_train.image.base_files import find_in_layer, installed_drivers, named_drivers, parse_os_release, rdma_core
from aml_train_action.pulls.artifact import unpack
from fuzz.mutation import Mutator
from fuzz.seeds import files
from fuzz.target import Target, require

_MOST = 100_000


def _zip(*names: str, content: bytes = b'{"a": 1}', method: int = zipfile.ZIP_DEFLATED) -> str:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", method) as archive:
        for name in names:
            archive.writestr(zipfile.ZipInfo(name), content, method)
    return base64.b64encode(data.getvalue()).decode()


def _layer(mode: Any) -> str:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode=mode) as archive:
        content = b'ID=ubuntu\nVERSION_ID="22.04"\n'
        for name in ("etc/os-release", "x"):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return base64.b64encode(data.getvalue()).decode()


def seeds() -> Sequence[Any]:
    """Return archives, and texts of images."""
    status = "Package: rdma-core\nStatus: install ok installed\nVersion: 56.0\n\nPackage: libibverbs1\nStatus: install ok installed\nVersion: 1\n"
    return [
        {"zip": _zip("pr-report.json"), "text": 'ID=ubuntu\nVERSION_ID="22.04"\n'},
        {"zip": _zip("pr-report.json", content=b"0" * 200_000), "text": status},
        {"zip": _zip("pr-report.json", "b"), "text": "ID='rocky'\nVERSION_ID=9\n# x\nNAME=\"a b\"\n"},
        {"zip": _zip("../pr-report.json", method=zipfile.ZIP_BZIP2), "text": "MOFED 5.4-rdmacore56.0"},
        {"zip": _layer("w:gz"), "text": files("examples/notebook/*.ipynb")[0][:3000]},
        {
            "zip": _layer("w"),
            "text": '{"cells": [{"cell_type": "code", "source": ["%pip install x\\n", "import azure.ai.ml\\n"]}], "nbformat": 4}',
        },
    ]


def _bytes(encoded: str) -> bytes:
    """Return what base64 stands for; nothing if it is none."""
    try:
        return base64.b64decode(encoded.encode("ascii", "ignore"))
    except binascii.Error:
        return b""


def check(value: Any) -> None:
    """Read an archive's bytes, and a text as a file of an image."""
    given = value if isinstance(value, dict) else {}
    encoded, text = given.get("zip"), given.get("text")
    if isinstance(encoded, str):
        data = _bytes(encoded)
        try:
            content = unpack(data, origin="the artifact x", most=_MOST)
            require(len(content) <= _MOST, "more than allowed was unpacked")
        except AmlTrainError as error:
            require("the artifact x" in str(error), f"the refusal names nothing: {error}")
        found = find_in_layer(iter([data[:100], data[100:]]), limit=_MOST)
        require(found is None or len(found) <= _MOST, "a file of a layer is too large")
    if isinstance(text, str):
        parse_os_release(text)
        installed_drivers(text)
        rdma_core({"MOFED_VERSION": text})
        named_drivers({"MOFED_VERSION": text})


def mutate(mutator: Mutator, value: Any) -> Any:
    """Change the bytes of the archive, or the text."""
    if not isinstance(value, dict) or not isinstance(value.get("zip"), str) or mutator.rng.random() < 0.4:
        return mutator.value(value)
    data = bytearray(_bytes(value["zip"]))
    for _ in range(mutator.rng.randint(1, 6)):
        if not data:
            break
        at = mutator.rng.randrange(len(data))
        match mutator.rng.randrange(3):
            case 0:
                data[at] = mutator.rng.randrange(256)
            case 1:
                del data[at : at + mutator.rng.randint(1, 8)]
            case _:
                data[at:at] = mutator.rng.randbytes(mutator.rng.randint(1, 4))
    return {**value, "zip": base64.b64encode(bytes(data)).decode()}


TARGET = Target(
    kind="json",
    reads=("aml_train_action.pulls.artifact", "aml_train.image.base_files"),
    seeds=seeds,
    check=check,
    words=(
        "ID=",
        "VERSION_ID=",
        '"',
        "'",
        "Package: ",
        "Status: ",
        "Version: ",
        '"cells"',
        '"source"',
        "%%bash",
        "!pip",
        "\n\n",
    ),
    mutate=mutate,
)
