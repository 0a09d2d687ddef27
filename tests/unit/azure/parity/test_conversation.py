"""The conversation, the removal and the refusal of a file, with a session in memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest
import requests

from aml_train.azure.clouds import AZURE_PUBLIC
from aml_train.azure.http import WorkspaceId
from aml_train.azure.parity import recording
from aml_train.azure.parity.cleaning import clean
from aml_train.azure.parity.conversation import Conversation, Skipped, each_step
from aml_train.azure.parity.recording import RecordedPlace, RemainsError, check_recording_id, record_workspace
from aml_train.azure.parity.script import MissingError, Step, Until, parse_script
from aml_train.azure.parity.scrub import Scrubber
from aml_train.azure.sign_in import SignIn
from aml_train.core.clock import Clock
from aml_train.core.errors import InvalidError, ServiceError

Answered = tuple[int, Any] | tuple[int, Any, Mapping[str, str]] | Exception
Answers = Callable[[str, str, Mapping[str, Any]], Answered]
ID = "parity-0123abcd"


class Session(requests.Session):
    """A session that asks a function."""

    def __init__(self, answers: Answers) -> None:
        super().__init__()
        self.answers = answers
        self.sent: list[str] = []

    def request(self, method: Any, url: Any, *_given: Any, **options: Any) -> requests.Response:
        self.sent.append(f"{method} {url}")
        found = self.answers(method, url, options)
        if isinstance(found, Exception):
            raise found
        response = requests.Response()
        response.status_code = found[0]
        response._content = found[1] if isinstance(found[1], bytes) else json.dumps(found[1]).encode()
        response.headers.update(found[2] if len(found) > 2 else {"Content-Type": "application/json"})
        return response


class Signed:
    """A sign-in that always succeeds."""

    def token(self, scope: str) -> str:
        return f"token of {scope}"


class Time:
    """Time that passes only in sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def clock(self) -> Clock:
        return Clock(now=lambda: self.now, sleep=self.sleep)


def conversation(session: Session, time: Time | None = None, **variables: Any) -> Conversation:
    return Conversation(
        session=session,
        sign_in=cast(SignIn, Signed()),
        cloud=AZURE_PUBLIC,
        variables={"host": "https://management.azure.com", "id": ID, "terminal": ["Done"], **variables},
        clock=(time or Time()).clock(),
        pace=5.0,
    )


def step(**given: Any) -> Step:
    return Step(**{"name": "one", "method": "GET", "address": "{host}/x", **given})


def in_turn(*answers: Answered) -> Answers:
    left = list(answers)
    return lambda *_given: left.pop(0)


def test_a_busy_service_is_asked_again_as_it_says() -> None:
    time = Time()
    talk = conversation(Session(in_turn((429, {}, {"Retry-After": "7"}), (503, {}), (200, {"a": 1}))), time)
    assert talk.send(step()).status == 200
    assert time.slept == [7, 5]


def test_a_service_that_stays_busy_is_recorded() -> None:
    talk = conversation(Session(in_turn(*[(503, {})] * 4)))
    assert talk.send(step()).status == 503


def test_a_service_that_does_not_answer_ends_the_step_alone() -> None:
    error = requests.ConnectionError("of contoso")
    talk = conversation(Session(in_turn(*[error] * 4, (200, {}))))
    first, second = each_step(talk, (step(), step(name="two")), None)
    assert isinstance(first[1], Skipped)
    assert first[1].why == "no answer (ServiceError)"
    assert not isinstance(second[1], Skipped)


def test_captures_are_of_successes_alone() -> None:
    talk = conversation(Session(in_turn((404, {"a": "no"}), (200, {"a": "yes", "b": ""}))))
    talk.take(step(capture={"found": "a"}))
    assert "found" not in talk.variables
    talk.take(step(capture={"found": "a", "empty": "b"}))
    assert talk.variables["found"] == "yes"
    assert "empty" not in talk.variables


def test_states_are_followed_to_the_end_or_to_the_bound() -> None:
    until = Until(at="s", words="terminal", minutes=1)
    talk = conversation(Session(in_turn(*((200, {"s": one}) for one in ("A", "A", "B", "Done")))))
    raw = talk.take(step(until=until))
    assert (raw.states, raw.seconds) == (("A", "B", "Done"), 15)
    talk = conversation(Session(lambda *_given: (200, {"s": "A"})))
    raw = talk.take(step(until=until))
    assert (raw.states, raw.seconds) == (("A",), 65)
    talk = conversation(Session(in_turn((200, {"s": "A"}), (404, {}))))
    assert talk.take(step(until=until)).status == 404


def test_tokens() -> None:
    talk = conversation(Session(in_turn()))
    assert talk.token("management") == "token of https://management.azure.com/.default"
    assert talk.token("expired").count(".") == 2
    assert talk.token("malformed").count(".") == 0
    with pytest.raises(MissingError):
        talk.token("registry")
    assert talk.secrets == {"token of https://management.azure.com/.default"}


def test_a_signed_address_gets_no_token() -> None:
    seen: list[Any] = []

    def answers(_method: str, _url: str, options: Mapping[str, Any]) -> Answered:
        seen.append(options["headers"])
        return 200, {}

    talk = conversation(Session(answers))
    talk.send(step(token="absent", headers={"x-a": "b"}))
    talk.send(step())
    assert seen == [{"x-a": "b"}, {"Authorization": "Bearer token of https://management.azure.com/.default"}]


