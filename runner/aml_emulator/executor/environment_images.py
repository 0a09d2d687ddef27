"""Builds images of environments on request, and pushes them to the registry.

A job's own build of its environment is :mod:`aml_emulator.executor.build`'s; both build the same image.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field
from typing import Final

from aml_emulator.executor.build import BuildFailedError, BuildWaiter, ImageBuilder
from aml_emulator.executor.engine import Engine
from aml_emulator.executor.images import BuildOutput
from aml_emulator.executor.layout import EMULATOR_HOST, engine_image
from aml_emulator.executor.reporting import report_until_stored
from aml_emulator.executor.shared import EngineFault, fault_text
from aml_emulator.executor.spec import BlobStore, BuildSpec, ExecutorSettings
from aml_emulator.executor.task_runner import TaskEnding, TaskSink

logger = logging.getLogger(__name__)

_AT_ONCE: Final = 2


class _ClosedError(Exception):
    """The service stops."""


@dataclass
class _Work:
    """A build, and the means to end it."""

    build: BuildSpec
    image: str
    sink: TaskSink
    closed: threading.Event = field(default_factory=threading.Event)
    output: BuildOutput | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def close(self) -> None:
        with self.lock:
            self.closed.set()
            if self.output is not None:
                self.output.break_off()

    def hold(self, output: BuildOutput | None) -> None:
        with self.lock:
            self.output = output
        self.go_on()

    def go_on(self) -> None:
        if self.closed.is_set():
            raise _ClosedError


class EnvironmentImages:
    """Builds and pushes images, two at once.

    Args:
        blobs: where build contexts are.
        settings: how the engine names the registry, and what builds are given.
    """

    def __init__(self, *, blobs: BlobStore, settings: ExecutorSettings) -> None:
        self._blobs = blobs
        self._settings = settings
        self._slots = threading.Semaphore(_AT_ONCE)
        self._lock = threading.Lock()
        self._works: list[_Work] = []
        self._built: tuple[Engine, ImageBuilder] | None = None

    def submit(self, build: BuildSpec, image: str, sink: TaskSink) -> None:
        """Begin a build when there is room, and return at once.

        Args:
            build: the image of an environment.
            image: the repository of the registry that gets it.
            sink: is called from the build's thread.
        """
        work = _Work(build=build, image=image, sink=sink)
        with self._lock:
            self._works.append(work)
        threading.Thread(target=self._do, args=(work,), name=f"environment-{build.tag[-8:]}", daemon=True).start()

    def close(self) -> None:
        """Leave all builds: the next process finds them unfinished."""
        with self._lock:
            works, built = list(self._works), self._built
        for work in works:
            work.close()
        if built is not None:
            built[0].close()

    def _do(self, work: _Work) -> None:
        try:
            self._work(work)
        finally:
            with self._lock:
                self._works.remove(work)

    def _work(self, work: _Work) -> None:
        ending: TaskEnding = "Failed"
        images: list[dict[str, str]] = []
        said = ""
        try:
            with self._slots:
                work.go_on()
                work.sink.started()
                images = [self._build(work)]
                ending = "Succeeded"
        except (BuildFailedError, *EngineFault) as error:
            said = fault_text(error)
        except _ClosedError:
            return
        except Exception as error:
            said = str(error) or type(error).__name__
            logger.exception("The image of %s was not built", work.build.title)

        def report() -> None:
            if said:
                work.sink.log(f"{said}\n")
            work.sink.ended(ending, images, "")

        report_until_stored(
            report,
            fault=lambda _why: work.sink.ended("Failed", [], ""),
            left=work.closed,
            what=f"the build of {work.build.title}",
        )

    def _build(self, work: _Work) -> dict[str, str]:
        """Build and push; return the repository and the digest."""
        engine, builder = self._engine()
        builder.build(work.build, BuildWaiter(log=work.sink.log, go_on=work.go_on, hold=work.hold))
        name = engine_image(f"{self._settings.registry_login_server}/{work.image}", self._settings)
        engine.images.tag(work.build.tag, name)
        digest = ""
        try:
            for message in engine.images.push(name):
                work.go_on()
                if "error" in message:
                    raise BuildFailedError(f"failed to push {work.image}: {message['error']}")
                digest = str((message.get("aux") or {}).get("Digest", digest))
        finally:
            engine.images.remove(name)
        work.sink.log(f"Pushed {work.image}@{digest}\n")
        return {"registry": self._settings.registry_login_server, "repository": work.image, "digest": digest}

    def _engine(self) -> tuple[Engine, ImageBuilder]:
        with self._lock:
            if self._built is None:
                settings = self._settings
                engine = Engine(
                    instance=settings.instance, container=settings.container, emulator_alias=EMULATOR_HOST
                )
                self._built = (engine, ImageBuilder(engine, self._blobs, settings))
            return self._built
