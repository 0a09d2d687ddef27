"""Run the user's tests inside an image and read their results."""

from __future__ import annotations

import codecs
import io
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from aml_train.engine import remove_container
from aml_train.errors import TestsFailedError
from aml_train.events import Listener, LogLine, TestFailure, TestsFinished
from aml_train.image.spec import TestSpec
from aml_train.junit import JUnitReport, parse_junit
from aml_train.leases import container_labels
from aml_train.stopping import Stop

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

WORKSPACE: Final = "/workspace"
JUNIT_PATH: Final = "/tmp/aml-train-junit.xml"  # noqa: S108 - a path in the container
_REPORT_LIMIT: Final = 50 << 20
_SPOOL: Final = 32 << 20
_SHOWN: Final = 20
_LEASE: Final = 600.0
_STREAMS: Final[Mapping[int, str]] = {1: "stdout", 2: "stderr"}

# What the shell and pytest mean by an exit code (POSIX 2.8.2; https://docs.pytest.org/en/stable/reference/exit-codes.html).
_EXIT_CODES: Final[Mapping[int, tuple[str, str]]] = {
    2: (
        "were interrupted or could not be collected",
        "The lines above say why; an import error often is a missing package.",
    ),
    4: (
        "were called wrongly",
        "Check the options and paths in tests.command, and that tests.files has what it names.",
    ),
    5: ("were not found: the command ran no test", "Check tests.command, and that tests.files has the test files."),
    126: ("could not run: the command cannot be executed", "Check tests.command."),
    127: (
        "could not run: the command was not found in the image",
        "Add what it needs to image.pip or image.apt, such as pytest.",
    ),
    137: ("were killed", "Something sent SIGKILL, often for want of memory."),
}


@dataclass(frozen=True, kw_only=True)
class TestResults:
    """How tests that passed ended. Counts are None where no report was written (*report* is False).

    Attributes:
        seconds: how long the container ran.
        failures: what failed or could not run.
        slowest: name → seconds of the slowest few.
    """

    __test__ = False
    passed: int | None
    failed: int | None
    skipped: int | None
    errors: int | None
    seconds: float
    failures: tuple[TestFailure, ...]
    slowest: tuple[tuple[str, float], ...]
    report: bool


def run_tests(
    image: str, spec: TestSpec, *, engine: DockerClient, listener: Listener, stop: Stop | None = None
) -> TestResults:
    """Run *spec* in a container of *image*, which is always removed.

    The image's entrypoint is left out. Files are copied into :data:`WORKSPACE`; without ``network`` there is none.

    Args:
        image: image id or name, in the engine.
        spec: the tests.
        engine: the engine that has the image.
        listener: told each line as it comes, and the result.
        stop: ends the tests at once.

    Raises:
        StoppedError: if *stop* was set meanwhile.
        TestsFailedError: if a test failed, the command failed or took too long, or a report that must exist does not.
    """
    container = _create(image, spec, engine)
    remove = partial(remove_container, container)
    try:
        with (stop or Stop()).frees(remove):
            with tempfile.SpooledTemporaryFile(max_size=_SPOOL) as archive:
                spec.files.tar(archive, prefix=WORKSPACE.strip("/"), folder_mode=0o777)
                archive.seek(0)
                container.put_archive("/", archive)
            seconds, timed_out = _run(container, spec.timeout, engine, listener)
            container.reload()
            state: dict[str, Any] = container.attrs["State"]
            path = f"{WORKSPACE}/{spec.junit}" if spec.junit is not None else JUNIT_PATH
            content = None if timed_out else fetch_file(container, path)
    finally:
        remove()
    report, damage = _read_report(content, path)
    listener(
        TestsFinished(
            passed=report.passed if report else None,
            failed=report.failed + report.errors if report else None,
            skipped=report.skipped if report else None,
            seconds=seconds,
            cached=False,
            failures=report.failures if report else (),
        )
    )
    failure = judge(
        exit_code=state["ExitCode"],
        oom_killed=bool(state.get("OOMKilled")),
        timed_out=timed_out,
        report=report,
        damage=damage,
        spec=spec,
    )
    if failure is not None:
        raise failure
    return TestResults(
        passed=report.passed if report else None,
        failed=report.failed if report else None,
        skipped=report.skipped if report else None,
        errors=report.errors if report else None,
        seconds=seconds,
        failures=report.failures if report else (),
        slowest=report.slowest if report else (),
        report=report is not None,
    )


def judge(
    *,
    exit_code: int,
    oom_killed: bool,
    timed_out: bool,
    report: JUnitReport | None,
    damage: str | None,
    spec: TestSpec,
) -> TestsFailedError | None:
    """Return the error that the tests' end means, or None where they passed. Pure.

    Both must say so: the exit code and, where there is one, the report.
    """
    if timed_out:
        return TestsFailedError(
            f"the tests took longer than {spec.timeout:g} seconds and were killed",
            hint="Make them quicker, or raise tests.timeout.",
        )
    listed = _listing(report.failures) if report else ""
    if oom_killed:
        return TestsFailedError(
            "the tests were killed for want of memory" + listed, hint="Give the engine more memory."
        )
    if report is not None and report.failures:
        count = len(report.failures)
        ended = "" if exit_code else ", although the command ended with exit code 0"
        return TestsFailedError(
            f"{count} of {count + report.passed + report.skipped} tests failed in the image{ended}" + listed,
            hint="Nothing was released or submitted. The tests' output is above.",
        )
    if exit_code != 0:
        what, hint = _EXIT_CODES.get(exit_code, ("failed", "The tests' output is above."))
        return TestsFailedError(f"the tests {what} (exit code {exit_code}): {spec.command}", hint=hint)
    if damage is not None:
        return TestsFailedError(damage, hint="The report must be a JUnit file that the command writes at its end.")
    if spec.junit is not None and report is None:
        return TestsFailedError(
            f"the tests ended well but wrote no report at {spec.junit}",
            hint="Let the command write it there, or remove tests.junit.",
        )
    if report is not None and report.passed + report.skipped == 0:
        return TestsFailedError(f"the command ran no test: {spec.command}", hint=_EXIT_CODES[5][1])
    return None


