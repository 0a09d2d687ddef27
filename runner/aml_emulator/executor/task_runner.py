"""Executes runs of ACR Tasks on the engine: builds, pushes, and a log; builds of environments on request among them.

The order of a run, and the lines of its log, are those of Azure/acr-builder (``builder/builder.go``). A job's own build of its
environment is :mod:`aml_emulator.executor.build`'s; both build the same image.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import tarfile
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import IO, Any, Final, Literal, Protocol

from aml_emulator.executor.build import BuildFailedError, BuildWaiter, ImageBuilder, for_engine, ignore_rules
from aml_emulator.executor.buildkit import PlainTrace, TraceError
from aml_emulator.executor.engine import Engine
from aml_emulator.executor.images import BuildOutput, Images, status_line
from aml_emulator.executor.layout import engine_image
from aml_emulator.executor.reporting import report_until_stored
from aml_emulator.executor.shared import EngineFault, fault_text
from aml_emulator.executor.spec import BlobStore, BuildSpec, ExecutorSettings, Folder
from aml_emulator.executor.task_spec import BuildStep, TaskSpec

logger = logging.getLogger(__name__)

TaskEnding = Literal["Succeeded", "Failed", "Canceled", "Error", "Timeout"]
_CHUNK: Final = 1 << 20
_AT_ONCE: Final = 2
_BUILD_SECONDS: Final = 28_800.0
#: The Dockerfile of a step in its build context: without a client's session the engine takes one archive for both.
DOCKERFILE: Final = ".local-azureml-dockerfile"


class TaskSink(Protocol):
    """Receives the progress of one run."""

    def started(self) -> None:
        """The run has begun."""

    def log(self, text: str) -> None:
        """Add text to the run's log."""

    def ended(self, status: TaskEnding, images: list[dict[str, str]], error: str) -> None:
        """The run has ended; nothing follows."""


class TaskFailedError(Exception):
    """A step failed; the log says why."""


class _StoppedError(Exception):
    """The run was cancelled, or took too long."""


@dataclass
class _Task:
    """A run, and the means to end it."""

    id: str
    sink: TaskSink
    stopped: TaskEnding | None = None
    output: BuildOutput | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def stop(self, ending: TaskEnding) -> None:
        with self.lock:
            self.stopped = self.stopped or ending
            if self.output is not None:
                self.output.break_off()

    def hold(self, output: BuildOutput | None) -> None:
        with self.lock:
            self.output = output
        self.go_on()

    def go_on(self) -> None:
        if self.stopped is not None:
            raise _StoppedError


_Images = list[dict[str, str]]


