"""What ends the image stage before its time, and that nothing goes on or stays behind: the tests, the push, the build."""

from __future__ import annotations

import contextlib
import gc
import os
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from aml_train.core.docker import BuildCli
from aml_train.core.errors import ImageError, TestsFailedError
from aml_train.core.events import Event, LogLine, Notice
from aml_train.core.threads import CancelToken, WorkCancelledError, drain
from aml_train.image.build.build import build_image
from aml_train.image.ensure import ensure_image
from aml_train.image.leftovers import LABEL_KIND, LABEL_OWNER, this_owner
from aml_train.image.readiness.check import probe_image
from aml_train.image.registry.client import RegistryLocation
from aml_train.image.spec import ImageSpec, TestSpec
from tests.integration.conftest import BASE, Recorder, tidy_up
from tests.support.engine_images import names

if TYPE_CHECKING:
    from docker import DockerClient

MakeTests = Callable[..., TestSpec]
SOON = 300.0
"""Seconds until which what is waited for has come even on a busy machine: a bound for what hangs."""
HOLD = "echo holding; exec sleep 6000"
#: Longer than any end of the checks takes.
AGAIN_SECONDS = 30.0


LARGE = 6 << 20
"""Bytes that only the base's largest layer has, of which more is left then than sockets hold: the engine is in the midst of sending it."""


class HalfRegistry(ThreadingHTTPServer):
    """A registry whose uploads begin, and then either take no end or are denied.

    Attributes:
        begun: set when the engine has sent a part of a large layer. No more of it is taken then: the engine cannot be through.
        go_on: once set, the rest is taken, if the engine sends it.
        broken_off: set when the engine closes a connection on which it was sending.
        deny: once set, uploads are denied.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        # The connections' too: they hold little.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        self.begun, self.broken_off = threading.Event(), threading.Event()
        self.go_on, self.deny = threading.Event(), threading.Event()
        self.denies = False
        self.uploads: list[socket.socket] = []


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: HalfRegistry

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self._answer(200 if self.path == "/v2/" else 404)

    def do_HEAD(self) -> None:
        self._answer(404)

    def do_POST(self) -> None:
        self._answer(202, Location=f"/v2/upload/{secrets.token_hex(8)}", Range="0-0")

    def do_PATCH(self) -> None:
        self.close_connection = True
        self.server.uploads.append(self.connection)
        if self.server.denies:
            self.server.deny.wait()  # until the test says so, or ends
            body = b'{"errors": [{"code": "DENIED", "message": "this registry takes nothing"}]}'
            self._answer(403, body, **{"Content-Type": "application/json"})
            return
        taken = 0
        with contextlib.suppress(ConnectionError):
            while data := self.rfile.read1(1 << 16):
                taken += len(data)
                if taken >= LARGE:
                    self.server.begun.set()
                    self.server.go_on.wait()
        self.server.broken_off.set()


# docker-py leaves a connection open that is interrupted while it is being made: that is found here, and not in another test.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def _collect() -> Iterator[None]:
    yield
    gc.collect()


@pytest.fixture
def half() -> Iterator[HalfRegistry]:
    server = HalfRegistry()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield server
    server.deny.set()
    server.go_on.set()
    for upload in server.uploads:  # of what was sent whole the engine awaits the answer
        with contextlib.suppress(OSError):
            upload.shutdown(socket.SHUT_RDWR)
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def ensure(
    engine: DockerClient, cli: BuildCli, half: HalfRegistry, spec: ImageSpec
) -> Iterator[Callable[..., object]]:
    """The stage against that registry; afterwards nothing of it is on the engine."""
    host = f"localhost:{half.server_address[1]}"
    location = RegistryLocation(push_name=host, job_name="amltest.azurecr.io", url=f"http://{host}")

    def call(tests: TestSpec, listener: Callable[[Event], None]) -> object:
        return ensure_image(spec, tests, engine=engine, cli=lambda: cli, location=location, listener=listener)

    yield call
    # What was told to end is waited for no longer than a bound; what was asked of the engine by then comes to its end.
    tidy_up()
    assert nothing_left(engine)
    assert not [name for name in names(engine) if name.startswith(host)]
    assert not [thread for thread in threading.enumerate() if thread.name == "push"]


def nothing_left(engine: DockerClient) -> bool:
    return engine.containers.list(all=True, filters={"label": f"{LABEL_OWNER}={this_owner(engine)}"}) == []


def on_line(text: str, act: Callable[[], None], recorder: Recorder) -> Callable[[Event], None]:
    """Return a listener that calls *act* when the tests print *text*."""

    def listener(event: Event) -> None:
        recorder(event)
        if isinstance(event, LogLine) and event.source == "tests" and event.text == text:
            act()

    return listener


def test_an_interruption_ends_tests_and_push(
    ensure: Callable[..., object], half: HalfRegistry, tests: MakeTests, recorder: Recorder
) -> None:
    def interrupt() -> None:
        assert half.begun.wait(SOON)
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        ensure(tests(command=HOLD, timeout=6000.0), on_line("holding", interrupt, recorder))
    half.go_on.set()
    assert half.broken_off.wait(SOON), "the engine goes on with the push"
    assert not recorder.of(Notice)


@pytest.mark.full
def test_a_push_that_fails_ends_the_tests(
    ensure: Callable[..., object],
    half: HalfRegistry,
    tests: MakeTests,
    recorder: Recorder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("aml_train.core.retry.PAUSES", ())
    half.denies = True
    expected = r"the push of localhost:\d+/.*-candidate:candidate-.* failed: .*denied.*\nThe tests were ended\."
    with pytest.raises(ImageError, match=expected):
        ensure(tests(command=HOLD, timeout=6000.0), on_line("holding", half.deny.set, recorder))


@pytest.mark.full
def test_tests_that_fail_break_the_push_off(
    ensure: Callable[..., object], half: HalfRegistry, tests: MakeTests, recorder: Recorder
) -> None:
    def wait_for_push() -> None:
        assert half.begun.wait(SOON)

    with pytest.raises(
        TestsFailedError, match=r"the tests failed \(exit code 3\): echo failing; exit 3\nThe tests' output"
    ):
        ensure(tests(command="echo failing; exit 3"), on_line("failing", wait_for_push, recorder))
    half.go_on.set()
    assert half.broken_off.wait(SOON), "the engine goes on with the push"


def when_checking(engine: DockerClient, act: Callable[[], object]) -> threading.Thread:
    """Call *act* from another thread as soon as this process's container for the checks runs."""
    wanted = {"label": [f"{LABEL_OWNER}={this_owner(engine)}", f"{LABEL_KIND}=checks"], "status": "running"}

    def wait() -> None:
        deadline = time.monotonic() + SOON
        while not engine.api.containers(filters=wanted):
            assert time.monotonic() < deadline, "the checks have not begun"
            time.sleep(0.02)
        act()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