def _listing(failures: tuple[TestFailure, ...]) -> str:
    lines = [f"  {failure}" for failure in failures[:_SHOWN]]
    if len(failures) > _SHOWN:
        lines.append(f"  and {len(failures) - _SHOWN} more")
    return "".join(f"\n{line}" for line in lines)


def _create(image: str, spec: TestSpec, engine: DockerClient) -> Container:
    """Create the container; nothing runs yet."""
    own = dict(entry.partition("=")[::2] for entry in engine.images.get(image).attrs["Config"].get("Env") or ())
    environment = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", **spec.env}
    if spec.junit is None:
        # The family xunit1 is the one that tells file and line of each test.
        options = f"{spec.env.get('PYTEST_ADDOPTS', own.get('PYTEST_ADDOPTS', ''))} --junitxml={JUNIT_PATH} -o junit_family=xunit1"
        environment["PYTEST_ADDOPTS"] = options.strip()
    return engine.containers.create(
        image,
        entrypoint=["/bin/sh", "-c", spec.command],
        command=[],
        working_dir=WORKSPACE,
        environment=environment,
        labels=container_labels(engine, "tests", spec.timeout + _LEASE),
        network_mode="bridge" if spec.network else "none",
        shm_size="1g",
        stdin_open=False,
        tty=False,
    )


def _run(container: Container, timeout: float, engine: DockerClient, listener: Listener) -> tuple[float, bool]:
    """Run the container to its end; return seconds and whether it had to be killed for the time."""
    from docker.errors import APIError
    from docker.utils import socket as docker_socket

    frames_iter: Callable[..., Iterator[tuple[int, bytes]]] = docker_socket.frames_iter
    expired = threading.Event()

    def expire() -> None:
        expired.set()
        try:
            container.kill()
        except APIError as error:
            if error.status_code not in (404, 409):  # it has just ended by itself
                raise

    # Attached before the start: an engine can lose the last line of a container that is followed later.
    stream: Any = engine.api.attach_socket(str(container.id), params={"stdout": 1, "stderr": 1, "stream": 1})
    timer = threading.Timer(timeout, expire)
    timer.daemon = True
    started = time.monotonic()
    try:
        container.start()
        timer.start()
        for line in split_lines(frames_iter(stream, tty=False)):
            listener(line)
        container.wait()
    finally:
        timer.cancel()
        stream._response.close()  # the stream's own close() leaves the connection open
    return time.monotonic() - started, expired.is_set()


def split_lines(frames: Iterable[tuple[int, bytes]]) -> Iterator[LogLine]:
    """Turn the frames of a container's output (1 is stdout, 2 stderr) into lines; what is not UTF-8 is replaced."""
    decoders = {number: codecs.getincrementaldecoder("utf-8")("replace") for number in _STREAMS}
    rest = dict.fromkeys(_STREAMS, "")
    for number, chunk in frames:
        *lines, rest[number] = (rest[number] + decoders[number].decode(chunk)).split("\n")
        for line in lines:
            yield LogLine(source="tests", text=line.rstrip("\r"), origin=_STREAMS[number])
    for number, origin in _STREAMS.items():
        if last := rest[number] + decoders[number].decode(b"", final=True):
            yield LogLine(source="tests", text=last.rstrip("\r"), origin=origin)


def fetch_file(container: Container, path: str, *, limit: int = _REPORT_LIMIT) -> bytes | None:
    """Return a file of a container, running or not; None where it is not there.

    Raises:
        TestsFailedError: if it is larger than *limit* or not a file.
    """
    from docker.errors import NotFound

    try:
        chunks, _ = container.get_archive(path)
    except NotFound:
        return None
    buffer = io.BytesIO()
    for chunk in chunks:
        buffer.write(chunk)
        if buffer.tell() > limit:
            raise TestsFailedError(
                f"{path} in the container is larger than {limit >> 20} MiB", hint="Write a smaller report."
            )
    buffer.seek(0)
    with tarfile.open(fileobj=buffer) as archive:
        member = archive.next()
        file = archive.extractfile(member) if member is not None and member.isfile() else None
        if file is None:
            raise TestsFailedError(f"{path} in the container is not a file", hint="Check tests.junit.")
        return file.read()


def _read_report(content: bytes | None, path: str) -> tuple[JUnitReport | None, str | None]:
    """Return the report, or what is wrong with it."""
    if content is None:
        return None, None
    try:
        return parse_junit(content), None
    except ValueError as error:
        return None, f"the tests' report {path} cannot be read: {error}"
