"""The running local AzureML answers in the shapes that were recorded from Azure."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contracts import recorded
from tests.contracts.recorded.replay import Answer, Replayer, differing
from tests.support.emulator_client import SECONDS, TERMINAL, VERSION, session_for, token
from tests.support.emulator_process import Emulator, executing_by


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    with executing_by("tests.support.instant_emulator", tmp_path_factory.mktemp("recorded")) as service:
        yield service


def test_answers_have_the_recorded_shapes(emulator: Emulator) -> None:
    """Every exchange through the proxy, over TLS, with real storage; the unit test has them one by one."""
    environment, info = emulator.environment(), emulator.info
    root = f"/subscriptions/{info['subscription_id']}/resourceGroups/{info['resource_group']}"
    workspace = f"{root}/providers/Microsoft.MachineLearningServices/workspaces/{info['workspace']}"
    with session_for(environment) as session:
        session.headers["Authorization"] = f"Bearer {token(session, environment)}"

        def send(method: str, host: str, path: str, body: Any) -> Answer:
            answer = session.request(method, f"https://{host}{path}", json=body, timeout=SECONDS)
            headers = {name.lower(): value for name, value in answer.headers.items()}
            return Answer(status=answer.status_code, headers=headers, body=answer.json() if answer.content else None)

        shown = send("GET", "management.azure.com", f"{workspace}?{VERSION}", None).body
        store = send("GET", "management.azure.com", f"{workspace}/datastores/workspaceblobstore?{VERSION}", None).body
        storage = store["properties"]
        replayer = _Process(
            send=send,
            workspace=workspace,
            location=shown["location"],
            api_host=shown["properties"]["discoveryUrl"].split("/")[2],
            blobs=f"https://{storage['accountName']}.blob.core.windows.net/{storage['containerName']}",
            account=storage["accountName"],
            container=storage["containerName"],
            compute=info["compute"],
        )
        replayer.prepare()
        found = {}
        reasons = recorded.differences()
        for family in recorded.FAMILIES:
            for number, exchange in enumerate(recorded.exchanges(family)):
                # The instant executor ends a cancelled job before it can be seen.
                if reasons.refuse(exchange) or (exchange.status == 202 and "mfeOperation" in exchange.path):
                    continue
                different = differing(replayer, exchange, reasons)
                if different:
                    found[f"{family}-{number} {exchange.operation}"] = different
    assert found == {}


class _Process(Replayer):
    """Replays on a process, whose jobs end when they are cancelled."""

    def finish(self, name: str) -> None:
        path = f"{self.workspace}/jobs/{name}"
        self.send("POST", "management.azure.com", f"{path}/cancel?{VERSION}", None)
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            shown = self.send("GET", "management.azure.com", f"{path}?{VERSION}", None).body
            if shown["properties"]["status"] in TERMINAL:
                return
            time.sleep(0.02)
        raise TimeoutError(name)


def test_the_facts_are_small() -> None:
    sizes = {file.name: file.stat().st_size for file in Path(recorded.FOLDER).glob("*.json")}
    assert max(sizes.values()) < 200_000, sizes
