from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator

import docker
import msal
import pytest
import requests
import urllib3
from azure.core.exceptions import ServiceRequestError, ServiceResponseError
from azure.core.pipeline.transport import HttpRequest, RequestsTransport
from requests.adapters import HTTPAdapter

from aml_train.core.http_client import Session, exchange
from simulation.kernel import Decisions, Kernel, Network, Request, Response, installed
from simulation.kernel.decisions import Plan
from simulation.kernel.faults import FAULTS, Profile, draw_delay, draw_fault
from tests.support.simulated_world import later, simulate

_BODY = b"0123456789" * 100


class _Service:
    """Counts what arrives, and answers the number."""

    def __init__(self) -> None:
        self.arrived: list[str] = []

    def __call__(self, request: Request) -> Response:
        self.arrived.append(request.method)
        return Response(headers={"x-number": str(len(self.arrived))}, body=_BODY)


def _send(method: str, fault: str, *, times: int = 1) -> tuple[list[object], float, list[str]]:
    """Send requests, the last of them with a fault; return the answers, the seconds of the last one, what arrived."""
    service, answers, took = _Service(), list[object](), 0.0

    def main() -> None:
        nonlocal took
        session = requests.Session()
        for _ in range(times):
            began = time.monotonic()
            try:
                response = session.request(method, "https://service.test/path", timeout=(3, 7))
                answers.append(
                    (response.status_code, response.headers.get("Retry-After"), response.headers.get("x-number"))
                )
            except requests.RequestException as error:
                answers.append(type(error))
            took = time.monotonic() - began

    simulate(main, serve=service, plan={f"request:program/MainThread:{times}:fault": fault})
    return answers, round(took, 1), service.arrived


@pytest.mark.parametrize(
    ("fault", "expected", "seconds", "arrived"),
    [
        ("", (200, None, "1"), 0.0, 1),
        ("refused", requests.ConnectionError, 0.0, 0),
        ("connect-hangs", requests.ConnectTimeout, 3.0, 0),
        ("request-lost", requests.ConnectionError, 0.0, 0),
        ("answer-lost", requests.ConnectionError, 0.0, 1),
        ("request-hangs", requests.ReadTimeout, 7.0, 0),
        ("answer-hangs", requests.ReadTimeout, 7.0, 1),
        ("duplicated 30", (200, None, "1"), 0.0, 2),
        ("refusal 503 5", (503, "5", None), 0.0, 0),
        ("refusal 429", (429, None, None), 0.0, 0),
        ("late-refusal 500", (500, None, None), 0.0, 1),
        ("truncated 40", requests.exceptions.ChunkedEncodingError, 0.0, 1),
        ("stalled 40", requests.ConnectionError, 7.0, 1),
    ],
)
def test_faults_look_as_those_of_a_network(fault: str, expected: object, seconds: float, arrived: int) -> None:
    answers, took, seen = _send("POST", fault)
    assert (answers, took, len(seen)) == ([expected], seconds, arrived)


def test_every_fault_has_a_case() -> None:
    marks = test_faults_look_as_those_of_a_network.pytestmark  # type: ignore[attr-defined]
    assert {case[0].split()[0] for case in marks[0].args[1] if case[0]} | {"stale"} == set(FAULTS)


def test_a_stale_answer_is_an_earlier_one_to_the_same_read() -> None:
    answers, _took, _seen = _send("GET", "stale 2", times=4)
    assert [answer[2] for answer in answers if isinstance(answer, tuple)] == ["1", "2", "3", "2"]
    answers, _took, _seen = _send("POST", "stale 2", times=4)
    assert [answer[2] for answer in answers if isinstance(answer, tuple)] == ["1", "2", "3", "4"]


