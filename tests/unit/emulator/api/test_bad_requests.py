"""No request makes the service fail: each of its routes is asked with values and bodies of the wrong kind.

Bodies are made from the types that a route's handler declares, and each of their fields is sometimes of another type.
"""

from __future__ import annotations

import json
import random
from typing import Any
from urllib.parse import quote, urlencode

import pytest

import aml_emulator.api.routing
from aml_emulator.api.routing import Route
from aml_emulator.domain.environments import ENVIRONMENT
from aml_emulator.network.hosts import LOGIN_HOSTS
from aml_emulator.schema import Either, Fields, ListOf, MapOf, Shape, Tree, check
from tests.unit.emulator.memory_service import API, KNOWN, QUERIES, furnished
from tests.unit.emulator.parts import WS

REQUESTS = 8
"""Of a route, one after the other in one workspace."""

ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 1.5, 2**63 - 1, "", "x", "-1", "ä", "\0", "a/b", "..", "${{x}}", "[", "9" * 30, "x" * 300),
    *([], {}, [None], [[]], {"": None}, {"a": {"b": []}}, ["x", 1], {"key": "x"}, "\U0001f600"),
)
RAW = (
    *(b"", b"{", b"[]", b"null", b"5", b"\xff", b'{"a": NaN}', b'{"a": 1e999}', b'{"a": ' + b"9" * 5000 + b"}"),
    *(b'{"tags": {"a": "\\ud800"}}', b'{"\\udfff": 1}', b'{"a":' * 200 + b"1" + b"}" * 200, b"[" * 200_000),
    *(b'{"properties": ' + b"[" * 90 + b"]" * 90 + b"}", b"grant_type=%ff&client_id"),
)
SEGMENTS = ("x", "..", "%00", "%ff", "%2F", "a%0d%0ab", "'", "x" * 300, "{}", "-1", "dcid.", ":", "a:b:c")


class Draw:
    """Draws requests of a route, the same for a seed."""

    def __init__(self, route: Route, shape: Shape | None, seed: int) -> None:
        self._route = route
        self._shape = shape
        self._chance = random.Random(seed)  # noqa: S311 - the same each time
        self._oddness = self._chance.choice((0.0, 0.05, 0.25))

    def _is_odd(self) -> bool:
        return self._chance.random() < self._oddness

    def target(self) -> str:
        names = self._chance.sample(QUERIES, self._chance.choice((0, 2, 6)))
        query = urlencode([(name, str(self._value(name))) for name in names])
        return "/" + "/".join(map(self._segment, self._route.segments)) + f"?{query}"

    def _segment(self, part: str) -> str:
        if not part.startswith("{"):
            return part
        if self._is_odd():
            return self._chance.choice(SEGMENTS)
        known = self._chance.choice(KNOWN.get(part.strip("{}*"), ["x"]))
        return quote(str(known), safe="/" if part.endswith("*}") else "")

    def body(self) -> bytes:
        if self._shape is None or self._is_odd():
            return self._chance.choice(RAW)
        return json.dumps(self._of(self._shape, "")).encode()

    def _value(self, name: str) -> Any:
        return self._chance.choice(ODD if self._is_odd() else KNOWN.get(name, ("x", "1")))

    def _of(self, shape: Shape, name: str) -> Any:
        if self._is_odd():
            return self._chance.choice(ODD)
        match shape:
            case Fields(fields=fields, required=required):
                kept = self._chance.choice((0.2, 0.5, 1))
                return {
                    key: self._of(item, key)
                    for key, item in fields.items()
                    if key in required or self._chance.random() < kept
                }
            case ListOf(item=item):
                return [self._of(item, name) for _ in range(self._chance.choice((0, 1, 2)))]
            case MapOf(item=item):
                return {key: self._of(item, "value") for key in self._chance.sample(("x", "", "A B", "ä"), 2)}
            case Either(first=first, second=second):
                return self._of(self._chance.choice((first, second)), name)
            case Tree(fields=fields):
                return {key: self._of(item, key) for key, item in fields.items()}
            case _:
                return self._value(name)


def host_of(route: Route) -> str:
    if (route.open and "{tenant}" in route.path) or route.path.startswith("/common"):
        return min(LOGIN_HOSTS)
    of_api = ("history", "mlflow", "metric", "modelmanagement", "dataset", "data", "content", "artifact")
    return API if route.segments[0] in of_api else "management.azure.com"


_WORKSPACE = furnished()
ROUTES = {f"{route.method} {route.path}": route for route in _WORKSPACE.app.routes}
_WORKSPACE.close()


@pytest.fixture(scope="module")
def shapes() -> dict[str, Shape]:
    """The type of the body that each route's handler reads, found by asking it with an empty one."""
    found: dict[str, Shape] = {}
    current = ""

    def noted(shape: Shape, value: Any) -> None:
        found.setdefault(current, shape)
        check(shape, value)

    service = furnished()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aml_emulator.api.routing, "check", noted)
        for current, route in ROUTES.items():
            for seed in range(0 if route.method in ("GET", "HEAD") else 10):
                service.call(route.method, Draw(route, None, seed).target(), {}, host=host_of(route))
                if current in found:
                    break
    service.close()
    # Its names begin with a small letter or with a large one, so that it is checked in two steps.
    found.update({name: ENVIRONMENT for name in ROUTES if name.startswith("PUT /environment/")})
    return found


@pytest.mark.parametrize("name", ROUTES)
def test_no_request_makes_a_route_fail(name: str, shapes: dict[str, Shape]) -> None:
    service, route = furnished(), ROUTES[name]
    for seed in range(REQUESTS):
        draw = Draw(route, shapes.get(name), seed)
        target, body = draw.target(), draw.body()
        answer = service.call(route.method, target, host=host_of(route), content=body)
        assert answer.status < 500 or answer.status == 501, (name, target, body, answer.body)
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
