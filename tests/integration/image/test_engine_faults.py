"""What goes wrong with the engine itself: its disk is full, or it is restarted. On an engine of the test's own."""

from __future__ import annotations

import contextlib
import gc
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from aml_train.core.docker import buildkit_cli, connect_engine, engine_platform
from aml_train.core.errors import ImageError
from aml_train.core.events import Event, LogLine
from aml_train.core.references import ImageRef
from aml_train.core.threads import CancelToken
from aml_train.image.base import BaseImages, docker_registries
from aml_train.image.build.build import build_image
from aml_train.image.builders import engine as stage
from aml_train.image.builders.engine import EngineBuilder
from aml_train.image.ensure import ensure_image
from aml_train.image.registry.client import Registry, RegistryLocation
from aml_train.image.spec import ImageSpec, TestSpec
from tests.integration.conftest import BASE, Recorder
from tests.integration.image.disposable_engine import DisposableEngine, disposable_engine, missing

if TYPE_CHECKING:
    from docker import DockerClient

# docker-py leaves its connections open when the engine goes away in the middle of an answer.
pytestmark = [
    pytest.mark.full,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

MakeTests = Callable[..., TestSpec]
DISK = 700 << 20
"""Room for the stand-in, and for not much more."""


@pytest.fixture(autouse=True)
def _collect() -> Iterator[None]:
    """Find what was left open here, and not in another test."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def breakable(engine: DockerClient) -> Iterator[DisposableEngine]:
    """An engine with the base in it and about 450 MB free."""
    if (why := missing()) is not None:
        pytest.skip(f"there can be no engine to break here: {why}")
    with disposable_engine(disk=DISK) as found:
        found.load(BASE, engine)
        yield found


@pytest.fixture
def mine(spec: ImageSpec, breakable: DisposableEngine) -> ImageSpec:
    """The image on the base as the breakable engine has it."""
    client = breakable.client()
    base = BaseImages(engine=lambda: client, registries=docker_registries({})).resolve(
        ImageRef.parse(BASE), engine_platform(client)
    )
    return replace(spec, base=base)


def _ensure(
    spec: ImageSpec,
    breakable: DisposableEngine,
    location: RegistryLocation,
    listener: Callable[[Event], None],
    tests: TestSpec | None = None,
) -> None:
    environ = breakable.environ
    with contextlib.closing(connect_engine(environ)) as engine:
        ensure_image(
            spec,
            tests,
            engine=engine,
            builder=lambda: EngineBuilder(lambda: buildkit_cli(environ)),
            location=location,
            listener=listener,
        )


def _assert_clean(spec: ImageSpec, breakable: DisposableEngine, registry: Registry) -> None:
    """Nothing was released, nothing is half there, and the engine works."""
    client = breakable.client()
    assert registry.tags(spec.repository) == []
    assert registry.tags(f"{spec.repository}-candidate") == []
    assert not [tag for image in client.images.list() for tag in image.tags if "candidate" in tag]
    assert client.containers.list(all=True) == []


def test_a_full_disk_is_told_and_leaves_nothing(
    mine: ImageSpec,
    breakable: DisposableEngine,
    registry_location: RegistryLocation,
    registry: Registry,
    recorder: Recorder,
) -> None:
    full = replace(mine, dockerfile=f"FROM {mine.base.pinned}\nRUN head -c 2G /dev/zero > /large\n")
    with pytest.raises(
        ImageError, match=r"(?s)the image's step 'RUN head .*' failed:.*[Nn]o space left on device"
    ) as caught:
        _ensure(full, breakable, registry_location, recorder)

    assert (caught.value.hint or "").startswith("The disk is full. See what Docker keeps (docker system df)")
    _assert_clean(full, breakable, registry)
    small = replace(mine, dockerfile=f"FROM {mine.base.pinned}\nENV A=b\n")
    image_id = build_image(
        small, cli=buildkit_cli(breakable.environ), engine=breakable.client(), tag="small:1", listener=recorder
    )
    breakable.client().images.remove(image_id, force=True)


def test_a_restart_during_the_build_is_told_and_the_next_run_works(
    mine: ImageSpec,
    breakable: DisposableEngine,
    registry_location: RegistryLocation,
    registry: Registry,
    recorder: Recorder,
) -> None:
    step = f"ARG HELD=6000\nRUN echo begun {mine.repository}; sleep $HELD\n"
    spec = replace(mine, dockerfile=f"FROM {mine.base.pinned}\n{step}")

    def restart(event: Event) -> None:
        if isinstance(event, LogLine) and event.text == f"begun {mine.repository}":
            breakable.stop()
            breakable.start()

    with pytest.raises(
        ImageError, match=r"the image's step 'RUN echo begun .*' failed|the build failed with exit code"
    ):
        _ensure(spec, breakable, registry_location, restart)

    _assert_clean(spec, breakable, registry)
    client, cli = breakable.client(), buildkit_cli(breakable.environ)
    spec = replace(spec, build_args={"HELD": "0"})
    assert build_image(spec, cli=cli, engine=client, tag="again:1", listener=recorder).startswith("sha256:")
    client.images.remove("again:1", force=True)


def _waiting_push(*_: object, token: CancelToken, **__: object) -> str:
    """A push that goes on until it is ended: this engine reaches no registry, and would fail at once."""
    freed = threading.Event()
    with token.on_cancel(freed.set):
        freed.wait()
    raise AssertionError("it was not ended")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_an_engine_that_goes_away_during_the_tests_is_told(
    mine: ImageSpec,
    breakable: DisposableEngine,
    registry_location: RegistryLocation,
    registry: Registry,
    tests: MakeTests,
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
) -> None:
    monkeypatch.setattr(stage, "push_image", _waiting_push)
    spec = replace(mine, dockerfile=f"FROM {mine.base.pinned}\nENV A={number}\n")
    seen = 0

    def stop(event: Event) -> None:
        nonlocal seen
        if isinstance(event, LogLine) and event.text == "tests begin":
            seen += 1
            breakable.stop(number)

    try:
        with pytest.raises(ImageError, match="the Docker engine failed or went away") as caught:
            _ensure(spec, breakable, registry_location, stop, tests(command="echo tests begin; sleep 6000"))
    finally:
        breakable.start()
    assert seen == 1
    assert "run again" in (caught.value.hint or "")
    assert registry.tags(spec.repository) == []
    for container in breakable.client().containers.list(all=True):
        container.remove(force=True)
