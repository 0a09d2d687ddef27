"""Every job of job_table.py, submitted by azure-ai-ml and by aml-train: it runs or is refused, and reads back equal."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import docker
import pytest

from tests import contracts
from tests.integration.emulator.job_reading import differences
from tests.integration.emulator.job_table import IMAGE, TABLE, Row
from tests.support.docker_bridge import bridge_address
from tests.support.emulator_process import Emulator

CLIENTS = ("sdk", "ours")
JOBS_AT_ONCE = "6"
SECONDS = 4 * 3600.0

#: On a machine under load: the first test waits for all jobs of both clients.
pytestmark = [pytest.mark.full, pytest.mark.timeout(SECONDS)]


class Web(BaseHTTPRequestHandler):
    """A file on the web, and nothing else."""

    def do_GET(self) -> None:
        body = b"from the web\n"
        found = self.path.partition("?")[0] == "/file.txt"
        self.send_response(200 if found else 404)
        self.send_header("Content-Length", str(len(body) if found else 0))
        self.end_headers()
        self.wfile.write(body if found else b"")

    def log_message(self, *_args: object) -> None:
        return


@pytest.fixture(scope="module")
def web() -> Iterator[str]:
    """Address of a web server, on an address of this machine that is not loopback."""
    client = docker.from_env()
    gateway = bridge_address(client.networks.get("bridge").attrs)
    client.close()
    server = ThreadingHTTPServer((gateway, 0), Web)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://{gateway}:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, web: str) -> Iterator[dict[str, dict[str, Any]]]:
    """What both clients saw, by client and row; and what there is beside the table."""
    variables = {
        "AML_EMULATOR_MAX_JOBS": JOBS_AT_ONCE,
        "AML_EMULATOR_ENVIRONMENTS": f"played-*={IMAGE}",
        "AML_EMULATOR_MICROMAMBA_URL": "file:///nowhere/micromamba",
        "NO_PROXY": "*",
    }
    emulator = Emulator(tmp_path_factory.mktemp("table"), environment=variables, record=True)
    emulator.start()
    try:
        given = {"web": web, "api": emulator.info["api_host"]}
        given |= ask(emulator, "prepare", given)
        with ThreadPoolExecutor(len(CLIENTS)) as pool:
            answers = pool.map(lambda step: ask(emulator, step, given), CLIENTS)
            found = dict(zip(CLIENTS, answers, strict=True))
        beside = {step: ask(emulator, step, given) for step in ("others", "kept")}
        yield {**found, **beside, "answers": {"recorded": list(emulator.recorded())}}
    finally:
        emulator.admin("POST", "reset?force=1")
        emulator.stop()


def ask(emulator: Emulator, step: str, given: dict[str, str]) -> dict[str, Any]:
    return emulator.client(step, script="table_steps.py", seconds=SECONDS, **given)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_a_job_runs_or_is_refused_and_reads_back_equal(
    row: Row, client: str, results: dict[str, dict[str, Any]]
) -> None:
    seen = results[client][row.name]
    wanted = row.refused_by_us if client == "ours" and row.refused_by_us else row.refused
    if wanted is not None:
        assert wanted in " ".join(seen.get("refused", "").split()), seen
        return
    assert "refused" not in seen, seen["refused"]
    assert seen["status"] == row.status, (seen["error"], seen["log"])
    if row.prints is not None:
        assert seen["log"].splitlines() == seen["expected"]
    for words in seen["expected"] if row.prints is None else ():
        assert words in seen["log"] + seen["error"]
    assert differences(seen["document"], seen["back"], seen["raw"], lost=row.lost) == []


@pytest.mark.parametrize("row", [row for row in TABLE if row.refused is None], ids=lambda row: row.name)
def test_a_job_as_it_is_shown_can_be_sent_again_with_another_tag(
    row: Row, results: dict[str, dict[str, Any]]
) -> None:
    assert results["sdk"][row.name]["again"] == {"job": "yes"}


def test_the_answers_are_what_the_clients_declare(results: dict[str, dict[str, Any]]) -> None:
    wrong, beyond, _, _ = contracts.check(results["answers"]["recorded"])
    assert wrong == {}
    assert sorted(beyond - contracts.undeclared().keys()) == []


@pytest.mark.parametrize(
    ("row", "verdict", "message"),
    [
        ("output", "passed", ""),
        ("exit-code", "job-failed", "exited with status code 3"),
        ("file-missing", "job-failed", "The input 'd'"),
        ("pytorch-one-fails", "job-failed", "status code 9"),
        ("limit-reached", "cancelled", ""),
    ],
)
def test_aml_train_follows_a_job_to_its_verdict(
    row: str, verdict: str, message: str, results: dict[str, dict[str, Any]]
) -> None:
    seen = results["ours"][row]
    assert seen["verdict"] == verdict, seen["message"]
    assert message in seen["message"]


def test_what_a_mount_for_writing_is_given_is_there_afterwards(results: dict[str, dict[str, Any]]) -> None:
    seen = results["others"]
    assert seen["writes"]["status"] == "Completed", seen["writes"]["log"]
    assert seen["writes"]["raw"]["inputs"]["d"]["mode"] == "ReadWriteMount"
    assert seen["reads"]["log"] == "new.txt\n"


def test_what_jobs_leave_and_register_can_be_fetched(results: dict[str, dict[str, Any]]) -> None:
    seen = results["kept"]
    assert {path.partition("/")[0]: text for path, text in seen["files"].items()} == {
        "model-by-sdk": "weights\n",
        "output-placed": "made\n",
        "registers": "registered\n",
    }
    assert seen["data"] == ["1", "uri_folder", "azureml/sdk-registers/o/"]
    assert seen["versions"] == ["7"]
    assert seen["model"] == "sdk-registers-model"


def test_jobs_of_other_types_are_refused_by_name_and_lists_go_on(results: dict[str, dict[str, Any]]) -> None:
    seen = results["others"]
    for kind in ("AutoML", "Spark"):
        said = f"does not support jobs of type '{kind}' (only 'Command', 'Pipeline' and 'Sweep')"
        assert said in seen[kind.lower()]["refused"]
    assert {"writes", "reads"} < set(seen["listed"])
    assert seen["of_type"] == [[], []]


def test_what_changes_nothing_here_is_in_the_log_of_the_run(results: dict[str, dict[str, Any]]) -> None:
    for client in CLIENTS:
        seen = results[client]
        assert "identity: the job reads and writes the workspace's data" in seen["identity-managed"]["notes"]
        assert "Spot jobs run as all others do" in seen["spot"]["notes"]
        assert "queue_settings.priority: high" in seen["spot"]["notes"]
        assert "resources.instance_type" in seen["instance"]["notes"]
        assert "resources.locations: the job runs on this machine" in seen["locations"]["notes"]
        assert seen["identity-token"]["notes"] == ""
