"""Requests to the local AzureML: paths, queries and bodies.

The application is that of the unit tests, over a database and Blob storage in memory.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from functools import cache
from random import Random
from typing import Any

from starlette.datastructures import Headers, QueryParams

from aml_emulator.api.routing import Call, Reply
from fuzz.limits import unwatched
from fuzz.mutation import Mutator
from fuzz.target import BrokenError, Target, as_bytes, require
from tests.unit.emulator.api.test_bad_requests import ROUTES, Fuzz, experiment_of
from tests.unit.emulator.memory_service import API, KNOWN, TRACKING, furnished
from tests.unit.emulator.parts import WS, Service

MANAGEMENT = "management.azure.com"
_MOST_REQUESTS = 4
_METRIC = {
    "name": "loss",
    "columns": {"loss": "Double"},
    "properties": {"uxMetricType": "azureml.v1.scalar"},
    "value": [{"createdUtc": "2026-01-01T00:00:00Z", "data": {"loss": 0.5}, "step": 1}],
}


class _Errors(logging.Handler):
    """Keeps the last exception that the application logged."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.last: BaseException | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self.last = record.exc_info[1]


@cache
def _errors() -> _Errors:
    handler = _Errors()
    logger = logging.getLogger("aml_emulator.api.app")
    logger.addHandler(handler)
    logger.propagate = False
    return handler


def seeds() -> Sequence[Any]:
    """Return accepted requests, and requests of every route, odd ones among them."""
    rng = Random(1)  # noqa: S311 - to be repeated
    service = furnished()
    experiment, job = experiment_of(service), service.job()
    service.close()
    inputs = {"a": {"jobInputType": "uri_folder", "uri": "azureml://datastores/workspaceblobstore/paths/x"}}
    run = f"{WS}/runs/run-1"
    written = [
        (
            "PUT",
            f"{WS}/jobs/new",
            MANAGEMENT,
            {"properties": {**job, "inputs": inputs, "resources": {"shmSize": "2g"}}},
        ),
        (
            "PUT",
            f"{WS}/environments/mine/versions/1",
            MANAGEMENT,
            {"properties": {"image": "x", "condaFile": "dependencies: [a]"}},
        ),
        ("POST", f"/metric/v2.0{run}/batch", API, {"values": [_METRIC]}),
        (
            "POST",
            f"{TRACKING}/runs/log-metric",
            API,
            {"run_id": "run-1", "key": "loss", "value": 0.5, "timestamp": 5, "step": 1},
        ),
        (
            "POST",
            f"{TRACKING}/runs/search",
            API,
            {"experiment_ids": ["0"], "filter": "metrics.loss > 0", "order_by": ["params.a"]},
        ),
    ]
    found = [
        [{"method": method, "host": host, "path": path, "query": "", "body": json.dumps(body)}]
        for method, path, host, body in written
    ]
    for route in ROUTES.values():
        for _ in range(2):
            fuzz = Fuzz(route, rng, None, experiment)
            method, host, path, query, _, _ = fuzz.draw()
            body = "" if method in ("GET", "HEAD", "DELETE") else json.dumps(_body(rng))
            found.append([{"method": method, "host": host, "path": path, "query": query, "body": body}])
    return found


def _body(rng: Random) -> Mapping[str, Any]:
    names = rng.sample(sorted(KNOWN), 8)
    flat = {name: rng.choice(KNOWN[name]) for name in names}
    return flat if rng.random() < 0.4 else {"properties": flat}


def _call(service: Service, request: Mapping[str, Any]) -> Call:
    query = str(request.get("query", "")).encode("utf-8", "replace").decode()
    path = str(request.get("path", "/")).encode("ascii", "replace").decode()
    if "api-version" not in query:
        query += "&api-version=2024-01-01-preview"
    return Call(
        method=str(request.get("method", "GET")),
        host=str(request.get("host", MANAGEMENT)),
        path=path,
        params={},
        query=QueryParams(query),
        headers=Headers({"authorization": f"Bearer {service.token}"}),
        body=as_bytes(str(request.get("body", ""))),
        principal=None,
    )


def check(value: Any) -> None:
    """Send some requests to one workspace."""
    requests = [one for one in value if isinstance(one, dict)][:_MOST_REQUESTS] if isinstance(value, list) else []
    if not requests:
        return
    errors = _errors()
    with unwatched():
        service = furnished()
    try:
        for request in requests:
            errors.last = None
            reply, content = service.app._answer(_call(service, request))
            _judge(reply, content, errors.last)
    finally:
        with unwatched():
            service.close()


def _judge(reply: Reply, content: bytes, error: BaseException | None) -> None:
    if reply.status >= 500 and reply.status != 501:
        if error is not None:
            raise error
        raise BrokenError(f"{reply.status}: {content[:200]!r}")
    if reply.data is None and content:
        json.loads(content)
    for name, text in reply.headers.items():
        require("\n" not in f"{name}{text}" and "\r" not in f"{name}{text}", f"the header {name} has a line end")
        text.encode("latin-1")


def mutate(mutator: Mutator, value: Any) -> Any:
    """Change a request: its body as JSON, else any text of it; or append another one."""
    if not isinstance(value, list) or not value or not isinstance(value[-1], dict):
        return mutator.value(value)
    way = mutator.rng.random()
    if way < 0.2 and len(value) < _MOST_REQUESTS:
        other = mutator.rng.choice(mutator.others)
        return [*value, *other] if isinstance(other, list) else value
    last = dict(value[-1])
    if way < 0.75 and isinstance(last.get("body"), str):
        last["body"] = mutator.json(last["body"] or "{}")
    else:
        key = mutator.rng.choice(("path", "query", "query", "body"))
        last[key] = mutator.text(str(last.get(key, "")))
    return [*value[:-1], last]


TARGET = Target(
    kind="json",
    reads=(
        "aml_emulator.api.routing",
        "aml_emulator.schema",
        "aml_emulator.domain.metrics",
        "aml_emulator.domain.environments",
        "aml_emulator.domain.jobs.check",
        "aml_emulator.domain.jobs.places",
    ),
    seeds=seeds,
    check=check,
    words=(
        *(name for name in KNOWN),
        "properties",
        "null",
        "1e400",
        "%2F",
        "&",
        "=",
        "$filter=",
        "..",
        "azureml:",
        "/versions/1",
    ),
    mutate=mutate,
)