@pytest.mark.parametrize(
    ("plan", "late"),
    [
        ({}, [False]),
        ({"request:program/MainThread:1:out": 20.0}, [True]),
        ({"request:program/MainThread:1:fault": "duplicated 30"}, [False, True]),
    ],
)
def test_a_request_is_late_whose_sender_no_longer_waits(plan: Plan, late: list[bool]) -> None:
    arrived: list[bool] = []

    def serve(request: Request) -> Response:
        arrived.append(request.late)
        return Response()

    def send() -> None:
        with contextlib.suppress(requests.Timeout):
            requests.post("https://service.test/", timeout=5)

    simulate(send, serve=serve, plan=plan)
    assert arrived == late


def test_delays_reorder_requests() -> None:
    order: list[str] = []

    def serve(request: Request) -> Response:
        order.append(request.sender)
        return Response()

    kernel = Kernel(Decisions(0, {"request:one/MainThread:1:out": 20.0}))
    with installed(kernel):
        network = Network(kernel)
        network.serve("*", serve, process=kernel.process("service"))
        kernel.process("one", lambda: requests.get("https://a.test/", timeout=60))
        kernel.process("two", later(5, lambda: requests.get("https://b.test/", timeout=60)))
        kernel.run()
    assert order == ["two/MainThread", "one/MainThread"]
    assert kernel.now / 1e9 == pytest.approx(20.0, abs=0.1)


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("refused", ServiceRequestError),
        ("connect-hangs", ServiceRequestError),
        ("answer-lost", ServiceResponseError),
        ("answer-hangs", ServiceResponseError),
    ],
)
def test_azure_cores_transport_sees_its_errors(fault: str, error: type[Exception]) -> None:
    def main() -> None:
        with RequestsTransport() as transport, pytest.raises(error):
            transport.send(HttpRequest("GET", "https://service.test/"), connection_timeout=2, read_timeout=2)

    simulate(main, serve=_Service(), plan={"request:program/MainThread:1:fault": fault})


def test_azure_cores_transport_streams_a_body() -> None:
    def main() -> object:
        with RequestsTransport() as transport:
            response = transport.send(HttpRequest("GET", "https://service.test/"), stream=True)
            return b"".join(response.stream_download(None)) == _BODY

    assert simulate(main, serve=_Service())[0] == [True]


def test_an_adapter_retries_with_urllib3s_own_pauses() -> None:
    service = _Service()

    def main() -> tuple[int, int]:
        session, began = requests.Session(), time.monotonic()
        session.mount("https://", HTTPAdapter(max_retries=urllib3.Retry(total=3, backoff_factor=1.0)))
        return session.get("https://service.test/", timeout=3).status_code, int(time.monotonic() - began)

    faults = {f"request:program/MainThread:{number}:fault": "refused" for number in (1, 2, 3)}
    results, _kernel = simulate(main, serve=service, plan=faults)
    assert results == [(200, 0 + 2 + 4)]
    assert service.arrived == ["GET"]


def test_our_client_bodies_redirects_and_cookies() -> None:
    seen: list[object] = []

    def serve(request: Request) -> Response:
        seen.append((request.method, request.url, request.body, request.headers.get("Cookie")))
        if request.url.endswith("/first"):
            return Response(status=302, headers={"Location": "/second?x=1", "Set-Cookie": "a=b; Path=/"})
        return Response(headers={"Content-Type": "application/json"}, body=b'{"x": 1}')

    def main() -> None:
        session = Session()
        assert exchange(session, "GET", "https://service.test/first", timeout=5).json() == {"x": 1}
        parts: Iterator[bytes] = iter([b"one", b"two"])
        exchange(session, "PUT", "http://service.test:8080/third", data=parts, timeout=5)
        exchange(session, "HEAD", "https://service.test/fourth", timeout=5)

    simulate(main, serve=serve)
    assert seen == [
        ("GET", "https://service.test/first", b"", None),
        ("GET", "https://service.test/second?x=1", b"", "a=b"),
        ("PUT", "http://service.test:8080/third", b"onetwo", "a=b"),
        ("HEAD", "https://service.test/fourth", b"", "a=b"),
    ]


