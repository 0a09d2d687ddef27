"""No request makes the service fail: each of its routes is asked with paths, queries and bodies of the wrong kind."""

from __future__ import annotations

import json
import random
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from aml_emulator.api.routing import Route
from aml_emulator.network.hosts import LOGIN_HOSTS
from tests.unit.emulator.memory_service import API, KNOWN, QUERIES, furnished
from tests.unit.emulator.parts import WS

REQUESTS = 10
"""Of a route, one after the other in one workspace."""

ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    1.5,
    2**63,
    "",
    "\0",
    "..",
    "${{x}}",
    "[",
    "9" * 30,
    [],
    {},
    [None],
    {"": None},
)
RAW = (
    *(b"", b"{", b"[]", b"null", b"\xff", b'{"a": NaN}', b'{"a": ' + b"9" * 5000 + b"}", b"[" * 200_000),
    *(b'{"tags": {"a": "\\ud800"}}', b'{"a":' * 200 + b"1" + b"}" * 200, b"grant_type=%ff&client_id"),
)
FIELDS = (
    "properties",
    "run_id",
    "name",
    "tags",
    "metrics",
    "values",
    "paths",
    "Configuration",
    "jobs",
    "inputs",
    "key",
)
SEGMENTS = ("..", "%00", "%ff", "%2F", "a%0d%0ab", "x" * 300, "{}", "dcid.", "a:b:c")


def host_of(route: Route) -> str:
    if (route.open and "{tenant}" in route.path) or route.path.startswith("/common"):
        return min(LOGIN_HOSTS)
    of_api = ("history", "mlflow", "metric", "modelmanagement", "dataset", "data", "content", "artifact")
    return API if route.segments[0] in of_api else "management.azure.com"


def path_of(route: Route, chance: random.Random, *, odd: bool) -> str:
    known = {part: quote(str(KNOWN.get(part.strip("{}*"), ["x"])[0])) for part in route.segments}
    given = [chance.choice(SEGMENTS) if odd else known[part] for part in route.segments]
    return "/".join(one if part.startswith("{") else part for part, one in zip(route.segments, given, strict=True))


_WORKSPACE = furnished()
ROUTES = {f"{route.method} {route.path}": route for route in _WORKSPACE.app.routes}
_WORKSPACE.close()


@pytest.mark.parametrize("name", ROUTES)
def test_no_request_makes_a_route_fail(name: str) -> None:
    service, route = furnished(), ROUTES[name]
    for seed in range(REQUESTS):
        chance = random.Random(seed)  # noqa: S311 - the same each time
        query = urlencode([(one, chance.choice((*KNOWN.get(one, ["x"]), *ODD))) for one in chance.sample(QUERIES, 4)])
        inner = {one: chance.choice(ODD) for one in chance.sample(FIELDS, 6)}
        body = json.dumps(chance.choice((inner, {"properties": inner}, {"values": [inner], **inner}))).encode()
        target = f"/{path_of(route, chance, odd=seed % 2 == 0)}?{query}"
        content = chance.choice(RAW) if seed % 3 == 0 else body
        answer = service.call(route.method, target, host=host_of(route), content=content)
        assert answer.status < 500 or answer.status == 501, (name, target, content, answer.body)
        if answer.body and not answer.headers["content-type"].startswith("text/html"):
            json.loads(answer.body, parse_constant=pytest.fail)
    service.close()


def test_the_field_is_named() -> None:
    service = furnished()
    job = service.job(resources={"dockerArgsList": [{"a": 1}]})
    answer = service.call("PUT", f"{WS}/jobs/wrong", {"properties": job})
    assert (answer.status, answer.json["error"]["message"]) == (
        400,
        "properties.resources.dockerArgsList[0]: text or a whole number or a number or true or false is expected, not an object",
    )
    service.close()
