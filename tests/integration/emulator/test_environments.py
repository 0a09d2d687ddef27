"""Environments that have to be built, on a real engine, as the unmodified azure-ai-ml names them.

conda's own channels cannot be reached everywhere: a stand-in with micromamba's interface takes a package from a local one.
"""

from __future__ import annotations

import functools
import http.server
import io
import secrets
import tarfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from aml_emulator.executor.build import BUILD_LOG_PATH
from tests.support.docker_bridge import bridge_address
from tests.support.emulator_process import Emulator

SCRIPT = "environment_steps.py"
BASE = "python:3.11-slim-bookworm"
STAND_IN = """#!/usr/bin/env python3
# The interface of micromamba, as far as a build uses it: what it does not know is refused.
import json, pathlib, sys, urllib.request
command, yes, prefix_flag, prefix, file_flag, file = sys.argv[1:]
assert (command, yes, prefix_flag, file_flag) == ("create", "--yes", "--prefix", "--file"), sys.argv
# AzureML keeps conda files as JSON, which YAML's readers take.
given = json.loads(pathlib.Path(file).read_text())
[channel], [name] = given["channels"], given["dependencies"]
print("taking", name, "from", channel)
target = pathlib.Path(prefix, "bin", "tool")
target.parent.mkdir(parents=True)
target.write_bytes(urllib.request.urlopen(f"{channel}/{name}").read())
target.chmod(0o755)
"""


class Gate(http.server.ThreadingHTTPServer):
    """Where steps of builds wait until they are let through: a GET is answered once there was a POST of the same path."""

    def __init__(self, address: str) -> None:
        self._lock = threading.Lock()
        self._events: dict[str, threading.Event] = {}
        super().__init__((address, 0), Gatekeeper)
        self.address = f"http://{address}:{self.server_port}"

    def event(self, name: str) -> threading.Event:
        with self._lock:
            return self._events.setdefault(name, threading.Event())

    def wait_at(self, name: str) -> str:
        """Return what a step has to run; it passes through no proxy."""
        opener = "u.build_opener(u.ProxyHandler({}))"
        return f"python -c \"import urllib.request as u; {opener}.open('{self.address}/{name}').read()\""


class Gatekeeper(http.server.BaseHTTPRequestHandler):
    server: Gate

    def do_GET(self) -> None:
        self.server.event(f"at {self.path}").set()
        self.server.event(self.path).wait()
        self._answer()

    def do_POST(self) -> None:
        self.server.event(self.path).set()
        self._answer()

    def _answer(self) -> None:
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_args: object) -> None:
        return


@pytest.fixture
def gate(engine: docker.DockerClient) -> Iterator[Gate]:
    address = bridge_address(engine.networks.get("bridge").attrs)
    with Gate(address) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture(scope="module")
def engine() -> Iterator[docker.DockerClient]:
    client = docker.from_env()
    yield client
    client.close()


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory, engine: docker.DockerClient) -> Iterator[Emulator]:
    folder = tmp_path_factory.mktemp("emulator")
    with tarfile.open(folder / "micromamba.tar.bz2", "w:bz2") as package:
        member = tarfile.TarInfo("bin/micromamba")
        member.size = len(STAND_IN)
        package.addfile(member, io.BytesIO(STAND_IN.encode()))
    service = Emulator(
        folder,
        environment={
            "AML_EMULATOR_MAX_JOBS": "4",
            "AML_EMULATOR_MICROMAMBA_URL": f"file://{folder}/micromamba.tar.bz2",
            "AML_EMULATOR_ENVIRONMENTS": f"AzureML-acpt-*={BASE}",
        },
    )
    ready = service.start()
    yield service
    service.admin("POST", "reset?force=1").raise_for_status()
    assert engine.images.list(filters={"label": f"org.aml-train.emulator.instance={ready['instance']}"}) == []
    service.stop()


def building(engine: docker.DockerClient, mark: str) -> list[str]:
    """Return the names of the containers that run a step with *mark* in it."""
    return [
        str(one.name)
        for one in engine.containers.list(ignore_removed=True)
        if mark in str(one.attrs["Config"]["Cmd"])
    ]


@pytest.mark.full
def test_a_build_context_is_built_once_with_its_log_shown(
    emulator: Emulator, engine: docker.DockerClient, gate: Gate
) -> None:
    mark = f"mark-{secrets.token_hex(4)}"
    held = gate.wait_at("good")
    seen = emulator.client("contexts", script=SCRIPT, mark=mark, held=held, gate=f"{gate.address}/good")
    assert "/LocalUpload/" in seen["path"]
    assert f"{mark}-slow\n" in seen["streamed"]
    first, second, third = (seen["logs"][name] for name in ("first", "second", "third"))
    assert first["user_logs/std_log.txt"].split() == ["Dockerfile", "kept.txt", mark]
    assert second["user_logs/std_log.txt"].strip() == mark
    builds = sorted(log[BUILD_LOG_PATH] for log in (first, second))
    assert "Another job builds the image of from-context:1; waiting for it" in builds[0]
    assert f"step {mark}" not in builds[0].replace(f"echo step {mark}", "")
    assert " : FROM python:3.11-slim-bookworm" in builds[1]
    assert BUILD_LOG_PATH not in third
    status, message = seen["bad"]
    assert status == "Failed"
    assert "could not be built" in message
    assert "returned a non-zero code: 7" in message
    assert f"{mark}-why" in message.partition("Its last lines:")[2]
    assert seen["slow"] == ["Preparing", "Canceled"]
    # The engine takes a moment to end what nobody waits for any longer.
    deadline = time.monotonic() + 300
    while (left := building(engine, f"{mark}-slow")) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert left == []


@pytest.mark.full
def test_a_conda_file_over_an_image_with_a_tool_and_one_without(
    emulator: Emulator, engine: docker.DockerClient, tmp_path: Path
) -> None:
    (tmp_path / "channel").mkdir()
    (tmp_path / "channel/tool=1.0").write_text("#!/bin/sh\necho the tool\n")
    (tmp_path / "image").mkdir()
    (tmp_path / "image/micromamba").write_text(STAND_IN)
    (tmp_path / "image/micromamba").chmod(0o755)
    (tmp_path / "image/Dockerfile").write_text(f"FROM {BASE}\nCOPY micromamba /opt/conda/bin/\n")
    tag = f"aml-train-test-tool-{secrets.token_hex(4)}:1"
    engine.images.build(path=str(tmp_path / "image"), tag=tag)
    gateway = bridge_address(engine.networks.get("bridge").attrs)
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer((gateway, 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            channel = f"http://{gateway}:{server.server_port}/channel"
            seen = emulator.client("conda", script=SCRIPT, channel=channel, image=tag, jobs="own fetched")
        finally:
            server.shutdown()
            engine.images.remove(tag)
    for status, why, logs in seen.values():
        assert (status, why) == ("Completed", None), logs
        tool, prefix = logs["user_logs/std_log.txt"].splitlines()
        assert tool == "the tool"
        assert prefix.startswith("/azureml-envs/azureml_")
        assert f"taking tool=1.0 from {channel}" in logs[BUILD_LOG_PATH]
    assert f"made by /opt/conda/bin/micromamba of {tag}" in seen["own"][2][BUILD_LOG_PATH]
    assert f"{BASE} has no conda: the environment is made by micromamba" in seen["fetched"][2][BUILD_LOG_PATH]