def test_a_streamed_body_arrives_as_it_is_produced() -> None:
    def lines() -> Iterator[bytes]:
        for number in range(3):
            yield f"line {number}\n".encode()
            time.sleep(10)

    def main() -> list[tuple[str, int]]:
        response = requests.get("https://service.test/", stream=True, timeout=30)
        began = time.monotonic()
        return [(line, round(time.monotonic() - began)) for line in response.iter_lines(decode_unicode=True)]

    results, _kernel = simulate(
        main, serve=lambda _request: Response(headers={"Content-Type": "text/plain; charset=utf-8"}, body=lines())
    )
    assert [line for line, _at in results[0]] == ["line 0", "line 1", "line 2"]


def test_an_unknown_host_is_a_connection_error() -> None:
    def main() -> None:
        with pytest.raises(requests.ConnectionError, match="Name or service not known"):
            requests.get("https://elsewhere.test/", timeout=5)

    simulate(main, serve=_Service())


def test_a_profile_without_faults_draws_none_and_one_with_faults_draws_each() -> None:
    stream = Decisions(1).stream("test")
    assert {draw_fault(stream, Profile(), ()) for _ in range(100)} == {None}
    assert {draw_delay(stream, Profile()) for _ in range(100)} == {None}
    always = Profile(fault=1.0, delay=1.0, longest=60.0)
    drawn = {str(draw_fault(stream, always, ("stale",))).split()[0] for _ in range(500)}
    assert drawn == set(FAULTS) - {"stale"}
    delays = [draw_delay(stream, always) or 0.0 for _ in range(500)]
    assert 0.01 <= min(delays) < 0.1
    assert 20.0 < max(delays) <= 60.0


def test_docker_py_reaches_a_simulated_engine() -> None:
    def engine(request: Request) -> Response:
        assert request.url == "http://localhost/v1.44/containers/json?limit=-1&all=0&size=0&trunc_cmd=0"
        return Response(headers={"Content-Type": "application/json"}, body=b'[{"Id": "abc"}]')

    def main() -> object:
        client = docker.APIClient(base_url="unix:///nowhere/docker.sock", version="1.44", timeout=5)
        return client.containers()

    results: list[object] = []
    kernel = Kernel(Decisions(0, {}))
    with installed(kernel):
        Network(kernel).serve("localhost", engine, process=kernel.process("engine"))
        kernel.process("program", lambda: results.append(main()))
        kernel.run()
    assert results == [[{"Id": "abc"}]]


def test_msal_signs_in_at_a_simulated_authority() -> None:
    def authority(request: Request) -> Response:
        if request.url.endswith("/.well-known/openid-configuration"):
            base = "https://login.microsoftonline.com/tenant"
            names = ("authorization_endpoint", "token_endpoint", "issuer")
            return Response(body=json.dumps({name: f"{base}/{name}" for name in names}).encode())
        assert b"client_id=me" in request.body
        return Response(body=json.dumps({"access_token": "t", "expires_in": 3600, "token_type": "Bearer"}).encode())

    def main() -> object:
        application = msal.ConfidentialClientApplication(
            "me",
            client_credential="s",
            authority="https://login.microsoftonline.com/tenant",
            instance_discovery=False,
        )
        first = application.acquire_token_for_client(["https://a.test/.default"])
        time.sleep(60)
        again = application.acquire_token_for_client(["https://a.test/.default"])
        time.sleep(3600)
        late = application.acquire_token_for_client(["https://a.test/.default"])
        return [answer["token_source"] for answer in (first, again, late)]

    results: list[object] = []
    kernel = Kernel(Decisions(0, {}))
    with installed(kernel):
        Network(kernel).serve("login.microsoftonline.com", authority, process=kernel.process("sign-in"))
        kernel.process("program", lambda: results.append(main()))
        kernel.run()
    assert results == [["identity_provider", "cache", "identity_provider"]]