THINGS = """
steps: [{name: first, request: "GET {host}/first"}]
prepare: [first]
clean:
- {name: job, show: "GET {host}/job", tags: tags, status: status, cancel: "POST {host}/job/cancel", remove: "DELETE {host}/job"}
- {name: data, show: "GET {host}/data", tags: properties.tags, remove: "DELETE {host}/data", archive: true}
- {name: runs, show: "POST {host}/search", each: runs.info.id, remove: "POST {host}/delete", remove_body: {id: "{found}"}}
- {name: other, show: "GET {host}/other", tags: tags, remove: "DELETE {host}/other"}
- {name: never, show: "GET {host}/{unknown}", remove: "DELETE {host}/x"}
- {name: gone, show: "GET {host}/gone", remove: "DELETE {host}/gone"}
- {name: broken, show: "GET {host}/broken", remove: "DELETE {host}/broken"}
"""


def test_the_removal_takes_what_carries_the_tag_and_nothing_else() -> None:
    mine = {"aml-train.parity": ID}
    status = iter(["Running", "Running", "Done"])
    bodies: list[Any] = []

    def answers(method: str, url: str, options: Mapping[str, Any]) -> Answered:
        path = url.removeprefix("https://management.azure.com")
        bodies.append(options.get("json"))
        tagged = [{"key": "aml-train.parity", "value": ID}]
        known: dict[str, Callable[[], Answered]] = {
            "GET /first": lambda: requests.ConnectionError(),
            "GET /job": lambda: (200, {"tags": mine, "status": next(status)}),
            "POST /job/cancel": lambda: (202, {}),
            "DELETE /job": lambda: (202, {}),
            "GET /data": lambda: (200, {"properties": {"tags": mine, "x": 1}}),
            "DELETE /data": lambda: (405, {}),
            "PUT /data": lambda: (200, {}),
            "POST /search": lambda: (
                200,
                {
                    "runs": [
                        {"info": {"id": "r1"}, "data": {"tags": tagged}},
                        {"info": {"id": f"{ID}-job"}, "data": {"tags": tagged}},
                        {"info": {"id": "r2"}, "data": {"tags": [{"key": "aml-train.parity", "value": "another"}]}},
                    ]
                },
            ),
            "POST /delete": lambda: (200, {}),
            "GET /other": lambda: (200, {"tags": {"aml-train.parity": "another"}}),
            "GET /gone": lambda: (404, {}),
            "GET /broken": lambda: (500, {}),
        }
        return known[f"{method} {path}"]()

    session = Session(answers)
    found = clean(conversation(session), parse_script(THINGS), lambda _one: None)
    assert [(one.name, one.result) for one in found] == [
        ("job", "removed"),
        ("data", "archived"),
        ("runs", "removed"),
        ("other", "foreign"),
        ("broken", "left"),
    ]
    assert {"properties": {"tags": mine, "x": 1, "isArchived": True}} in bodies
    assert bodies.count({"id": "r1"}) == 1
    assert not any("DELETE" in one and "other" in one for one in session.sent)
    assert [one for one in session.sent if one.endswith(("/job", "/cancel"))][:3] == [
        "GET https://management.azure.com/job",
        "POST https://management.azure.com/job/cancel",
        "GET https://management.azure.com/job",
    ]


def place() -> RecordedPlace:
    workspace = WorkspaceId(
        subscription_id="5f0c1d2e-1111-4222-8333-944455566677", resource_group="contoso-rg", name="contoso"
    )
    return RecordedPlace(workspace=workspace, sign_in=cast(SignIn, Signed()), cloud=AZURE_PUBLIC, compute="cpus")


def resource(_method: str, url: str, _options: Mapping[str, Any]) -> Answered:
    if url.endswith("/workspaces/contoso?api-version=2024-10-01"):
        return 200, {"name": "contoso", "location": "westeurope", "tags": {"team": "blue-whale"}}
    return 404, {"error": {"code": "NotFound", "message": "There is no such thing in contoso."}}


def test_a_workspace_that_cannot_be_read_makes_nothing() -> None:
    session = Session(lambda *_given: (403, {}))
    with pytest.raises(ServiceError, match="Azure answered 403"):
        record_workspace(place(), session=session, clock=Time().clock())
    assert len(session.sent) == 1


def test_an_interruption_still_cleans() -> None:
    def answers(method: str, url: str, options: Mapping[str, Any]) -> Answered:
        if "vmSizes" in url:
            raise KeyboardInterrupt
        return resource(method, url, options)

    session = Session(answers)
    with pytest.raises(KeyboardInterrupt):
        record_workspace(place(), id_=ID, session=session, clock=Time().clock(), with_sdk=False)
    assert any(f"/jobs/{ID}-cancelled" in one for one in session.sent)


def test_what_is_recorded_names_no_one() -> None:
    made = record_workspace(place(), id_=ID, session=Session(resource), clock=Time().clock(), with_sdk=False)
    text = "\n".join(made.recording.text_lines()).lower()
    assert "there is no such thing in <name:workspace>." in text
    for value in ("contoso", "5f0c1d2e", "westeurope", "blue-whale", "cpus", ID):
        assert value not in text, value


def test_a_recording_with_a_remain_is_refused_without_naming_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Careless(Scrubber):
        def message(self, value: str) -> str:
            return value

    monkeypatch.setattr(recording, "Scrubber", Careless)
    with pytest.raises(RemainsError) as caught:
        record_workspace(place(), id_=ID, session=Session(resource), clock=Time().clock(), with_sdk=False)
    assert ".body.error.message: a name of the workspace" in str(caught.value)
    assert "contoso" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "parity-", "parity-0123ABCD", "job", "parity-0123abcde", "0123abcd"])
def test_ids(text: str) -> None:
    assert check_recording_id(ID) == ID
    with pytest.raises(InvalidError, match="no id of a recording"):
        check_recording_id(text)
