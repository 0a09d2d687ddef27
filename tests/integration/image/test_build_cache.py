"""An engine without any images goes on from the registry's cache."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from aml_train.config.sections.image import ImageConfig
from aml_train.core.docker import BuildCli, buildkit_cli
from aml_train.core.references import ImageRef
from aml_train.image.build.build import CACHE_TAG, Cache, build_image
from aml_train.image.inputs import BaseImage
from aml_train.image.push import push_image
from aml_train.image.spec import plan_image
from tests.integration.conftest import BASE, Recorder
from tests.integration.image.disposable_engine import DisposableEngine, disposable_engine, missing
from tests.support.ports import free_port

if TYPE_CHECKING:
    from docker import DockerClient

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(missing() is not None, reason=f"no engine of the test's own: {missing()}"),
]


def _serve(config: Path, *walls: str) -> subprocess.Popen[bytes]:
    executable = shutil.which("docker-registry") or shutil.which("registry")
    assert executable is not None
    return subprocess.Popen(
        [*walls, executable, "serve", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def _listens(process: str, port: int) -> bool:
    """Tell whether somebody listens on *port*, as the process of that number sees the network (proc(5), ``net/tcp``)."""
    lines = [line.split() for line in Path(f"/proc/{process}/net/tcp").read_text().splitlines()[1:]]
    return any(local.endswith(f":{port:04X}") and state == "0A" for _, local, _, state, *_ in lines)


@pytest.fixture
def fresh() -> Iterator[DisposableEngine]:
    """An engine that has nothing."""
    with disposable_engine(disk=3 << 30) as engine:
        yield engine


def test_a_fresh_engine_goes_on_from_the_registry(
    engine: DockerClient, cli: BuildCli, fresh: DisposableEngine, recorder: Recorder, tmp_path: Path
) -> None:
    """One registry's folder is served to both engines, which do not see one another, under the same name."""
    port = free_port()
    config = tmp_path / "registry.yml"
    config.write_text(
        f"version: 0.1\nstorage: {{filesystem: {{rootdirectory: {tmp_path}/data}}}}\nhttp: {{addr: '127.0.0.1:{port}'}}\n"
    )
    assert fresh.process is not None
    [child] = Path(f"/proc/{fresh.process.pid}/task/{fresh.process.pid}/children").read_text().split()
    name = f"localhost:{port}/aml-train-test/cache"
    servers = [_serve(config), _serve(config, "nsenter", f"--net=/proc/{child}/ns/net")]
    try:
        deadline = time.monotonic() + 120
        while not (_listens("self", port) and _listens(child, port)):
            assert [server.poll() for server in servers] == [None, None]
            assert time.monotonic() < deadline
            time.sleep(0.05)
        engine.images.get(BASE).tag(f"localhost:{port}/base", "1")
        base = BaseImage(
            reference=ImageRef.parse(f"localhost:{port}/base:1"),
            digest=push_image(engine, f"localhost:{port}/base", "1", auth=None, listener=recorder),
        )
        spec = plan_image(ImageConfig(base=base.reference, repository="r", where="f:1"), base, None, "linux/amd64")
        spec = replace(
            spec, dockerfile=f"FROM {base.pinned}\nRUN cat /proc/sys/kernel/random/uuid > /one # {tmp_path.name}\n"
        )
        cache = Cache(repository=name)
        first = build_image(spec, cli=cli, engine=engine, tag=f"{name}:{CACHE_TAG}", listener=recorder, cache=cache)
        push_image(engine, name, CACHE_TAG, auth=None, listener=recorder)

        other, other_cli = fresh.client(), buildkit_cli(fresh.environ)
        assert other.images.list() == []
        longer = replace(spec, dockerfile=spec.dockerfile + "RUN cp /one /two\n")
        found = replace(cache, found=True)
        second = build_image(longer, cli=other_cli, engine=other, tag="test:2", listener=recorder, cache=found)
        layers = [
            client.images.get(image).attrs["RootFS"]["Layers"] for client, image in ((engine, first), (other, second))
        ]
        assert layers[1][: len(layers[0])] == layers[0]
        assert len(layers[1]) == len(layers[0]) + 1
        without = build_image(
            longer, cli=other_cli, engine=other, tag="test:3", listener=recorder, no_cache=True, cache=found
        )
        assert other.images.get(without).attrs["RootFS"]["Layers"][-2] != layers[0][-1]
    finally:
        for server in servers:
            server.terminate()
            server.wait(timeout=120)
        for tag in (f"{name}:{CACHE_TAG}", f"localhost:{port}/base:1"):
            if any(tag in image.tags for image in engine.images.list(name=tag.rpartition(":")[0])):
                engine.images.remove(tag, force=True)
