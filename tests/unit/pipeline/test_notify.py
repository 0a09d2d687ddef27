"""Webhooks: who is notified of what, in which form, and what a failure of that means."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import requests
from requests.adapters import BaseAdapter

from aml_train.config.load import load_config
from aml_train.config.sections.notify import NotifyConfig
from aml_train.core import http_client
from aml_train.core.errors import InvalidError
from aml_train.core.events import Event, Notice, RunFinished
from aml_train.core.masking import Masker
from aml_train.pipeline.notify import BadAddressError, check_address, payload, send_notifications
from aml_train.pipeline.notify_formats import body_of
from aml_train.pipeline.project_name import folder_project
from aml_train.pipeline.result import RunOptions, RunResult
from tests.unit.pipeline.test_run import good_service, make_plan, run

SECRET = "https://hooks.example.com/services/T000/B000/SECRETVALUE"
HERE = Path(__file__).parents[3]


def ended(rules: dict[str, list[str]] | None = None) -> RunResult:
    result, _ = run(make_plan(rules or {"acc": [">= 0.95"]}), good_service())
    return result


def document(**rules: Any) -> dict[str, Any]:
    return payload(ended(**rules), make_plan(), "https://ci/run/1", Masker({"hunter22"}))


def test_the_payload_has_the_verdict_the_gate_the_model_and_links() -> None:
    found = document()
    assert (found["version"], found["status"], found["exit_code"], found["branch"]) == (1, "passed", 0, "main")
    assert found["gate"]["verdict"] == "passed"
    (rule,) = found["gate"]["rules"]
    assert (rule["metric"], rule["rule"], rule["value"], rule["limit"], rule["verdict"]) == (
        "acc",
        ">= 0.95",
        0.96,
        0.95,
        "met",
    )
    assert found["model"] == {"name": "digits", "version": "1"}
    assert found["metrics"] == {"acc": 0.96}
    assert found["links"]["run"] == "https://ci/run/1"
    json.dumps(found)


def test_a_payload_before_there_was_a_job_and_with_secrets() -> None:
    result = RunResult(status="image-failed", exit_code=3, message="password hunter22 " + "x" * 10_000)
    found = payload(result, make_plan(), None, Masker({"hunter22"}))
    assert found["job"] is found["gate"] is found["model"] is None
    assert found["metrics"] == found["links"] == {}
    assert "hunter22" not in json.dumps(found)
    assert len(found["message"]) < 4_100


def test_the_documented_payload_is_the_one_that_is_sent() -> None:
    text = (HERE / "docs/notify.md").read_text(encoding="utf-8")
    written = json.loads(text.partition("```json\n")[2].partition("```")[0])
    found = document()

    def names(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: names(one) for key, one in value.items()}
        return [names(value[0])] if isinstance(value, list) and value else None

    assert set(written) == set(found)
    for key in ("job", "gate", "model"):
        assert names(written[key]) == names(found[key]), key


HOSTILE = "<!channel> *bold* [x](http://evil) & <script>\n# title"


@pytest.mark.parametrize("kind", ["slack", "teams"])
def test_messages_show_the_verdict_and_no_markup_of_others(kind: str) -> None:
    found = {**document(), "message": HOSTILE, "project": HOSTILE}
    found["gate"]["rules"] = [{**found["gate"]["rules"][0], "reason": HOSTILE}] * 20
    body = body_of(kind, found)
    text = json.dumps(body, ensure_ascii=False)
    assert "passed" in text
    assert "and 10 more rules" in text
    assert "https://ci/run/1" in text
    if kind == "slack":
        assert "<!channel>" not in json.dumps(body["blocks"][1:])
        assert "&lt;!channel&gt;" in text
        assert len(body["blocks"]) <= 50
    else:
        card = body["attachments"][0]["content"]
        assert card["type"] == "AdaptiveCard"
        assert not [one for one in card["body"] if "](" in one.get("text", "")]


def test_numbers_that_are_not_finite_are_text() -> None:
    found = {**document(), "metrics": {"loss": float("nan")}}
    assert body_of("json", found)["metrics"] == {"loss": "NaN"}


@pytest.mark.parametrize(
    ("url", "good"),
    [
        (SECRET, True),
        ("http://localhost:8000/x", True),
        ("http://127.0.0.1/x", True),
        ("http://[::1]:1/x", True),
        ("http://hooks.example.com/SECRETVALUE", False),
        ("ftp://hooks.example.com/SECRETVALUE", False),
        ("SECRETVALUE", False),
        ("https://", False),
        ("https://x:SECRETVALUE/", False),
        ("https://[SECRETVALUE/", False),
    ],
)
def test_addresses_are_https_or_of_this_machine_and_never_shown(url: str, *, good: bool) -> None:
    if good:
        assert check_address(f" {url}\n") == url
        return
    with pytest.raises(BadAddressError) as caught:
        check_address(url)
    assert "SECRETVALUE" not in str(caught.value)


class Hook(BaseAdapter):
    """Answers with the given statuses, or raises them."""

    def __init__(self, *answers: int | Exception) -> None:
        super().__init__()
        self.answers = list(answers)
        self.requests: list[requests.PreparedRequest] = []
        self.options: list[dict[str, Any]] = []

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:  # type: ignore[override]
        self.requests.append(request)
        self.options.append(options)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        response = requests.Response()
        response.status_code, response.request, response.url = answer, request, str(request.url)
        response.headers["Location"] = "https://elsewhere.example.com/"
        response._content = b"SECRETVALUE"
        return response

    def close(self) -> None:
        pass


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Hook:
    adapter = Hook()

    class Session(requests.Session):
        def __init__(self) -> None:
            super().__init__()
            self.mount("https://", adapter)
            self.mount("http://", adapter)

    monkeypatch.setattr(http_client, "Session", Session)
    return adapter


def send(hook: Hook, *answers: int | Exception, kind: str = "json", **environ: str) -> tuple[list[str], list[float]]:
    hook.answers[:] = answers
    sleeps: list[float] = []
    one = NotifyConfig(url_env="HOOK", format=kind)  # type: ignore[arg-type]
    problems = send_notifications((one,), document(), {"HOOK": SECRET, **environ}, sleep=sleeps.append)
    return problems, sleeps


def test_a_webhook_gets_the_body_once(hook: Hook) -> None:
    assert send(hook, 204) == ([], [])
    (request,) = hook.requests
    assert request.url == SECRET
    assert json.loads(request.body or b"")["status"] == "passed"


@pytest.mark.parametrize(
    ("answers", "problem", "requests_sent"),
    [
        ([500, 200], None, 2),
        ([429, 200], None, 2),
        ([requests.ConnectionError(SECRET), 200], None, 2),
        ([500, 503], "it answered 503", 2),
        ([404], "it answered 404", 1),
        ([302], "it answered 302", 1),
        ([requests.Timeout(SECRET)] * 2, "no answer (Timeout)", 2),
        ([requests.exceptions.SSLError(SECRET)] * 2, "no answer (SSLError)", 2),
    ],
)
def test_a_failure_is_a_problem_without_the_address(
    answers: list[int | Exception], problem: str | None, requests_sent: int, hook: Hook
) -> None:
    problems, _ = send(hook, *answers)
    assert problems == ([] if problem is None else [f"The webhook of HOOK was not notified: {problem}."])
    assert len(hook.requests) == requests_sent
    assert "SECRET" not in "".join(problems)


def test_the_proxy_of_the_environment_is_used_and_not_that_of_the_process(
    hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://emulator:1")
    send(hook, 200, HTTPS_PROXY="http://proxy:3128", REQUESTS_CA_BUNDLE="/ca.pem")
    assert hook.options[0]["proxies"]["https"] == "http://proxy:3128"
    assert hook.options[0]["verify"] == "/ca.pem"
    send(hook, 200)
    assert not hook.options[1]["proxies"].get("https")
    send(hook, 200, HTTPS_PROXY="http://proxy:3128", NO_PROXY=".example.com")
    assert not hook.options[2]["proxies"].get("https")


def test_a_variable_that_is_missing_is_a_problem() -> None:
    one = NotifyConfig(url_env="HOOK")
    assert send_notifications((one,), document(), {}) == [
        "The webhook of HOOK was not notified: the variable is not set."
    ]


@pytest.mark.parametrize(
    ("when", "exit_code", "wanted"),
    [
        (("always",), 0, True),
        (("always",), 6, True),
        (("failure",), 0, False),
        (("failure",), 7, True),
        (("success",), 0, True),
        (("success",), 6, False),
        (("success", "failure"), 6, True),
    ],
)
def test_which_endings_are_reported(when: tuple[Any, ...], exit_code: int, *, wanted: bool) -> None:
    assert NotifyConfig(url_env="HOOK", when=when).wants(exit_code) is wanted


def test_a_problem_is_a_warning_before_the_end_and_changes_no_verdict() -> None:
    from aml_train.core.clock import Clock
    from aml_train.pipeline.context import RunContext
    from aml_train.pipeline.run import run as run_pipeline
    from tests.support.fake_workspace import FakeClock
    from tests.unit.pipeline.test_run import FakeTarget

    for problem in ("not reached", "interrupted"):

        def announce(_result: RunResult, problem: str = problem) -> list[str]:
            if problem == "interrupted":
                raise KeyboardInterrupt
            return [problem]

        clock, events = FakeClock(), list[Event]()
        context = RunContext(
            plan=make_plan(),
            open_target=lambda: FakeTarget(service=good_service()),
            options=RunOptions(),
            clock=Clock(now=clock.now, sleep=clock.sleep),
            emit=events.append,
            announce=announce,
        )
        result = run_pipeline(context)
        assert result.exit_code == 0
        assert isinstance(events[-1], RunFinished)
        warning = events[-2]
        assert isinstance(warning, Notice)
        assert warning.level == "warning"
        assert problem in warning.text.lower()


JOB = "job: {command: x, environment: 'azureml:e:1'}\n"


def test_the_configuration_is_one_webhook_or_several(tmp_path: Path) -> None:
    file = tmp_path / "aml-train.yml"
    file.write_text(f"{JOB}notify: {{url-env: HOOK, when: [failure], format: slack}}\n")
    assert load_config(None, directory=tmp_path).notify == (
        NotifyConfig(url_env="HOOK", format="slack", when=("failure",)),
    )
    file.write_text(
        f"{JOB}notify:\n  - url-env: HOOK\n  - url-env: OTHER\n    format: teams\n    when: [success, failure]\n"
    )
    assert [one.url_env for one in load_config(None, directory=tmp_path).notify] == ["HOOK", "OTHER"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "notify: {url: 'https://hooks.example.com/SECRET'}",
            "the address is a secret: name the environment variable",
        ),
        ("notify: {format: slack}", "the key `url-env` of `notify` is missing"),
        ("notify: {url-env: 'https://hooks.example.com/SECRET'}", "a variable's name"),
        ("notify: {url-env: HOOK, when: []}", "`notify.when` is empty"),
        ("notify: {url-env: HOOK, when: [sometimes]}", "sometimes"),
        ("notify: {url-env: HOOK, format: irc}", "irc"),
        ("notify: HOOK", "a mapping with `url-env`"),
    ],
)
def test_a_fault_of_the_configuration_is_named(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "aml-train.yml").write_text(f"{JOB}{text}\n")
    with pytest.raises(InvalidError, match=r"aml-train.yml:2: ") as caught:
        load_config(None, directory=tmp_path)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        (RunOptions(), 1),
        (RunOptions(wait=False), 0),
        (RunOptions(register=False), 0),
        (RunOptions(decide=False), 0),
    ],
)
def test_only_a_run_that_may_register_and_has_a_verdict_notifies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hook: Hook, options: RunOptions, sent: int
) -> None:
    import aml_train
    from aml_train.testing import memory_workspace

    monkeypatch.setattr("aml_train.pipeline.prepare.read_commit", lambda _directory, **_more: None)
    monkeypatch.setattr(
        "aml_train.pipeline.prepare.read_project", lambda directory, _environ, **_more: folder_project(directory)
    )
    (tmp_path / "aml-train.yml").write_text(f"{JOB}notify: {{url-env: HOOK}}\n")
    hook.answers[:] = [200]
    config = aml_train.load_config(directory=tmp_path)
    events: list[Event] = []
    with memory_workspace():
        planned = aml_train.plan(config, environ={"HOOK": SECRET})
        assert aml_train.run(planned, options, listeners=[events.append]).result().passed
    assert len(hook.requests) == sent
    assert not [event for event in events if isinstance(event, Notice) and event.level == "warning"]
