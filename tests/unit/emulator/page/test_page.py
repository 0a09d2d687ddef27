"""The page: who may see it, that nothing on it is believed, and what it shows."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import pytest
from azure.core.exceptions import ResourceNotFoundError

from aml_emulator.network.heads import Head
from aml_emulator.page.site import STATIC, Site, refusal
from aml_emulator.page.view import HIDDEN, link
from aml_emulator.store.metrics import Metric
from tests.unit.emulator.parts import IDENTITY, Service

SCRIPTS = tuple(f"/ui/static/{name}" for name in STATIC if name.endswith(".js"))
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7 * 7 }}"


OURS = {
    **dict.fromkeys(("aml-train.gate", "aml-train.baseline", "aml-train.stage", "aml-train.promoted-by"), HOSTILE),
    "aml-train.gate-rules": json.dumps([[HOSTILE] * 5, HOSTILE]),
    f"aml-train.metric.{HOSTILE}": HOSTILE,
    f"aml-train.verdict.{HOSTILE}": json.dumps(
        {**dict.fromkeys(("gate", "at", "commit", "repository"), HOSTILE), "rules": [[HOSTILE] * 5, HOSTILE]}
    ),
}
"""What aml-train writes into tags, by somebody else."""


class Files:
    """Blob storage of a few files."""

    def __init__(self, **files: bytes) -> None:
        self.files = files

    def size(self, container: str, name: str) -> int | None:
        del container
        found = self._find(name)
        return None if found is None else len(found)

    def _find(self, name: str) -> bytes | None:
        return next((data for path, data in self.files.items() if name.endswith(f"/{path}")), None)

    def read(self, container: str, name: str) -> Iterator[bytes]:
        yield self.read_range(container, name, 0, 1 << 30)

    def read_range(self, container: str, name: str, offset: int, length: int) -> bytes:
        del container
        found = self._find(name)
        if found is None:
            raise ResourceNotFoundError(name)
        return found[offset : offset + length]


class Browser:
    """Asks a page about a service's state, without a socket."""

    def __init__(self, service: Service, **files: bytes) -> None:
        stored: Any = Files(**files)
        self.site = Site(dataclasses.replace(service.services, blobs=stored))

    def ask(self, path: str, *, method: str = "GET", **headers: str) -> Any:
        given = {"Host": "127.0.0.1:7380", **{name.replace("_", "-"): value for name, value in headers.items()}}
        return self.site.answer(Head(method=method, target=path, headers=tuple(given.items())))

    def text(self, path: str, *, status: int = 200) -> str:
        answer = self.ask(path)
        body = answer.body
        assert answer.status == status, body
        return bytes(body if isinstance(body, bytes) else b"".join(body)).decode()


def log_values(service: Service, run: str, key: str, values: list[float]) -> None:
    service.store.metrics.log(
        run, [Metric(key=key, value=value, timestamp=1000 * at, step=at) for at, value in enumerate(values)]
    )


# Who may see it


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("GET", {"Host": "127.0.0.1:7380"}, None),
        ("HEAD", {"Host": "localhost"}, None),
        ("GET", {"Host": "[::1]:80", "Sec-Fetch-Site": "none"}, None),
        ("GET", {"Host": "localhost:1", "Sec-Fetch-Site": "same-origin", "Origin": "http://localhost:1"}, None),
        (
            "GET",
            {
                "Host": "localhost",
                "Sec-Fetch-Site": "cross-site",
                "Sec-Fetch-Mode": "navigate",
                "Sec-Fetch-Dest": "document",
            },
            None,
        ),
        (
            "GET",
            {
                "Host": "localhost",
                "Sec-Fetch-Site": "cross-site",
                "Sec-Fetch-Mode": "navigate",
                "Sec-Fetch-Dest": "iframe",
            },
            403,
        ),
        ("GET", {"Host": "localhost", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403),
        ("GET", {"Host": "localhost", "Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"}, 403),
        ("GET", {"Host": "localhost:1", "Origin": "http://localhost:2"}, 403),
        ("GET", {"Host": "localhost:1", "Origin": "null"}, 403),
        ("GET", {"Host": "evil.example"}, 403),
        ("GET", {"Host": "127.0.0.1.evil.example"}, 403),
        ("GET", {"Host": "192.168.1.5:7380"}, 403),
        ("GET", {"Host": "localhost.evil.example:7380"}, 403),
        ("GET", {"Host": "[::1"}, 403),
        ("GET", {}, 403),
        ("POST", {"Host": "localhost"}, 405),
        ("DELETE", {"Host": "localhost"}, 405),
        ("OPTIONS", {"Host": "localhost"}, 405),
    ],
)
def test_only_a_browser_on_this_machine_is_answered(method: str, headers: dict[str, str], status: int | None) -> None:
    refused = refusal(Head(method=method, target="/ui/", headers=tuple(headers.items())))
    assert (refused[0] if refused else None) == status


