from __future__ import annotations

import time

import pytest
import requests

from simulation.kernel import Request, Response
from tests.support.simulated_world import simulate

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