class TaskRunner:
    """Runs tasks and builds of environments, two at once.

    Args:
        blobs: where uploaded sources are.
        settings: how the engine names the registry, and what builds are given.
    """

    def __init__(self, *, blobs: BlobStore, settings: ExecutorSettings) -> None:
        self._blobs = blobs
        self._settings = settings
        self._slots = threading.Semaphore(_AT_ONCE)
        self._tasks: dict[str, _Task] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()

    def submit(self, spec: TaskSpec, source: Folder | None, sink: TaskSink) -> None:
        """Begin a run when there is room, and return at once.

        Args:
            spec: the run.
            source: the uploaded archive; None for none.
            sink: is called from the run's thread.
        """
        self._begin(
            _Task(id=spec.id, sink=sink), spec.timeout, lambda task, images: self._run(task, spec, source, images)
        )

    def build(self, build: BuildSpec, image: str, sink: TaskSink) -> None:
        """Begin to build and push the image of an environment when there is room, and return at once.

        Args:
            build: the image of an environment.
            image: the repository of the registry that gets it.
            sink: is called from the build's thread.
        """
        task = _Task(id=f"{build.title} {uuid.uuid4().hex}", sink=sink)
        self._begin(task, _BUILD_SECONDS, lambda task, images: self._build_environment(task, build, image, images))

    def _begin(self, task: _Task, timeout: float, run: Callable[[_Task, _Images], None]) -> None:
        with self._lock:
            self._tasks[task.id] = task
        threading.Thread(target=self._work, args=(task, timeout, run), name=f"task-{task.id}", daemon=True).start()

    def cancel(self, run: str) -> bool:
        """End a run; return whether it is known and has not ended."""
        task = self._tasks.get(run)
        if task is not None:
            task.stop("Canceled")
        return task is not None

    def active(self) -> tuple[str, ...]:
        """Return the runs that wait or are executed."""
        with self._lock:
            return tuple(self._tasks)

    def close(self) -> None:
        """Leave all runs: the next process finds them unfinished."""
        self._closed.set()
        for task in list(self._tasks.values()):
            task.stop("Error")

    def _work(self, task: _Task, timeout: float, run: Callable[[_Task, _Images], None]) -> None:
        ending: TaskEnding = "Error"
        images: _Images = []
        error = said = ""
        timer = threading.Timer(timeout, task.stop, args=("Timeout",))
        timer.daemon = True
        try:
            with self._slots:
                timer.start()
                task.go_on()
                task.sink.started()
                run(task, images)
                ending = "Succeeded"
        except _StoppedError:
            ending = task.stopped or "Canceled"
        except TaskFailedError as failure:
            # A build that was interrupted ends as one that failed.
            ending, said = task.stopped or "Failed", f"{failure}\n"
        except Exception as failure:
            ending, error = task.stopped or "Error", str(failure) or type(failure).__name__
            logger.exception("The run %s failed", task.id)
        finally:
            timer.cancel()
            try:
                report_until_stored(
                    lambda: _report_end(task, ending, images, error, said=said),
                    fault=lambda why: task.sink.ended("Error", [], why),
                    left=self._closed,
                    what=f"run {task.id}",
                )
            finally:
                with self._lock:
                    self._tasks.pop(task.id, None)

    def _build_environment(self, task: _Task, build: BuildSpec, image: str, images: _Images) -> None:
        name = f"{self._settings.registry_login_server}/{image}:{build.tag.rpartition(':')[2]}"
        try:
            self._builder.build(build, BuildWaiter(log=task.sink.log, go_on=task.go_on, hold=task.hold))
        except (BuildFailedError, *EngineFault) as error:
            raise TaskFailedError(fault_text(error)) from error
        self._images.tag(build.tag, engine_image(name, self._settings))
        try:
            images.append(self._push(task, name))
        finally:
            self._images.remove(engine_image(name, self._settings))

    def _run(self, task: _Task, spec: TaskSpec, source: Folder | None, images: _Images) -> None:
        built: list[str] = []
        with tempfile.TemporaryFile() as archive:
            if source is not None:
                task.sink.log("Downloading source code...\n")
                for chunk in self._blobs.read(source.container, source.prefix):
                    archive.write(chunk)
                task.sink.log("Finished downloading source code\n")
            try:
                for step in spec.steps:
                    task.go_on()
                    task.sink.log(f"Executing step ID: {step.id}. Timeout(sec): {step.timeout}\n")
                    began = time.monotonic()
                    with _bounded(task, step.timeout):
                        if isinstance(step, BuildStep):
                            built += self._build(task, spec, step, archive)
                        else:
                            images += [self._push(task, image) for image in step.images]
                    task.sink.log(
                        f"Step ID: {step.id} marked as successful (elapsed time in seconds: {time.monotonic() - began:.6f})\n"
                    )
            finally:
                # An agent is used once: nothing of a run stays on it.
                for name in dict.fromkeys(built):
                    self._images.remove(name)

    @cached_property
    def _builder(self) -> ImageBuilder:
        return ImageBuilder(Engine(self._settings), self._blobs, self._settings)

    @property
    def _images(self) -> Images:
        return self._builder.images

    def _build(self, task: _Task, spec: TaskSpec, step: BuildStep, archive: IO[bytes]) -> list[str]:
        tags = [engine_image(tag, self._settings) for tag in step.tags] or [
            f"aml-emulator-task/{spec.id.lower()}:{spec.steps.index(step)}"
        ]
        options: dict[str, Any] = {
            "t": tags,
            "labels": "{}",
            "version": "2",  # BuildKit
            **({"target": step.target} if step.target else {}),
            **({"platform": step.platform} if step.platform else {}),
            **({"networkmode": step.network} if step.network else {}),
            **({"nocache": "1"} if step.no_cache else {}),
            **({"shmsize": str(step.shm)} if step.shm else {}),
            **({"ulimits": json.dumps(_ulimits(step))} if step.limits else {}),
        }
        with tempfile.TemporaryFile() as context:
            self._write_context(step, archive, context)
            context.seek(0)
            try:
                output = self._images.build(
                    _chunks(context),
                    tag=tags[0],
                    dockerfile=DOCKERFILE,
                    arguments={**self._settings.build_arguments, **step.arguments},
                    options=options,
                    logins=spec.logins,
                )
            except EngineFault as error:
                raise TaskFailedError(f"failed to run step ID: {step.id}: {fault_text(error)}") from error
            try:
                task.hold(output)
                _follow_build(task, step, output)
            finally:
                with task.lock:
                    task.output = None
                output.close()
        task.go_on()
        if not self._images.has(tags[0]):
            raise TaskFailedError(f"failed to run step ID: {step.id}: the engine ended the build without an image")
        return tags

    def _write_context(self, step: BuildStep, archive: IO[bytes], target: IO[bytes]) -> None:
        """Write the step's folder of the source, with its Dockerfile, as an archive."""
        archive.seek(0)
        lead = f"{step.context}/" if step.context else ""
        try:
            with tarfile.open(fileobj=archive, mode="r:*") as source, _new_archive(target) as made:
                members = {member.name.removeprefix("./").strip("/"): member for member in source}
                dockerfile = _content(source, members.get(step.dockerfile.removeprefix("./")))
                if dockerfile is None:
                    raise TaskFailedError(f"failed to run step ID: {step.id}: there is no {step.dockerfile}")
                ignored = ignore_rules(
                    (_content(source, members.get(f"{lead}.dockerignore")) or b"").decode(errors="replace"),
                    DOCKERFILE,
                )
                # First: the engine takes a body for an archive by the header of its first member.
                text = for_engine(dockerfile, self._settings)
                entry = tarfile.TarInfo(DOCKERFILE)
                entry.size, entry.mode = len(text), 0o644
                made.addfile(entry, io.BytesIO(text))
                for name, member in members.items():
                    if not name.startswith(lead) or name == lead.rstrip("/") or ignored(name[len(lead) :]):
                        continue
                    member.name = name[len(lead) :]
                    made.addfile(member, source.extractfile(member) if member.isfile() else None)
        except (tarfile.TarError, EOFError, OSError) as error:
            raise TaskFailedError(f"failed to unpack the source code: {error}") from error

    def _push(self, task: _Task, image: str) -> dict[str, str]:
        """Push an image and return where it is."""
        task.sink.log(f"Pushing image: {image}, attempt 1\n")
        digest = ""
        try:
            for message in self._images.push(engine_image(image, self._settings)):
                task.go_on()
                if "error" in message:
                    raise TaskFailedError(f"failed to push {image}: {message['error']}")
                digest = str((message.get("aux") or {}).get("Digest", digest))
                if text := status_line(message):
                    task.sink.log(text)
        except EngineFault as error:
            raise TaskFailedError(f"failed to push {image}: {fault_text(error)}") from error
        task.sink.log(f"Successfully pushed image: {image}\n")
        registry, _, rest = image.partition("/")
        repository, _, tag = rest.rpartition(":")
        return {"registry": registry, "repository": repository, "tag": tag, "digest": digest}