def test_refusals_and_ways_in(service: Service) -> None:
    browser = Browser(service)
    assert browser.ask("/").headers == (("Location", "/ui/"),)
    assert browser.ask("/ui").status == 302
    refused = browser.ask("/ui/", Host="rebound.example")
    assert (refused.status, refused.body) == (
        403,
        b"This page answers as localhost, 127.0.0.1 or [::1] only, and no other pages.\n",
    )
    assert ("Allow", "GET, HEAD") in browser.ask("/ui/", method="POST").headers
    assert "There is no such page" in browser.text("/ui/nothing", status=404)
    assert "Not found: run &#39;x&#39;" in browser.text("/ui/runs/x", status=404)
    assert "no such file" in browser.text("/ui/static/..%2Fsite.py", status=404)
    assert "not an integer" in browser.text("/ui/?page=x", status=400)


# Its content


class Parsed(HTMLParser):
    """The elements of a page: nothing that was meant as text may be among them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))


def test_hostile_names_are_only_text(service: Service) -> None:
    store = service.store
    experiment = store.runs.ensure_experiment(HOSTILE)
    store.runs.create(
        run_id=HOSTILE,
        experiment_id=experiment.id,
        display_name=HOSTILE,
        status="Running",
        description=HOSTILE,
        tags={HOSTILE: HOSTILE, **OURS},
        properties={HOSTILE: HOSTILE},
        job={
            "command": HOSTILE,
            "inputs": {HOSTILE: {"jobInputType": HOSTILE, "value": HOSTILE}},
            "environmentVariables": {HOSTILE: "x"},
        },
        outputs={HOSTILE: {"container": HOSTILE, "prefix": HOSTILE, "kind": "uri_file", "stored": False}},
        started=5.0,
    )
    log_values(service, HOSTILE, HOSTILE, [1.0, math.nan, math.inf, -math.inf])
    store.runs.create(run_id="other", experiment_id=experiment.id, display_name="other", status="Completed")
    log_values(service, "other", HOSTILE, [1.0, 2.0])
    store.metrics.set_params("other", [(HOSTILE, "1")])
    store.metrics.set_params(HOSTILE, [(HOSTILE, HOSTILE)])
    store.runs.add_artifact(HOSTILE, f"{HOSTILE}/{HOSTILE}")
    store.runs.add_artifact(HOSTILE, "log.txt", log=True)
    holds = {
        "modelUri": HOSTILE,
        "jobName": HOSTILE,
        "tags": {HOSTILE: HOSTILE, **OURS},
        "properties": {HOSTILE: HOSTILE},
    }
    store.assets.put("models", HOSTILE, HOSTILE, holds)
    browser = Browser(service, **{"log.txt": HOSTILE.encode() + b"\x1b[31m\n</pre><script>\n"})
    pages = [
        "/ui/",
        link("", text=HOSTILE, experiment=HOSTILE, metric=HOSTILE),
        link("compare", run=[HOSTILE, "other"]),
        link("runs", HOSTILE),
        link("runs", HOSTILE, "log", path="log.txt"),
        link("models"),
        link("models", HOSTILE),
        link("models", HOSTILE, HOSTILE),
    ]
    for page in pages:
        html = browser.text(page)
        assert "{{ 7 * 7 }}" in html or "49" not in html, page
        assert "alert(1)" in html, f"{page} does not show it at all"
        for tag, attributes in Parsed(html).elements:
            assert tag != "img", page
            assert tag != "script" or attributes.get("src") in SCRIPTS, page
            assert not any(name.startswith("on") or name == "style" for name in attributes), page
            for name in ("href", "src", "action"):
                value = attributes.get(name)
                assert value is None or value.startswith(("/ui/", "#")), (page, value)
    answer = browser.ask(link("runs", HOSTILE, "file", path="log.txt"))
    assert answer.type == "application/octet-stream"
    assert answer.headers[0][1].startswith("attachment;")


def test_each_verdict_is_shown_with_the_rules_that_it_was_decided_by(service: Service) -> None:
    verdict = {"gate": "failed", "at": "t", "commit": "c", "repository": "", "configuration": "a.yml"}
    tags = {
        "aml-train.gate": "passed",
        "aml-train.gate-rules": json.dumps([["acc", ">= 0.5", 0.8, 0.5, "met"]]),
        "aml-train.verdict.": json.dumps({**verdict, "rules": [["acc", ">= 0.9", 0.8, 0.9, "missed"], "1 more"]}),
    }
    experiment = service.store.runs.ensure_experiment("e")
    service.store.runs.create(
        run_id="r", experiment_id=experiment.id, display_name="r", status="Completed", tags=tags
    )
    page = Browser(service).text(link("runs", "r"))
    words = " ".join(re.sub(r"<[^>]+>", " ", page[page.index('id="gate"') :]).split())
    assert "Verdict passed" in words
    assert "acc &gt;= 0.5 0.8 0.5 met" in words
    assert "no branch failed missed acc &gt;= 0.9 : 0.8 1 more t c a.yml" in words


def test_no_secret_is_shown(service: Service) -> None:
    token = "eyJhbGciOiJIUzI1NiJ9.eyJhdWQiOiJodHRwczovL2F6dXJlIn0.c2lnbmF0dXJl"
    signature = "sv=2024&sig=abcdefghijklmnopqrstuvwxyz0123456789%3D&sp=r"
    secrets = [
        IDENTITY.client_secret,
        IDENTITY.token_secret,
        token,
        "abcdefghijklmnopqrstuvwxyz0123456789",
        "swordfish",
    ]
    said = f"{IDENTITY.client_secret} {IDENTITY.token_secret} {token} https://x/y?{signature} https://u:swordfish@x/"
    assert service.submit("j", environmentVariables={"PASS": "swordfish"}, tags={"t": said}).status == 201
    service.store.runs.add_artifact("j", "log.txt", log=True)
    browser = Browser(service, **{"log.txt": said.encode() + b"\n"})
    for page in ("/ui/runs/j", "/ui/runs/j/log?path=log.txt", "/ui/runs/j/log.txt?path=log.txt"):
        shown = browser.text(page)
        assert HIDDEN in shown
        for secret in secrets:
            assert secret not in shown, (page, secret)
    assert "PASS" in browser.text("/ui/runs/j")


def test_a_run_shows_all_there_is_to_it(service: Service) -> None:
    assert (
        service.submit(
            "train-1",
            displayName="My run",
            tags={"commit": "abc"},
            command="python train.py --rate ${{inputs.rate}}",
            inputs={"rate": {"jobInputType": "literal", "value": "0.1"}},
            outputs={"model": {"jobOutputType": "custom_model", "mode": "ReadWriteMount"}},
        ).status
        == 201
    )
    runs = service.store.runs
    runs.advance("train-1", "Running")
    log_values(service, "train-1", "val/loss", [1.0, 0.5, 0.25])
    log_values(service, "train-1", "single", [7.5])
    service.store.metrics.set_params("train-1", [("rate", "0.1")])
    runs.add_artifact("train-1", "user_logs/std_log.txt", log=True)
    runs.add_artifact("train-1", "outputs/model/weights.bin", size=2048)
    service.store.assets.put("models", "digits", "3", {"modelUri": "azureml://x", "jobName": "train-1"})
    browser = Browser(service, **{"user_logs/std_log.txt": b"epoch 1\nepoch 2\nhalf a li"})
    shown = browser.text("/ui/runs/train-1")
    for words in (
        "<h1>My run</h1>",
        "status-Running",
        "Chart of val/loss",
        "3 values, from 1 to 0.25, lowest 0.25, highest 1.",
        "7.5",
        "python train.py --rate ${{inputs.rate}}",
        "weights.bin",
        "2.0 KiB",
        "epoch 1\nepoch 2\n</pre>",
        "digits, version 3",
        "commit",
        "local-cluster",
        "python:3.11",
        "data-live",
        '<noscript><meta http-equiv="refresh"',
    ):
        assert words in shown, words
    assert shown.count("<svg") == 1, "a metric of one value has no chart"
    runs.finish("train-1", "Failed", code="UserError", message="exit code 3", exit_code=3)
    ended = browser.text("/ui/runs/train-1")
    assert "half a li</pre>" in ended
    assert "<strong>UserError</strong>: exit code 3" in ended
    assert "data-live" not in ended
    assert "<dt>Duration</dt>" in ended


@pytest.mark.parametrize("path", ["outputs/none", "../earlier/secret.txt", ""])
def test_no_path_leads_out_of_the_run(service: Service, path: str) -> None:
    service.submit("earlier")
    service.submit("j")
    service.store.runs.add_artifact("earlier", "secret.txt", size=1)
    service.store.runs.add_artifact("j", "pending.txt")
    browser = Browser(service, **{"secret.txt": b"x"})
    assert browser.text(link("runs", "j", "file", path=path), status=404)
    assert "not uploaded" in browser.text("/ui/runs/j/file?path=pending.txt", status=404)
