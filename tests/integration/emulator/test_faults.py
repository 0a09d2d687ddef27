"""Faults that are put in on purpose, as clients meet them: through the proxy, at each of Azure's hosts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from azure.core.pipeline.transport import RequestsTransport
from azure.storage.blob import BlobServiceClient

from tests.support.emulator_client import MANAGEMENT, SECONDS, signed_in
from tests.support.emulator_process import Emulator

VERSION = "api-version=2024-01-01-preview"


@pytest.fixture
def session(emulator: Emulator) -> Iterator[requests.Session]:
    environment = emulator.environment()
    with signed_in(environment) as session:
        yield session
    assert emulator.admin("DELETE", "faults").status_code == 200


def _workspace(emulator: Emulator) -> str:
    group = f"/subscriptions/{emulator.info['subscription_id']}/resourceGroups/aml-local"
    return f"{MANAGEMENT}{group}/providers/Microsoft.MachineLearningServices/workspaces/local"


def _blobs(emulator: Emulator, session: requests.Session) -> BlobServiceClient:
    url = f"{_workspace(emulator)}/datastores/workspaceblobstore/listSecrets?{VERSION}"
    key = session.post(url, timeout=SECONDS).json()["key"]
    transport = RequestsTransport(connection_verify=session.verify, use_env_settings=False)
    return BlobServiceClient(
        "https://amllocalstore.blob.core.windows.net",
        credential={"account_name": "amllocalstore", "account_key": key},
        transport=transport,
        proxies=session.proxies,
        retry_total=0,
    )


def test_what_is_no_fault_is_refused(emulator: Emulator) -> None:
    answer = emulator.admin("POST", "faults?kind=status&status=200")
    assert (answer.status_code, answer.json()["error"]) == (400, "status: from 400 to 599, not 200")
    assert emulator.admin("DELETE", "faults?id=999").status_code == 404


@pytest.mark.parametrize(("query", "made"), [("kind=reset", False), ("kind=reset&after=1", True)])
def test_an_answer_is_lost_before_or_after_it_took_effect(
    emulator: Emulator, session: requests.Session, query: str, made: bool
) -> None:
    name = "after" if made else "before"
    url = f"{_workspace(emulator)}/environments/{name}/versions/1?{VERSION}"
    emulator.admin("POST", f"faults?{query}&method=PUT&count=1")
    with pytest.raises(requests.exceptions.ConnectionError):
        session.put(url, json={"properties": {"image": "python:3.11"}}, timeout=SECONDS)
    assert session.get(url, timeout=SECONDS).status_code == (200 if made else 404)


def test_long_answers_arrive_whole_while_there_are_rules(emulator: Emulator, session: requests.Session) -> None:
    """The storage closes the connection after each, and what the client has not taken yet still arrives."""
    with _blobs(emulator, session) as client:
        container = client.get_container_client("long")
        container.create_container()
        data = bytes(16 << 20)
        container.upload_blob("one", data)
        emulator.admin("POST", "faults?kind=delay&delay=600&path=*/long/other")
        for _ in range(3):
            assert len(container.download_blob("one").readall()) == len(data)


def test_an_outage_and_its_end(emulator: Emulator, session: requests.Session) -> None:
    number = emulator.admin("POST", "faults?kind=outage&host=*.azure.com").json()["id"]
    with pytest.raises(requests.exceptions.ConnectionError):
        session.get(f"{_workspace(emulator)}?{VERSION}", timeout=SECONDS)
    assert emulator.admin("GET", "health").status_code == 200
    emulator.admin("DELETE", f"faults?id={number}")
    assert session.get(f"{_workspace(emulator)}?{VERSION}", timeout=SECONDS).status_code == 200


@pytest.mark.full
def test_the_unmodified_client_gets_through_a_tenth_of_failures(emulator: Emulator) -> None:
    emulator.admin("POST", "faults?kind=status&status=503&retry_after=0&probability=0.1&seed=5&host=management.*")
    seen: dict[str, Any] = emulator.client("workspace")
    assert seen["listed"] == ["local"]
    (rule,) = emulator.admin("GET", "faults").json()["faults"]
    assert rule["injected"] > 0, json.dumps(rule)
    emulator.admin("DELETE", "faults")
