"""What `aml-train emulator clean` removes from Blob storage."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from tests.support.emulator_client import TERMINAL, Client
from tests.support.emulator_process import executing_by

#: Paths of files, some with characters that an address must escape.
FILES = ("outputs/plain.txt", "outputs/50%25+ü?#&=.txt", "outputs/~a/[b]{c}'\"$().txt")
SECONDS = 300.0


def ended_job(client: Client, name: str) -> None:
    """Run a job that writes :data:`FILES`, each with one letter."""
    body: dict[str, Any] = {
        "jobType": "Command",
        "command": "\n".join(f"write {path} x" for path in FILES),
        "environmentId": f"{client.scope}/environments/e/versions/1",
        "computeId": f"{client.scope}/computes/local-cluster",
        "experimentName": "cleaned",
    }
    client.ask("PUT", client.arm("environments/e/versions/1"), json={"properties": {"image": "x"}})
    answer = client.ask("PUT", client.arm(f"jobs/{name}"), json={"properties": body})
    assert answer.status_code == 201, answer.text
    deadline = time.monotonic() + SECONDS
    while client.ask("GET", client.arm(f"jobs/{name}")).json()["properties"]["status"] not in TERMINAL:
        assert time.monotonic() < deadline, "the job does not end"
        time.sleep(0.05)


def addresses(client: Client, name: str) -> list[str]:
    """Return the signed addresses of all files of a job."""
    answer = client.ask(
        "GET", f"{client.api}/artifact/v2.0{client.scope}/artifacts/prefix/contentinfo/ExperimentRun/dcid.{name}"
    )
    assert answer.status_code == 200, answer.text
    return [one["contentUri"] for one in answer.json()["value"]]


def test_files_are_gone_whatever_their_names_are_and_those_of_other_jobs_stay(tmp_path: Path) -> None:
    with executing_by("tests.support.instant_emulator", tmp_path) as emulator:
        client = Client(emulator.environment(), emulator.info)
        for name in ("old", "older", "new"):
            ended_job(client, name)
        found = {name: addresses(client, name) for name in ("old", "older", "new")}
        for urls in found.values():
            assert len(urls) == len(FILES) + 1, "the files and the log"
            assert {client.blob("HEAD", url).status_code for url in urls} == {200}

        tried = emulator.admin("POST", "clean?older_than=0&keep=1&dry_run=1").json()
        assert {client.blob("HEAD", url).status_code for url in found["old"]} == {200}
        cleaned = emulator.admin("POST", "clean?older_than=0&keep=1").json()
        assert cleaned | {"dry_run": True} == tried
        assert sorted(cleaned["runs"]) == ["old", "older"]
        assert cleaned["blobs"] == 2 * (len(FILES) + 1)
        assert cleaned["bytes"] == 2 * len(FILES)
        for url in (*found["old"], *found["older"]):
            assert client.blob("HEAD", url).status_code == 404, url
        assert {client.blob("HEAD", url).status_code for url in found["new"]} == {200}
        client.close()