@pytest.mark.full
def test_the_checks_can_be_ended(engine: DockerClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aml_train.image.readiness.check.CHECKS_SCRIPT", "exec sleep 6000")
    token = CancelToken()
    thread = when_checking(engine, token.cancel)
    with pytest.raises(WorkCancelledError):
        probe_image(engine, BASE, token=token)
    thread.join()
    tidy_up()
    assert nothing_left(engine)


def test_an_interruption_ends_the_checks(engine: DockerClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aml_train.image.readiness.check.CHECKS_SCRIPT", "exec sleep 6000")
    ended = threading.Event()

    def interrupt() -> None:
        # A signal that comes between Python's look for one and the wait for the engine is only seen after that wait: as
        # people do, another one is sent then.
        while not ended.is_set():
            os.kill(os.getpid(), signal.SIGINT)
            ended.wait(AGAIN_SECONDS)

    thread = when_checking(engine, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt), drain():
            probe_image(engine, BASE)
    finally:
        ended.set()
    thread.join()
    tidy_up()
    assert nothing_left(engine)


def test_an_interruption_ends_the_build_in_the_engine(spec: ImageSpec, engine: DockerClient, cli: BuildCli) -> None:
    seconds = f"{6000 + secrets.randbelow(1000)}.{secrets.randbelow(10**6)}"

    def running() -> bool:
        """Tell whether the step's process runs: the builder's containers are in no list of the engine."""
        found = False
        for file in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                found = found or file.read_bytes() == f"sleep\0{seconds}\0".encode()
        return found

    def listener(event: Event) -> None:
        if isinstance(event, LogLine) and event.text == "holding":
            deadline = time.monotonic() + SOON
            while not running():
                if time.monotonic() > deadline:
                    pytest.skip("the engine's processes cannot be seen from here")
                time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGINT)

    tag = f"aml-train-test:{secrets.token_hex(4)}"
    spec = replace(spec, dockerfile=f"FROM {spec.base.pinned}\nRUN echo holding; exec sleep {seconds}\n")
    with pytest.raises(KeyboardInterrupt):
        build_image(spec, cli=cli, engine=engine, tag=tag, listener=listener)
    deadline = time.monotonic() + SOON
    while running():
        assert time.monotonic() < deadline, "the engine goes on with the build"
        time.sleep(0.05)
    assert not engine.images.list(name=tag)
