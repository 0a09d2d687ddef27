"""Logs never hold a job's status, gate and model back, wherever they cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Self

import pytest
import requests
from urllib3 import HTTPSConnectionPool
from urllib3.exceptions import ReadTimeoutError

from aml_train.azure.names import WorkspaceId
from aml_train.azure.workspace import AzureRest
from aml_train.core.answers import Answer as Json
from aml_train.core.clock import Clock
from aml_train.core.errors import ServiceError
from aml_train.core.events import Event, JobStatusChanged, LogLines, Notice
from aml_train.jobs.pace import Limits, Pace
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView, StorageUnreachableError
from tests.support.fake_workspace import FakeClock, FakeService
from tests.support.watching import watch
from tests.unit.pipeline.test_run import configured, good_service, make_plan, run

S = JobStatus
LOG = b"one\ntwo\nlast"


def followed(service: FakeService, clock: FakeClock | None = None) -> tuple[JobView, Exception | None, list[Event]]:
    clock = clock or FakeClock()
    service.jobs["j"] = JobView(name="j", status=S.QUEUED)
    events: list[Event] = []
    view, failure = watch(
        service,
        "j",
        clock=Clock(now=clock.now, sleep=clock.sleep),
        pace=Pace(),
        limits=Limits(),
        listener=events.append,
    )
    return view, failure, events


def lines(events: list[Event]) -> str:
    return "\n".join(event.text for event in events if isinstance(event, LogLines))


def warnings(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice) and event.level == "warning"]


@pytest.mark.parametrize(
    "faults",
    [
        {"unreachable": True, "by_service": ServiceError("404")},
        {"log_fails": True},
        {"unreachable": True},
        {"unreachable": True, "by_service": ServiceError("no answer", transient=True)},
    ],
)
@pytest.mark.parametrize("end", [S.COMPLETED, S.FAILED])
def test_the_status_is_seen_at_once_whatever_becomes_of_the_logs(faults: dict[str, Any], end: JobStatus) -> None:
    clock, bare_clock = FakeClock(), FakeClock()
    script = [S.QUEUED, S.RUNNING, end]
    view, failure, events = followed(FakeService(script=script, log=LOG, **faults), clock)
    followed(FakeService(script=script), bare_clock)
    assert (view.status, failure is None) == (end, end is S.COMPLETED)
    assert [event.status for event in events if isinstance(event, JobStatusChanged)] == [
        "Queued",
        "Running",
        end.value,
    ]
    assert clock.time - bare_clock.time < 5, "seconds"
    assert len(warnings(events)) == (2 if "log_fails" in faults and end is S.FAILED else 1), warnings(events)


def test_a_job_whose_storage_cannot_be_reached_is_gated_and_registered() -> None:
    service = good_service(log=LOG, unreachable=True, by_service=ServiceError("AzureML answered 403"))
    outcome, events = run(make_plan({"acc": [">= 0.95"]}), service)
    assert (outcome.status, len(service.registered)) == ("passed", 1)
    (warning,) = warnings(events)
    assert warning == (
        f"The logs of the job {outcome.facts()['job']} cannot be read from storage: x.blob.core.windows.net does not answer"
        " (ConnectTimeout), and AzureML does not pass them on: AzureML answered 403 The job's status, gate and model do not"
        " depend on its logs. Check it."
    )


@pytest.mark.parametrize("on_cancel", ["cancel", "detach"])
def test_an_interruption_after_the_end_cancels_nothing(on_cancel: Any) -> None:
    service = good_service(log=LOG, script=[S.RUNNING, S.COMPLETED])

    def interrupt(event: Event) -> None:
        if isinstance(event, LogLines) and event.text == "last":
            raise KeyboardInterrupt

    plan = make_plan({"acc": [">= 0.95"]})
    plan = configured(plan, watch=replace(plan.config.watch, on_cancel=on_cancel))
    outcome, _ = run(plan, service, listener=interrupt)
    job = outcome.facts()["job"]
    assert service.cancelled == []
    assert outcome.exit_code == 7
    assert outcome.message == f"Interrupted after the end of the job {job}, which is Completed: it was not gated."
    assert outcome.hint == f"Gate it: aml-train attach {job}"


class Answer:
    """An answer of storage or of the artefact service, as requests gives it."""

    def __init__(self, status: int, content: bytes = b"", **headers: str) -> None:
        self.status_code = status
        self.ok = status < 400
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.url, self.text, self.reason = "https://x/y", "", "why"
        self.request = requests.Request("GET", self.url).prepare()
        self.content = content

    def iter_content(self, size: int) -> Iterator[bytes]:
        for start in range(0, len(self.content), 3):
            yield self.content[start : start + 3]

    def json(self) -> Any:
        return {"error": {"message": "no"}}

    def close(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Cut(Answer):
    """An answer that ends with an exception after its first bytes."""

    def __init__(self, error: Exception) -> None:
        super().__init__(206, b"first")
        self.error = error

    def iter_content(self, size: int) -> Iterator[bytes]:
        yield self.content
        raise self.error


class Session:
    """Gives answers in turn, and remembers the ranges that were asked for."""

    def __init__(self, *answers: Answer | Exception) -> None:
        self.answers = list(answers)
        self.ranges: list[str] = []
        self.urls: list[str] = []

    def request(self, _method: str, url: str, *, headers: dict[str, str] | None = None, **_: Any) -> Answer:
        self.ranges += [headers["Range"]] if headers else []
        self.urls.append(url)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


class SignIn:
    def token(self, _scope: str) -> str:
        return "t"


def rest(*answers: Answer | Exception) -> tuple[AzureRest, Session]:
    session = Session(*answers)
    found = AzureRest(
        WorkspaceId(subscription_id="s", resource_group="g", name="w"),
        SignIn(),  # type: ignore[arg-type]
        session=session,  # type: ignore[arg-type]
    )
    found._resource = Json({}, ServiceError)
    found._hosts = {"history": "https://east.api.azureml.ms"}
    return found, session


@pytest.mark.parametrize(
    "answer",
    [
        requests.ConnectTimeout("hangs"),
        requests.ReadTimeout("hangs"),
        requests.ConnectionError("refused, or no such name"),
        requests.exceptions.SSLError("a portal"),
        Answer(403, x_ms_error_code="AuthorizationFailure"),
        Answer(403, x_ms_error_code="PublicAccessNotPermitted"),
        # As requests has it in the middle of a body.
        Cut(requests.ConnectionError(ReadTimeoutError(HTTPSConnectionPool("x"), "/", "Read timed out."))),
    ],
)
def test_what_means_that_storage_cannot_be_reached(answer: Answer | Exception) -> None:
    with pytest.raises(StorageUnreachableError, match=r"a\.blob\.core\.windows\.net") as caught:
        list(rest(answer)[0].read_log("https://a.blob.core.windows.net/c/log?sig=SECRET", 0))
    assert "firewall and private endpoint" in (caught.value.hint or "")
    assert "SECRET" not in str(caught.value)


def test_a_file_that_the_gate_reads_comes_by_way_of_azureml_where_storage_cannot_be_reached() -> None:
    found = Json({"contentUri": "https://a.blob.core.windows.net/c/f?sig=x"}, ServiceError)
    for unreachable in (
        requests.ConnectionError("no such name"),
        Answer(403, x_ms_error_code="AuthorizationFailure"),
    ):
        service, session = rest(unreachable, Answer(200, b'{"f1": 0.9}'))
        service._artifacts = lambda name: f"https://history/{name}"  # type: ignore[method-assign]
        service.read = lambda *_, **__: found  # type: ignore[method-assign]
        service.find = lambda name: None  # type: ignore[method-assign]
        assert service.read_artifact("j", "outputs/report.json", most=100) == b'{"f1": 0.9}'
        assert session.urls[1].endswith("/artifacts/content/ExperimentRun/dcid.j/outputs/report.json")