def _ulimits(step: BuildStep) -> list[dict[str, Any]]:
    return [{"Name": name, "Soft": soft, "Hard": hard} for name, (soft, hard) in sorted(step.limits.items())]


def _report_end(task: _Task, ending: TaskEnding, images: _Images, error: str, *, said: str) -> None:
    task.sink.log(f"{said}Run ID: {task.id} {ending.lower()}\n")
    task.sink.ended(ending, images, error)


@contextlib.contextmanager
def _bounded(task: _Task, seconds: float) -> Iterator[None]:
    """Fail a step that takes longer, as acr-builder does."""
    expired = threading.Event()

    def expire() -> None:
        expired.set()
        task.stop("Failed")

    timer = threading.Timer(seconds, expire)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if expired.is_set():
            task.sink.log("context deadline exceeded\n")


def _follow_build(task: _Task, step: BuildStep, output: BuildOutput) -> None:
    """Write the engine's messages to the log.

    Raises:
        TaskFailedError: the build failed.
    """
    trace = PlainTrace()
    try:
        for message in output:
            if text := "".join(trace.read(message)):
                task.sink.log(text)
            if "error" in message:
                raise TaskFailedError(f"failed to run step ID: {step.id}: {str(message['error']).strip()}")
            task.go_on()
    except TraceError as error:
        raise TaskFailedError(f"failed to run step ID: {step.id}: BuildKit's messages: {error}") from error


def _new_archive(target: IO[bytes]) -> tarfile.TarFile:
    """Return an archive in GNU's format.

    BuildKit does not recognize one that begins with an extended header of POSIX (``frontend/dockerfile/builder``: ``isArchive``).
    """
    return tarfile.open(fileobj=target, mode="w", format=tarfile.GNU_FORMAT)


def _content(source: tarfile.TarFile, member: tarfile.TarInfo | None) -> bytes | None:
    """Return a file of the source; None if it is not there."""
    file = source.extractfile(member) if member is not None and member.isfile() else None
    return None if file is None else file.read()


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    return iter(lambda: file.read(_CHUNK), b"")
