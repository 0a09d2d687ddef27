from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from aml_train.core.docker import BuildCli, engine_platform
from aml_train.core.errors import ImageError
from aml_train.core.references import ImageRef
from aml_train.image.base import BaseImages, docker_registries
from aml_train.image.build.build import build_image
from aml_train.image.push import push_image
from aml_train.image.registry.client import Registry, RegistryLocation
from aml_train.image.spec import ImageSpec
from tests.integration.conftest import BASE, Recorder
from tests.support.ports import free_port

if TYPE_CHECKING:
    from docker import DockerClient


def test_image_of_this_engine_only(engine: DockerClient) -> None:
    name = f"aml-train-test-{secrets.token_hex(6)}:only-here"
    engine.images.get(BASE).tag(name)
    try:
        base = BaseImages(
            engine=lambda: engine,
            registries=docker_registries({}),
        ).resolve(ImageRef.parse(name), engine_platform(engine))
    finally:
        engine.images.remove(name)
    assert (base.local_only, base.pinned, base.identity) == (
        True,
        name,
        engine.images.get(BASE).id,
    )


@pytest.mark.full
def test_a_tag_that_moved_in_the_registry_is_what_is_built_from(
    engine: DockerClient,
    cli: BuildCli,
    registry_location: RegistryLocation,
    registry: Registry,
    repository: str,
    recorder: Recorder,
) -> None:
    name = f"{registry_location.push_name}/{repository}"
    platform = engine_platform(engine)
    engine.images.get(BASE).tag(name, "base")
    old = push_image(engine, name, "base", auth=None, listener=recorder)
    first = BaseImages(engine=lambda: engine, registries=docker_registries({})).resolve(
        ImageRef.parse(BASE), platform
    )
    text = f"FROM {first.pinned}\nRUN echo {repository} > /moved\n"
    moved = ImageSpec(base=first, platform=platform, repository="x", dockerfile=text, address="0" * 64)
    build_image(moved, cli=cli, engine=engine, tag=f"{name}:other", listener=recorder)
    new = push_image(engine, name, "other", auth=None, listener=recorder)
    manifest = registry.get_manifest(repository, new)
    assert manifest is not None
    registry.put_tag(repository, "base", manifest)
    engine.images.remove(f"{name}:other", force=True)

    remarks: list[str] = []
    base = BaseImages(
        engine=lambda: engine,
        registries=docker_registries({}),
        remark=remarks.append,
    ).resolve(ImageRef.parse(f"{name}:base"), platform)
    assert (base.digest, base.image_id) == (new, None)
    assert f"the registry has {new[:19]}, the engine {old[:19]}" in remarks[0]

    spec = ImageSpec(
        base=base, platform=platform, repository="x", dockerfile=f"FROM {base.pinned}\nENV A=b\n", address="0" * 64
    )
    try:
        built = build_image(spec, cli=cli, engine=engine, tag=f"{name}:built", listener=recorder)
        said = engine.containers.run(built, "cat /moved", remove=True, network_mode="none")
        assert said.decode().strip() == repository
    finally:
        engine.images.remove(f"{name}:built", force=True)


def test_another_platform_does_not_count(engine: DockerClient, registry_location: RegistryLocation) -> None:
    name = f"{registry_location.push_name}/aml-train-test/none:1"
    engine.images.get(BASE).tag(name.rpartition(":")[0], "1")
    try:
        with pytest.raises(ImageError, match="is neither in the engine nor in the registry"):
            BaseImages(engine=lambda: engine, registries=docker_registries({})).resolve(
                ImageRef.parse(name), "linux/s390x"
            )
    finally:
        engine.images.remove(name)


def test_absent_and_unreachable(engine: DockerClient, registry_location: RegistryLocation, tmp_path: Path) -> None:
    absent = ImageRef.parse(f"{registry_location.push_name}/aml-train-test/absent:1")
    with pytest.raises(
        ImageError, match=r"aml-train.yml:3: the base .*absent:1 is neither in the engine nor in the registry"
    ):
        BaseImages(
            engine=lambda: engine,
            registries=docker_registries({"HOME": str(tmp_path)}),
            where="aml-train.yml:3",
        ).resolve(absent, "linux/amd64")
    unreachable = ImageRef.parse(f"localhost:{free_port()}/x:1")
    with pytest.raises(ImageError, match=r"cannot be reached: .*Connection refused"):
        BaseImages(engine=lambda: engine, registries=docker_registries({})).resolve(unreachable, "linux/amd64")
