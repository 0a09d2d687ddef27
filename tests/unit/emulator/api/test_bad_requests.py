"""No request makes the service fail: for each of its routes, bodies, queries, headers and paths of every wrong kind.

Bodies are made from the types that a route's handler declares, and then changed: another type, another value, a field less.
More of it: pytest tests/unit/emulator/test_bad_requests.py --hypothesis-profile=search
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlencode

import anyio
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import aml_emulator.api.routing
from aml_emulator.api.routing import Route
from aml_emulator.domain.environments import ENVIRONMENT
from aml_emulator.network.hosts import LOGIN_HOSTS
from aml_emulator.schema import (
    WORD,
    BodyError,
    Either,
    Fields,
    ListOf,
    MapOf,
    Shape,
    Tree,
    Whole,
    check,
)
from tests.unit.emulator.between import DELETED, deletion
from tests.unit.emulator.memory_service import API, KNOWN, QUERIES, furnished
from tests.unit.emulator.parts import VERSION, WS, Answer, Service

Request = tuple[str, str, str, str, list[tuple[bytes, bytes]], bytes]
"""Method, host, path, query, further headers, body."""

KEPT = (
    *(
        "properties",
        "jobType",
        "command",
        "environmentId",
        "computeId",
        "computeType",
        "vmSize",
        "Configuration",
        "target",
    ),
    *(
        "script",
        "environment",
        "docker",
        "baseImage",
        "credentials",
        "datastoreType",
        "accountName",
        "containerName",
        "name",
    ),
)
"""Fields without which a body says nothing; they are seldom left out."""

SEEDS = st.integers(0, 2**32 - 1)
"""The pool of random draws: hypothesis itself would take most of the time for as many."""

FORM = Fields(
    dict.fromkeys(
        (
            *("grant_type", "client_id", "scope", "client_assertion", "client_assertion_type", "client_secret"),
            *("code", "device_code", "refresh_token", "redirect_uri", "code_verifier"),
        ),
        WORD,
    )
)
"""The sign-in: a form, not JSON."""

REQUESTS = 12
"""Of an example, all of one route and one after the other in one workspace."""

ODD: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1.5,
        2**53 + 1,
        2**63 - 1,
        "",
        "x",
        "1",
        "-1",
        " ",
        "ä",
        "\0",
        "a/b",
        "..",
        "${{x}}",
        "[",
        "9" * 30,
    ),
    *(
        [],
        {},
        [None],
        [[]],
        [{}],
        {"": None},
        {"x": None},
        {"a": {"b": []}},
        ["x", 1],
        {"key": "x"},
        "\U0001f600",
        "x" * 300,
    ),
)
RAW = (
    *(b"", b"{", b"[]", b"null", b"5", b'"x"', b"\xff", b'{"a": NaN}', b'{"a": 1e999}', b'{"a": ' + b"9" * 30 + b"}"),
    *(
        b'{"tags": {"a": "\\ud800"}}',
        b'{"\\udfff": 1}',
        b"[" * 5000,
        b'{"a":' * 200 + b"1" + b"}" * 200,
        b"[" * 200_000,
    ),
    *(b'{"a": ' + b"9" * 5000 + b"}", b'{"properties": ' + b"[" * 90 + b"]" * 90 + b"}", b"grant_type=%ff&client_id"),
)
SEGMENTS = (
    "",
    "x",
    "..",
    "%",
    "%00",
    "%ff",
    "%2F",
    "a%0d%0ab",
    "%F0%9F%98%80",
    "'",
    "x" * 300,
    "1;2",
    "{}",
    "-1",
    "dcid.",
    ":",
    "a:b:c",
)


class Fuzz:
    """Draws requests of a route.

    Args:
        route: the route.
        chance: draws.
        shape: the type of its body; None where its handler reads none.
        experiment: the id of an experiment that is there.
    """

    def __init__(self, route: Route, chance: random.Random, shape: Shape | None, experiment: str) -> None:
        self._route = route
        self._chance = chance
        self._shape = shape
        self._known = {**KNOWN, "experiment_id": [experiment, "0"], "experiment_ids": [experiment]}
        self._oddness = 0.0

    def draw(self, *oddness: float) -> Request:
        """Return a request, with nothing odd in it, a little, or much, if not said."""
        self._oddness = self._chance.choice(oddness or (0.0, 0.04, 0.04, 0.25))
        return self._route.method, host_of(self._route), self.path(), self.query(), self.headers(), self.body()

    def _is_odd(self, share: float = 1.0) -> bool:
        return self._chance.random() < self._oddness * share

    def path(self) -> str:
        return "/" + "/".join(self._segment(part) for part in self._route.segments)

    def _segment(self, part: str) -> str:
        if not part.startswith("{"):
            return part
        name = part.strip("{}*")
        scope = name in ("sub", "rg", "ws", "location", "tenant")
        if self._is_odd(0.1 if scope else 1.0):
            return self._chance.choice(SEGMENTS)
        known = self._chance.choice(self._known.get(name, ["x"]))
        return quote(str(known), safe="/" if part.endswith("*}") else "")

    def query(self) -> str:
        names = self._chance.sample(QUERIES, self._chance.choice((0, 2, 6, 14)))
        pairs = [(name, str(self._value(name))) for name in names]
        if not self._is_odd():
            pairs.append(("api-version", VERSION))
        return urlencode(pairs) + (self._chance.choice(("&%ff=%00", "&=", "&&;")) if self._is_odd() else "")

    def headers(self) -> list[tuple[bytes, bytes]]:
        odd = [
            (b"content-type", b"\xff"),
            (b"host", b"["),
            (b"authorization", b"Bearer \xff"),
            (b"content-length", b"x"),
        ]
        return [self._chance.choice(odd)] if self._is_odd(0.3) else []

    def body(self) -> bytes:
        if self._shape is FORM and not self._is_odd(0.4):
            return urlencode({name: str(self._plain(WORD, name)) for name in FORM.fields}).encode()
        if self._shape is None or self._is_odd(0.4):
            return self._chance.choice(RAW)
        return json.dumps(self._of(self._shape, "")).encode()

    def _value(self, name: str) -> Any:
        return self._chance.choice(ODD if self._is_odd() else self._known.get(name, ("x", "1")))

    def _plain(self, shape: Shape, name: str) -> Any:
        """Return a value of a plain type: one that makes sense under the name, if it is of the type."""
        usual: tuple[Any, ...] = ("x", True, {}, [], 1.5)
        known = [one for one in self._known.get(name, ()) if _fits(shape, one)]
        fitting = known or [one for one in usual if _fits(shape, one)]
        return self._chance.choice(ODD if self._is_odd() or not fitting else fitting)

    def _of(self, shape: Shape, name: str) -> Any:
        if self._is_odd(0.5):
            return self._chance.choice(ODD)
        match shape:
            case Fields(fields=fields, required=required):
                left_out = self._chance.choice((0, 0.5, 0.8))
                found = {
                    key: self._of(item, key)
                    for key, item in fields.items()
                    if key in (*required, *KEPT) or self._chance.random() >= left_out
                }
                return found | ({"extra": self._chance.choice(ODD)} if self._is_odd() else {})
            case ListOf(item=item):
                return [self._of(item, name) for _ in range(self._chance.choice((0, 1, 1, 2)))]
            case MapOf(item=item):
                keys = self._chance.sample(("x", "a", "", "loss", "A B", "1", "ä"), self._chance.choice((0, 1, 2)))
                return {key: self._of(item, "value") for key in keys}
            case Either(first=first, second=second):
                return self._of(self._chance.choice((first, second)), name)
            case Tree(fields=fields, children=children):
                node = {key: self._of(item, key) for key, item in fields.items()}
                return node | ({children: {"a.txt": self._of(shape, "")}} if self._chance.random() < 0.5 else {})
            case Whole(low=low, high=high):
                return self._chance.choice((0, 1, 2, low, high, "1", 3.0))
            case _:
                return self._plain(shape, name)


def _fits(shape: Shape, value: Any) -> bool:
    try:
        check(shape, value)
    except BodyError:
        return False
    return True


def experiment_of(service: Service) -> str:
    return service.store.runs.require("job-1").experiment_id


def ask(service: Service, requests: Sequence[Request]) -> list[Answer]:
    """Send requests one after the other, in one event loop."""
    answers: list[Answer] = []

    async def run() -> None:
        for method, host, path, query, more, body in requests:
            headers = [(b"host", host.encode()), (b"authorization", f"Bearer {service.token}".encode())]
            given = {key for key, _ in more}
            headers = [(key, value) for key, value in headers if key not in given] + more
            scope = {
                "type": "http",
                "method": method,
                "raw_path": path.encode(),
                "query_string": query.encode(),
                "headers": headers,
            }
            sent: list[Any] = []

            async def receive(body: bytes = body) -> Any:
                return {"type": "http.request", "body": body, "more_body": False}

            async def send(message: Any, sent: list[Any] = sent) -> None:
                sent.append(message)

            await service.app(scope, receive, send)
            back = {key.decode(): value.decode("latin-1") for key, value in sent[0]["headers"]}
            answers.append(Answer(status=sent[0]["status"], headers=back, body=sent[1]["body"]))

    anyio.run(run)
    return answers


def host_of(route: Route) -> str:
    if (route.open and "{tenant}" in route.path) or route.path.startswith("/common"):
        return min(LOGIN_HOSTS)
    return (
        API
        if route.segments[0]
        in ("history", "mlflow", "metric", "modelmanagement", "dataset", "data", "content", "artifact")
        else "management.azure.com"
    )


_WORKSPACE = furnished()
ROUTES = {f"{route.method} {route.path}": route for route in _WORKSPACE.app.routes}
_WORKSPACE.close()


@pytest.fixture(scope="module")
def shapes() -> dict[str, Shape]:
    """The type of the body that each route's handler reads, found by asking it with an empty one."""
    found: dict[str, Shape] = {}
    with pytest.MonkeyPatch.context() as patch:
        service = furnished()
        current = ""

        def noted(shape: Shape, value: Any) -> None:
            found.setdefault(current, shape)
            check(shape, value)

        patch.setattr(aml_emulator.api.routing, "check", noted)
        chance = random.Random(1)  # noqa: S311 - the same each time
        for current, route in ROUTES.items():
            # A GET has no body: nothing of it is found by trying often.
            for _ in range(0 if route.method in ("GET", "HEAD") else 40):
                fuzz = Fuzz(route, chance, None, experiment_of(service))
                ask(service, [(route.method, host_of(route), fuzz.path(), f"api-version={VERSION}", [], b"{}")])
                if current in found:
                    break
        service.close()
    # Its names begin with a small letter or with a large one, so that it is checked in two steps.
    found.update({name: ENVIRONMENT for name in ROUTES if name.startswith("PUT /environment/")})
    found.update({name: FORM for name in ROUTES if name.startswith("POST /{tenant}/oauth2/")})
    return found


