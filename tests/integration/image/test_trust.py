"""A proposal poisons pip's cache of the engine, and builds what the protected branch is about to build."""

from __future__ import annotations

import base64
import hashlib
import io
import shutil
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pip
import pytest

from aml_train.core.files import FileSet
from aml_train.core.trust import PROTECTED, Trust, proposal
from aml_train.image.build.build import CACHE_TAG
from aml_train.image.registry.client import Registry, RegistryLocation
from aml_train.image.spec import ImageSpec, Tested
from tests.integration.image.conftest import Ensure
from tests.integration.image.package_index import wheel
from tests.support.engine_images import forget

if TYPE_CHECKING:
    from docker import DockerClient

PULL = proposal(pull="7")
#: A build backend that needs nothing: an sdist whose wheel pip builds, and keeps in its cache.
BACKEND = """\
import base64, pathlib
def build_wheel(folder, *_more):
    name = "our_package-1.0-py3-none-any.whl"
    pathlib.Path(folder, name).write_bytes(base64.b64decode(pathlib.Path("wheel.txt").read_text()))
    return name
"""
#: What a Dockerfile of a proposal can do with the cache mount of every other one that has its id.
POISON = """\
import json, pathlib, sys
sys.path.insert(0, "/src/tools")
from pip._internal.cache import SimpleWheelCache
from pip._internal.models.link import Link
link = Link("file:///src/dist/our_package-1.0.tar.gz")
folder = pathlib.Path(SimpleWheelCache("/cache").get_path_for_link(link))
folder.mkdir(parents=True, exist_ok=True)
wheel = pathlib.Path("/src/evil/our_package-1.0-py3-none-any.whl")
(folder / wheel.name).write_bytes(wheel.read_bytes())
hashes = {"sha256": sys.argv[1]}
(folder / "origin.json").write_text(json.dumps({"url": link.url, "archive_info": {"hashes": hashes}}))
"""
MOUNT = "RUN --mount=type=cache,id=pip,target=/cache"


def write_packages(folder: Path) -> str:
    """Write an sdist, a poisoned wheel of the same version, and a new pip; return the sdist's SHA-256."""
    name, clean = wheel("our-package", "1.0")
    evil = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(clean)) as source, zipfile.ZipFile(evil, "w") as poisoned:
        for path in source.namelist():
            poisoned.writestr(path, source.read(path).replace(b"__version__ = '1.0'", b"__version__ = 'bad'"))
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path, text in {
            "PKG-INFO": "Metadata-Version: 2.1\nName: our-package\nVersion: 1.0\n",
            "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
            "backend.py": BACKEND,
            "wheel.txt": base64.b64encode(clean).decode(),
        }.items():
            entry = tarfile.TarInfo(f"our_package-1.0/{path}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    for path, content in {
        "dist/our_package-1.0.tar.gz": buffer.getvalue(),
        f"evil/{name}": evil.getvalue(),
        "poison.py": POISON.encode(),
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    shutil.copytree(Path(pip.__file__).parent, folder / "tools/pip", ignore=shutil.ignore_patterns("__pycache__"))
    return hashlib.sha256(buffer.getvalue()).hexdigest()


@pytest.mark.full
@pytest.mark.parametrize("hashes", [False, True])
def test_a_poisoned_wheel_does_not_reach_the_protected_branch(
    hashes: bool,
    spec: ImageSpec,
    ensure: Ensure,
    engine: DockerClient,
    registry: Registry,
    registry_location: RegistryLocation,
    tmp_path: Path,
) -> None:
    digest = write_packages(tmp_path)
    requirement = f"our-package==1.0 --hash=sha256:{digest}" if hashes else "our-package==1.0"
    (tmp_path / "requirements.txt").write_text(f"{requirement}\n")
    files = FileSet.collect(tmp_path)

    def built(trust: Trust, step: str) -> Tested:
        text = f"FROM {spec.base.pinned}\nCOPY . /src/\n{MOUNT} {step}\nLABEL of={spec.repository}\n"
        address = hashlib.sha256(text.encode()).hexdigest()
        own = replace(spec, dockerfile=text, address=address, files={}, trees={"": files})
        return ensure(own.trusted(trust), None)

    def version(image: Tested) -> str:
        name = f"{registry_location.push_name}/{image.reference.repository}@{image.digest}"
        command = ["python", "-c", "import our_package; print(our_package.__version__)"]
        return engine.containers.run(name, command, network_mode="none", remove=True).decode().strip()

    install = (
        "PYTHONPATH=/src/tools PIP_BREAK_SYSTEM_PACKAGES=1 python -m pip --use-deprecated=legacy-certs --cache-dir=/cache "
        f"install --no-index --find-links=/src/dist {'--require-hashes' if hashes else ''} -r /src/requirements.txt"
    )
    try:
        built(PULL, f"python /src/poison.py {digest}")
        theirs = built(PULL, install)
        assert version(theirs) == "bad", "the poison works, where it is read"
        ours = built(PROTECTED, install)
        assert (ours.how, version(ours), theirs.address == ours.address) == ("built", "1.0", True)
        assert ours.reference.repository == spec.repository
        # Neither the registry's cache, nor what a later proposal finds.
        caches = [
            registry.head_manifest(place, CACHE_TAG) for place in (spec.repository, theirs.reference.repository)
        ]
        assert caches == [ours.digest, theirs.digest]
        again = built(proposal(pull="8"), install)
        assert (again.how, again.digest) == ("found", ours.digest)
    finally:
        forget(engine, f"{registry_location.push_name}/{spec.repository}-proposals")
