"""Every job of job_table.py, submitted by azure-ai-ml: it runs as the grammar says, and as it is shown it is the same job."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import docker
import pytest

from tests.integration.emulator.job_table import IMAGE, TABLE
from tests.support.docker_bridge import bridge_address
from tests.support.emulator_process import Emulator, running

SECONDS = 2 * 3600.0

#: On a machine under load: the first test waits for all jobs.
pytestmark = [pytest.mark.full, pytest.mark.timeout(SECONDS)]


class Web(BaseHTTPRequestHandler):
    """A file on the web."""

    def do_GET(self) -> None:
        body = b"from the web\n"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: object) -> None:
        return


@pytest.fixture(scope="module")
def web() -> Iterator[str]:
    """Address of a web server, on an address of this machine that is not loopback."""
    client = docker.from_env()
    gateway = bridge_address(client.networks.get("bridge").attrs)
    client.close()
    with ThreadingHTTPServer((gateway, 0), Web) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://{gateway}:{server.server_address[1]}"
        server.shutdown()


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    variables = {
        "AML_EMULATOR_MAX_JOBS": "6",
        "AML_EMULATOR_ENVIRONMENTS": f"played-*={IMAGE}",
        "AML_EMULATOR_MICROMAMBA_URL": "file:///nowhere/micromamba",
        "NO_PROXY": "*",
    }
    with running(Emulator(tmp_path_factory.mktemp("table"), environment=variables)) as service:
        yield service


@pytest.fixture(scope="module")
def seen(emulator: Emulator, web: str) -> dict[str, dict[str, Any]]:
    """What the client saw, by row."""
    return emulator.client("run", script="table_steps.py", seconds=SECONDS, web=web)


def test_jobs_run_as_the_grammar_says_and_are_shown_as_they_are(seen: dict[str, dict[str, Any]]) -> None:
    wrong = {}
    for row in TABLE:
        found = seen[row.name]
        said = found["log"] + found["error"]
        fits = (
            all(words in said for words in found["expected"])
            if row.prints is None
            else found["log"].splitlines() == found["expected"]
        )
        if not fits or (found["status"], found["again"]) != (row.status, "yes"):
            wrong[row.name] = found
    assert wrong == {}


def test_what_changes_nothing_here_is_in_the_log_of_the_run(seen: dict[str, dict[str, Any]]) -> None:
    assert "identity: the job reads and writes the workspace's data" in seen["identity-managed"]["notes"]
    assert "Spot jobs run as all others do" in seen["spot"]["notes"]
    assert "resources.instance_type" in seen["locations"]["notes"]
    assert "resources.locations: the job runs on this machine" in seen["locations"]["notes"]
    assert "services.s: no SSH service is started" in seen["services"]["notes"]
    assert seen["output"]["notes"] == ""
