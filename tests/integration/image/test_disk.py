"""The disk preflight with a real registry and engine."""

from __future__ import annotations

import secrets
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from aml_train.core.docker import BuildCli, engine_platform
from aml_train.core.errors import ImageError
from aml_train.core.events import Notice
from aml_train.core.references import ImageRef
from aml_train.image import disk
from aml_train.image.base import docker_registries, resolve_base
from aml_train.image.disk import Room, check_disk, find_room
from aml_train.image.inputs import BaseImage
from aml_train.image.registry.client import RegistryLocation
from aml_train.image.spec import ImageSpec
from tests.integration.conftest import BASE, Recorder
from tests.support.engine_images import forget, names

if TYPE_CHECKING:
    from docker import DockerClient


@pytest.fixture
def remote(engine: DockerClient, registry_location: RegistryLocation, cli: BuildCli) -> Iterator[BaseImage]:
    """A base of two layers, of which the engine has the first: the second is only in the registry."""
    name = f"{registry_location.push_name}/base-{secrets.token_hex(6)}"
    dockerfile = f"FROM {BASE}\nRUN head -c 3000000 /dev/urandom > /random\n"
    argv = [cli.path, *(["buildx"] if cli.buildx else []), "build", "--no-cache", "--quiet", f"--tag={name}:1", "-"]
    subprocess.run(argv, input=dockerfile, env=dict(cli.environ), text=True, check=True, capture_output=True)
    for message in engine.api.push(name, tag="1", stream=True, decode=True):
        assert "error" not in message, message
    engine.images.remove(f"{name}:1", force=True)
    found = resolve_base(
        ImageRef.parse(f"{name}:1"),
        platform=engine_platform(engine),
        engine=engine,
        registries=docker_registries({}),
    )
    assert found.digest is not None
    assert found.image_id is None
    yield found
    forget(engine, f"{name}@")


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What is free, as the preflight is told: the last item."""
    free = [10**15]
    monkeypatch.setattr(disk, "find_room", lambda *_: Room(path="/data", free=free[-1], how="a test says"))
    return free


@pytest.mark.full
def test_only_what_the_engine_lacks_counts(
    remote: BaseImage, engine: DockerClient, recorder: Recorder, room: list[int], cli: BuildCli
) -> None:
    platform = engine_platform(engine)
    check_disk(remote, platform, engine=engine, environ=cli.environ, listener=recorder)
    assert recorder.events == []

    room.append(1_000_000)
    with pytest.raises(
        ImageError, match=r"has 1 layer of \d+ that the engine lacks: 3\.0 MB to pull, about 6\.6 MB unpacked"
    ):
        check_disk(remote, platform, engine=engine, environ=cli.environ, listener=recorder)
    room.append(20_000_000)
    check_disk(remote, platform, engine=engine, environ=cli.environ, listener=recorder)
    assert [event.text.endswith("it will be tight.") for event in recorder.of(Notice)] == [True]


@pytest.mark.full
def test_the_stage_ends_before_anything_is_pulled(
    remote: BaseImage,
    spec: ImageSpec,
    ensure: object,
    engine: DockerClient,
    room: list[int],
    recorder: Recorder,
) -> None:
    room.append(0)
    assert callable(ensure)
    with pytest.raises(ImageError, match=r"the base does not fit the engine's disk: .* too little"):
        ensure(replace(spec, base=remote, dockerfile=f"FROM {remote.pinned}\n"), None)
    assert not [name for name in names(engine) if str(remote.digest) in name]


@pytest.mark.full
def test_the_room_of_a_local_engine_is_the_file_systems(engine: DockerClient) -> None:
    root = engine.info()["DockerRootDir"]
    if not Path(root).is_dir():
        pytest.skip("the engine is not on this machine")
    before = shutil.disk_usage(root).free
    found = find_room(engine, {})
    after = shutil.disk_usage(root).free
    assert found.path == root
    assert found.free is not None
    assert 0.8 * min(before, after) <= found.free <= 1.2 * max(before, after)