@contextmanager
def fuzzed(name: str, shapes: dict[str, Shape], seed: int) -> Iterator[tuple[Service, Fuzz, random.Random]]:
    """A service with one of everything, what draws requests of a route, and the chance that it draws by."""
    chance = random.Random(seed)  # noqa: S311 - the same for a seed
    service = furnished()
    try:
        yield service, Fuzz(ROUTES[name], chance, shapes.get(name), experiment_of(service)), chance
    finally:
        service.close()


@pytest.mark.parametrize("name", ROUTES)
def test_no_request_makes_a_route_fail(name: str, shapes: dict[str, Shape]) -> None:
    @settings(max_examples=max(1, settings().max_examples // 100), phases=(Phase.generate,))
    @given(SEEDS)
    def holds(seed: int) -> None:
        with fuzzed(name, shapes, seed) as (service, fuzz, _):
            requests = [fuzz.draw() for _ in range(REQUESTS)]
            _check(requests, ask(service, requests))

    holds()


@pytest.mark.parametrize("name", ROUTES)
def test_nothing_that_is_deleted_in_the_middle_of_a_request_makes_a_route_fail(
    name: str, shapes: dict[str, Shape]
) -> None:
    @settings(max_examples=max(1, settings().max_examples // 100), phases=(Phase.generate,))
    @given(SEEDS)
    def holds(seed: int) -> None:
        with fuzzed(name, shapes, seed) as (service, fuzz, chance):
            service.store.runs.finish("job-1", "Completed")
            for _ in range(REQUESTS // 2):
                request = fuzz.draw(0.0)
                with deletion(service, chance.choice(DELETED), chance.choice((1, 1, 1, 2, 2, 3, 4, 6, 10))):
                    _check([request], ask(service, [request]))

    holds()


def _check(requests: Sequence[Request], answers: Sequence[Answer]) -> None:
    for request, answer in zip(requests, answers, strict=True):
        assert answer.status < 500 or answer.status == 501, (request, answer.body)
        if answer.body and not answer.headers["content-type"].startswith("text/html"):
            json.loads(answer.body, parse_constant=pytest.fail)


@pytest.mark.parametrize("data", RAW)
def test_what_no_client_sends_is_400_in_the_words_of_the_service(data: bytes) -> None:
    service = furnished()
    try:
        answer = service.call("PUT", f"{WS}/environments/e/versions/1", content=data)
        assert answer.status in (201, 400)
        assert answer.status == 201 or answer.json["error"]["code"] == "UserError"
        answer = service.call("POST", f"/mlflow/v2.0{WS}/api/2.0/mlflow/runs/create", host=API, content=data)
        assert answer.status == 200 or (answer.status, answer.json["error_code"]) == (400, "INVALID_PARAMETER_VALUE")
    finally:
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
