"""The container of the tests: made with limits, run to its end, removed or kept."""

from __future__ import annotations

import posixpath
import secrets
import shlex
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from docker.errors import APIError, ImageNotFound, NotFound
from docker.types import DeviceRequest, Ulimit
from docker.utils import socket as docker_socket

from aml_train.core.docker import remove_container
from aml_train.core.errors import TestsFailedError
from aml_train.core.events import Listener, LogLine, Notice
from aml_train.core.text import LinePieces, Piece, lines_in
from aml_train.image.leftovers import LABEL_KIND, container_labels
from aml_train.image.spec import TestSpec

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

WORKSPACE: Final = "/workspace"
KEPT: Final = "aml-train-kept"
"""Name of the image that the command of a kept container makes."""

UNPLACED: Final = "/pytest.xml"
"""The report of a pytest that has not found the plugin, in the folder of the reports."""

_LEASE: Final = 600.0
_STREAMS: Final[Mapping[int, str]] = {1: "stdout", 2: "stderr"}
# Beyond the family xunit1, which reports file and line: the output of failed tests (https://docs.pytest.org/en/stable/reference/reference.html#ini-options-ref).
_PYTEST_OPTIONS: Final = (
    "--junitxml={}{} -o junit_family=xunit1 -o junit_logging=all -o junit_log_passing_tests=false"
)
_PLUGIN: Final = "aml_train_pytest_reports"
_NO_GPU: Final = (
    "could not select device driver",
    "nvidia-container-cli",
    "libnvidia-ml",
    "unresolvable CDI devices",
)


def working_folder(spec: TestSpec) -> str:
    """Return the folder in the container that the command runs in."""
    return posixpath.join(WORKSPACE, spec.workdir).rstrip("/")


@dataclass(frozen=True, kw_only=True)
class Reports:
    """The places of the tests' reports in the container.

    Attributes:
        folder: a folder that no image has, for the reports of each pytest and the plugin that places them.
        named: the path that the configuration names; None for none.
    """

    folder: str
    named: str | None = None


def report_places(spec: TestSpec) -> Reports:
    """Return the places of the reports of *spec*."""
    named = None if spec.junit is None else f"{working_folder(spec)}/{spec.junit}"
    return Reports(folder=f"/aml-train-reports-{secrets.token_hex(8)}", named=named)


def plugin_files() -> dict[str, bytes]:
    """Return the files of pytest's plugin in the folder of the reports.

    With an entry point instead of ``-p``, a pytest that does not find it goes on, and its closing line is judged.
    """
    about = f"{_PLUGIN}-0.dist-info"
    return {
        f"{_PLUGIN}.py": files("aml_train.image.testing").joinpath("pytest_reports.py").read_bytes(),
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {_PLUGIN}\nVersion: 0\n".encode(),
        f"{about}/entry_points.txt": f"[pytest11]\n{_PLUGIN} = {_PLUGIN}\n".encode(),
    }


def shell_prelude(reports: Reports) -> str:
    """Return what a shell does before the command: no old report, and the plugin. Pure.

    A report that the image or the project brings is none of these tests. Variables of the image and the tests are kept.
    """
    options = _PYTEST_OPTIONS.format(reports.folder, UNPLACED)
    lines = [
        f'export PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}{reports.folder}"',
        f'export PYTEST_ADDOPTS="${{PYTEST_ADDOPTS:+$PYTEST_ADDOPTS }}{options}"',
    ]
    if reports.named is not None:
        lines.append(f"rm -rf -- {shlex.quote(reports.named)} || exit 1")
    return "\n".join(lines) + "\n"


def command_words(spec: TestSpec) -> list[str]:
    """Return the program that runs the command, and its arguments."""
    return [*spec.shell, "-c", spec.command]


def has_gpus(info: Mapping[str, Any]) -> bool:
    """Return whether an engine has GPUs, by its own information. Pure.

    NVIDIA's toolkit registers a runtime, or, since Docker 28.3, the engine lists the devices of the Container Device Interface.
    """
    devices = info.get("DiscoveredDevices") or ()
    return "nvidia" in (info.get("Runtimes") or {}) or any(
        "nvidia.com/gpu" in str(device.get("ID")) for device in devices
    )


def container_options(spec: TestSpec, *, gpus: bool) -> dict[str, Any]:
    """Return docker-py's options for the limits and the network of *spec*. Pure.

    Args:
        spec: the tests.
        gpus: whether the engine has GPUs, for ``auto``.
    """

    limits = spec.limits
    options: dict[str, Any] = {
        "network_mode": "bridge" if spec.network else "none",
        "shm_size": limits.shm,
        "working_dir": working_folder(spec),
    }
    if limits.cpus is not None:
        options["nano_cpus"] = int(limits.cpus * 1e9)
    if limits.memory is not None:
        # The same for memory and swap together: otherwise tests would swap instead of ending.
        options |= {"mem_limit": limits.memory, "memswap_limit": limits.memory}
    if limits.memlock is not None:
        options["ulimits"] = [Ulimit(name="memlock", soft=limits.memlock, hard=limits.memlock)]
    if limits.gpus == "all" or (limits.gpus == "auto" and gpus):
        options["device_requests"] = [DeviceRequest(count=-1, capabilities=[["gpu"]])]
    return options


