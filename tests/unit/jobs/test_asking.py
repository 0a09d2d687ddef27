"""What is asked again, when the answer is lost, cut off or none: of plain requests, and of what azure-ai-ml makes."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import Any

import azure.identity  # noqa: F401 - its import looks for processes, which a test may not
import pytest
import requests
import stamina
from requests.adapters import BaseAdapter
from urllib3 import HTTPResponse

from aml_train.azure.names import WorkspaceId
from aml_train.azure.sdk import made
from aml_train.azure.sdk_v2 import translate
from aml_train.azure.sign_in import SignIn
from aml_train.azure.workspace import AzureRest
from aml_train.core import retry as retries
from aml_train.core.errors import AmlTrainError, CancelledError, InvalidError, RefusedError, ServiceError

WORKSPACE = WorkspaceId(subscription_id="s", resource_group="g", name="w")
JSON = {"Content-Type": "application/json"}


class Signed:
    def get_token(self, *_scopes: str, **_options: Any) -> Any:
        return type("Token", (), {"token": "t"})


class Scripted(BaseAdapter):
    """Answers as it is told: status, headers, body; or fails."""

    def __init__(self, *answers: tuple[int, Mapping[str, str], bytes] | Exception) -> None:
        super().__init__()
        self.answers = list(answers)

    def send(self, request: requests.PreparedRequest, *_rest: Any, **_options: Any) -> requests.Response:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        status, headers, body = answer
        response = requests.Response()
        response.request, response.url, response.status_code = request, str(request.url), status
        response.headers.update(headers)
        response.raw = HTTPResponse(io.BytesIO(body), headers=headers, status=status, preload_content=False)
        return response

    def close(self) -> None:
        return


@pytest.fixture(autouse=True)
def no_pauses() -> Iterator[None]:
    with stamina.set_testing(True, attempts=retries.ATTEMPTS):
        yield


def rest(*answers: tuple[int, Mapping[str, str], bytes] | Exception) -> tuple[AzureRest, Scripted]:
    session, adapter = requests.Session(), Scripted(*answers)
    session.mount("https://", adapter)
    return AzureRest(WORKSPACE, SignIn(Signed(), way="secret"), session=session), adapter


@pytest.mark.parametrize(
    "fault",
    [
        (429, {"Retry-After": "1"}, b""),
        (500, {}, b"{}"),
        (200, JSON | {"Content-Length": "10"}, b'{"a":'),
        (200, JSON, b'{"a":'),
        (200, JSON, b"<html>"),
        requests.ConnectionError("reset"),
        requests.ReadTimeout("slow"),
    ],
)
def test_whatever_was_no_answer_is_asked_again(fault: tuple[int, Mapping[str, str], bytes] | Exception) -> None:
    asked, adapter = rest(fault, fault, fault, fault, (200, JSON, b'{"a": 1}'))
    assert asked.need("GET", "https://x.invalid/y", "Asking").value == {"a": 1}
    assert not adapter.answers


def test_an_end_is_told_with_what_was_asked_and_how_long_to_wait() -> None:
    asked, _ = rest(*[(429, {"Retry-After": "90"}, b'{"error": {"message": "too much"}}')] * 2)
    with pytest.raises(ServiceError, match=r"Asking: AzureML answered 429 to GET x\.invalid/y: too much") as caught:
        asked.read("https://x.invalid/y?sig=secret", "Asking")
    assert caught.value.transient
    assert caught.value.retry_after == 90


@pytest.mark.parametrize("status", [400, 403, 409])
def test_a_refusal_is_asked_once(status: int) -> None:
    asked, adapter = rest((status, {}, b"no"), (200, JSON, b"{}"))
    with pytest.raises(ServiceError, match=f"AzureML answered {status}"):
        asked.read("https://x.invalid/y", "Asking")
    assert len(adapter.answers) == 1


class Making:
    """Something that is made; each failure is given with whether it took effect."""

    def __init__(self, *failures: tuple[Exception, bool]) -> None:
        self.failures = list(failures)
        self.made = 0
        self.tried = 0

    def create(self) -> None:
        self.tried += 1
        failure, effective = self.failures.pop(0) if self.failures else (None, True)
        self.made += effective
        if failure is not None:
            raise failure

    def look(self) -> str | None:
        return "it" if self.made else None


LOST = ServiceError("no answer: reset", transient=True)


@pytest.mark.parametrize(
    ("failures", "tried"),
    [
        ([], 1),
        ([(LOST, True)], 1),
        ([(LOST, False)], 2),
        ([(LOST, False), (LOST, True)], 2),
        ([(ServiceError("there is one of that name already"), True)], 1),
        ([(RefusedError("there is another one of that name"), True)], 1),
    ],
)
def test_what_was_made_is_found_and_what_was_not_is_made_again(failures: list[Any], tried: int) -> None:
    making = Making(*failures)
    assert made(making.create, making.look, "Making", translate=translate) == "it"
    assert (making.tried, making.made) == (tried, 1)


@pytest.mark.parametrize(
    ("error", "raised", "tried"),
    [
        (ServiceError("no such role"), ServiceError, 1),
        (InvalidError("no such compute"), InvalidError, 1),
        (RefusedError("no such data"), RefusedError, 1),
        (CancelledError("called off"), CancelledError, 1),
    ],
)
def test_what_is_refused_is_not_made_again(error: AmlTrainError, raised: type[Exception], tried: int) -> None:
    making = Making((error, False))
    with pytest.raises(raised, match=error.message):
        made(making.create, making.look, "Making", translate=translate)
    assert making.tried == tried


def test_what_stays_away_is_told() -> None:
    making = Making(*[(LOST, False)] * retries.ATTEMPTS)
    with pytest.raises(ServiceError, match="no answer: reset"):
        made(making.create, making.look, "Making", translate=translate)
