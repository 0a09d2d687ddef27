"""An interruption of a run in another thread ends a build and tests that wait, and leaves nothing behind."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from aml_train.core.docker import BuildCli
from aml_train.core.errors import AmlTrainError
from aml_train.core.events import Event, LogLine
from aml_train.core.interrupts import ThreadInterrupt, acknowledge
from aml_train.core.threads import drain
from aml_train.image.build.build import build_image
from aml_train.image.leftovers import LABEL_OWNER, this_owner
from aml_train.image.spec import ImageSpec, TestSpec
from aml_train.image.testing.run import run_tests
from tests.integration.conftest import BASE, tidy_up

if TYPE_CHECKING:
    from docker import DockerClient

#: A bound for what hangs.
SOON = 300.0


@pytest.fixture(autouse=True)
def _nothing_left(engine: DockerClient) -> Iterator[None]:
    yield
    tidy_up()
    assert engine.containers.list(all=True, filters={"label": f"{LABEL_OWNER}={this_owner(engine)}"}) == []


def interrupted(work: Callable[[Callable[[Event], None]], object]) -> str:
    """Do *work* in a thread, interrupt it when it says ``holding``, and return how it ended."""
    interrupt, holding, ends = ThreadInterrupt(), threading.Event(), list[str]()

    def listen(event: Event) -> None:
        if isinstance(event, LogLine) and event.text == "holding":
            holding.set()

    def run() -> None:
        try:
            with interrupt.receive(), drain():
                try:
                    work(listen)
                    ends.append("it ended by itself")
                except BaseException:
                    acknowledge()
                    raise
        except KeyboardInterrupt:
            ends.append("interrupted")
        except AmlTrainError as error:
            ends.append(f"{type(error).__name__}: {error}")

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert holding.wait(SOON)
    interrupt.send()
    thread.join(SOON)
    return ends[0] if ends else "it continues"


@pytest.mark.full
def test_tests_that_say_nothing_more(engine: DockerClient, tests: Callable[..., TestSpec]) -> None:
    spec = tests(command="echo holding; exec sleep 6000")
    assert interrupted(lambda listen: run_tests(BASE, spec, engine=engine, listener=listen)) == "interrupted"


@pytest.mark.full
def test_a_build_that_says_nothing_more(engine: DockerClient, cli: BuildCli, spec: ImageSpec) -> None:
    step = f"RUN : {secrets.token_hex(8)}; echo holding; exec sleep 6000"
    waits = replace(spec, dockerfile=f"FROM {spec.base.pinned}\n{step}\n", files={}, trees={})
    tag = f"aml-train-test-interrupted-{secrets.token_hex(4)}:1"
    ended = interrupted(lambda listen: build_image(waits, cli=cli, engine=engine, tag=tag, listener=listen))
    assert ended == "interrupted"
    assert not engine.images.list(name=tag)