def create_container(image: str, spec: TestSpec, reports: Reports, engine: DockerClient) -> Container:
    """Create the container; nothing runs yet.

    Raises:
        TestsFailedError: if the engine refuses the limits.
    """

    gpus = spec.limits.gpus == "auto" and has_gpus(engine.info())
    # A kept container has no owner and no lease, so that no sweep removes it.
    labels = {LABEL_KIND: "kept"} if spec.keep else container_labels(engine, "tests", spec.timeout + _LEASE)
    try:
        return engine.containers.create(
            image,
            entrypoint=["/bin/sh", "-c", f'{shell_prelude(reports)}exec "$@"', "tests", *command_words(spec)],
            command=[],
            name=f"{KEPT}-{secrets.token_hex(4)}" if spec.keep else None,
            environment={"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", **spec.env},
            labels=labels,
            stdin_open=False,
            tty=False,
            **container_options(spec, gpus=gpus),
        )
    except ImageNotFound:
        raise
    except APIError as error:
        raise refused(error) from error


def refused(error: APIError) -> TestsFailedError:
    """Return the error of tests that the engine does not start."""
    reason = str(error.explanation or error)
    if any(words in reason for words in _NO_GPU):
        hint = (
            "The engine has no GPU that works: install NVIDIA's container toolkit, or write `gpus: none` under tests."
        )
    elif "/bin/sh" in reason:
        hint = "The image must have /bin/sh."
    else:
        hint = "Check cpus, memory, shm, memlock, gpus and workdir under tests."
    return TestsFailedError(f"the tests could not be started: {reason}", hint=hint)


@dataclass(frozen=True, kw_only=True)
class End:
    """How a container's command ended; *timed_out* and *oom_killed* say why it was killed."""

    exit_code: int
    seconds: float
    timed_out: bool = False
    oom_killed: bool = False


def run_container(
    container: Container,
    timeout: float,
    engine: DockerClient,
    listener: Listener,
    refusal: Callable[[APIError], Exception],
) -> End:
    """Run it to its end, or until it is killed for the time.

    Args:
        container: what runs.
        timeout: seconds.
        engine: where it is.
        listener: receives each line as it comes.
        refusal: makes the error if the engine cannot start it: no shell, no such GPUs, limits that do not fit.
    """

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
        try:
            container.start()
        except APIError as error:
            raise refusal(error) from error
        timer.start()
        for line in split_lines(frames_iter(stream, tty=False)):
            listener(line)
        container.wait()
    finally:
        timer.cancel()
        stream._response.close()  # the stream's own close() leaves the connection open
    seconds = time.monotonic() - started
    container.reload()
    state: dict[str, Any] = container.attrs["State"]
    return End(
        exit_code=state["ExitCode"],
        seconds=seconds,
        timed_out=expired.is_set(),
        oom_killed=bool(state.get("OOMKilled")),
    )


def split_lines(frames: Iterable[tuple[int, bytes]]) -> Iterator[LogLine]:
    """Turn frames of output (1 is stdout, 2 stderr) into lines."""
    splitters = {number: LinePieces() for number in _STREAMS}
    for number, chunk in frames:
        yield from _log_lines(number, splitters[number].feed(chunk))
    for number, splitter in splitters.items():
        yield from _log_lines(number, splitter.feed(b"", final=True))


def _log_lines(number: int, pieces: Iterable[Piece]) -> Iterator[LogLine]:
    for piece in (line for one in pieces for line in lines_in(one)):
        yield LogLine(source="tests", text=piece.text, origin=_STREAMS[number], more=piece.more)


def end_container(container: Container, spec: TestSpec) -> None:
    """Remove the container, or stop a kept one; repeatable, from any thread."""

    if not spec.keep:
        remove_container(container)
        return
    try:
        container.kill()
    except NotFound:
        pass
    except APIError as error:
        if error.status_code != 409:  # it is not running
            raise


def report_kept(container: Container, spec: TestSpec, listener: Listener) -> None:
    """Report how to enter a kept container: an image of it is as the tests left it."""
    name = container.name
    network = "" if spec.network else " --network none"
    enter = (
        f"docker commit {name} {KEPT}:{name} && docker run --rm -it{network} --workdir {working_folder(spec)} "
        f"--entrypoint /bin/sh {KEPT}:{name}"
    )
    listener(Notice(text=f"The tests' container {name} is kept. Enter it as the tests left it: {enter}"))
    listener(Notice(text=f"Remove it: docker rm -v {name}; docker rmi {KEPT}:{name}"))
