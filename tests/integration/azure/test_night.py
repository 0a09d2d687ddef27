"""A watch of 24 hours: access tokens of an hour, assertions of five seconds, signed addresses of an hour, and what can go wrong."""

from __future__ import annotations

import dataclasses
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import requests

from aml_train.azure import target as azure_target
from aml_train.azure.workspace import AzureRest
from aml_train.config.load import load_config
from aml_train.core.docker import connect_engine
from aml_train.core.events import Event, JobStatusChanged, LogLines, ModelRegistered, Notice
from aml_train.jobs.workspace import JobView
from aml_train.pipeline.execute import run_prepared
from aml_train.pipeline.prepare import prepare_run
from aml_train.pipeline.result import RunOptions, RunResult
from aml_train.pipeline.target import Host
from aml_train_action.github.oidc import github_assertion
from tests.integration.azure.clocked_emulator import CLOCK, PRELOAD
from tests.integration.azure.night import HOUR, Night
from tests.integration.azure.test_azure import BASE, configure
from tests.support.emulator_process import Emulator, running
from tests.support.oidc_stand_in import Provider, serving

#: The job says what it is told, and ends when it is told to.
JOB = f"""\
command: >-
  mkdir outputs; echo weights > outputs/model; mkfifo /tmp/told; exec 3<>/tmp/told;
  while read -r line <&3; do test "$line" = end && exit 0; echo "$line"; done
environment: {{image: '{BASE}'}}
"""
MODEL = "model: {name: night, path: outputs/model}\n"
#: azure-ai-ml is imported in this process, and warns of its own libraries.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Night:
    return Night(tmp_path_factory.mktemp("clock") / "now")


@pytest.fixture(scope="module")
def emulator(night: Night, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    preload = night.file.with_name("clock.js")
    preload.write_text(PRELOAD)
    with running(
        Emulator(
            tmp_path_factory.mktemp("emulator"),
            command=("-m", "tests.integration.azure.clocked_emulator"),
            environment={CLOCK: str(night.file), "NODE_OPTIONS": f"--require={preload}"},
        )
    ) as service:
        yield service


@pytest.fixture
def github(night: Night) -> Iterator[Provider]:
    with serving(Provider(clock=lambda: night.now, lifetime=5), "127.0.0.1") as provider:
        yield provider


@dataclass
class Client:
    """The pipeline in this process, as the action composes it, on the night's clock.

    Attributes:
        received: what happened, and at which hour.
        views: each answer to the question for the job's details.
    """

    night: Night
    emulator: Emulator
    github: Provider
    project: Path
    environment: dict[str, str]
    real_sleep: Callable[[float], None]
    received: list[tuple[float, Event]] = field(default_factory=list)
    views: list[JobView] = field(default_factory=list)

    def run(self) -> RunResult:
        """Run the pipeline to its end."""
        assertion = github_assertion(self.environment, sleep=self.night.sleep)
        prepared = prepare_run(
            load_config(None, directory=self.project), Host(environ=self.environment, assertion=assertion)
        )
        return run_prepared(
            prepared, RunOptions(), listeners=[lambda event: self.received.append((self.night.hours, event))]
        )

    def of(self, kind: type[Event]) -> list[Any]:
        """Return the events of one kind."""
        return [event for _, event in self.received if isinstance(event, kind)]

    def notices(self) -> list[tuple[float, str]]:
        """Return hours and texts of all notices."""
        return [(hour, event.text) for hour, event in self.received if isinstance(event, Notice)]

    def until(self, met: Callable[[Mapping[str, int]], object]) -> None:
        """Return when the numbers of jobs by status are as wanted. No time passes by the night's clock."""
        for _ in range(6000):
            if met(self.emulator.admin("GET", "status").json()["jobs"]):
                return
            self.real_sleep(0.1)
        pytest.fail("the job does not go on")

    def until_running(self) -> None:
        """Return when the job runs."""
        self.until(lambda jobs: jobs.get("Running"))

    def tell(self, line: str) -> None:
        """Let the job hear *line*; return when it stands in the log that the storage has, or the job has ended."""
        job = self.views[-1].name
        engine = connect_engine(os.environ)
        (container,) = engine.containers.list(filters={"label": f"org.aml-train.emulator.run={job}"})
        # It runs, and may not have come to make what it is told by.
        tell = 'until test -p /tmp/told; do sleep 0.05; done; echo "$0" > /tmp/told'
        code, said = container.exec_run(["sh", "-c", tell, line])
        assert code == 0, said
        if line == "end":
            self.until(lambda jobs: set(jobs) <= {"Completed"})
        else:
            (address,) = (url for path, url in self.views[-1].log_files.items() if path.endswith("std_log.txt"))
            for _ in range(6000):
                if f"{line}\n" in requests.get(address, timeout=60).text:
                    break
                self.real_sleep(0.1)
            else:
                pytest.fail(f"{line!r} never came into the log")
        engine.close()

    def asked(self, pattern: str) -> int:
        """Return how often the emulator has answered 200 to what *pattern* describes, by its log."""
        return len(re.findall(rf"{pattern}\S* -> 200 in", self.emulator.log.read_text()))


@pytest.fixture
def client(
    night: Night, emulator: Emulator, github: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Client:
    """A client of a project whose target is the emulator's workspace."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "job.yml").write_text(f"{JOB}experiment_name: night-{secrets.token_hex(3)}\n")
    configure(project, emulator, MODEL)
    known = emulator.environment()
    del known["AZURE_CLIENT_SECRET"]
    for name in ("HTTPS_PROXY", "NO_PROXY", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"):
        monkeypatch.setenv(name, known[name])
    environment = {**os.environ, **known, **github.environment()}
    client = Client(night, emulator, github, project, environment, night.take_over(monkeypatch))
    details = AzureRest.details

    def spy(rest: AzureRest, name: str) -> JobView:
        client.views.append(details(rest, name))
        return client.views[-1]

    monkeypatch.setattr(AzureRest, "details", spy)
    # Each reading of the log is a real request, and half a second passes in no time: it is read with each look.
    monkeypatch.setattr(azure_target, "AZURE_PACE", dataclasses.replace(azure_target.AZURE_PACE, log=120.0))
    return client


@pytest.mark.full
def test_a_watch_of_24_hours(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    night, emulator, github = client.night, client.emulator, client.github
    old: list[str] = []
    refused: list[int] = []

    def keep() -> None:
        old.extend(client.views[-1].log_files.values())

    def look() -> None:
        refused.extend(requests.get(address, timeout=60).status_code for address in old)

    def say(hour: int) -> Callable[[], None]:
        return lambda: client.tell(f"hour {hour}")

    def outage(over: bool) -> None:
        with monkeypatch.context() as patch:
            patch.delenv("HTTPS_PROXY")  # it is no client of its own
            emulator.start() if over else emulator.stop()

    night.at(0.005, client.until_running)
    for hour in range(1, 24):
        night.at(hour, say(hour))
    night.at(1.1, keep)
    night.at(2.2, look)
    night.at(3.3, lambda: setattr(night, "skew", 2 * HOUR))  # the machine's clock jumps ahead …
    night.at(6.2, lambda: outage(over=False))
    night.at(6.9, lambda: outage(over=True))
    night.at(9.3, lambda: setattr(night, "skew", -3 * HOUR))  # … and back: its tokens look good for hours too long
    night.at(12.1, lambda: setattr(github, "status", 500))
    night.at(13.6, lambda: setattr(github, "status", 200))
    night.at(16.5, lambda: setattr(night, "skew", 0.0))
    night.at(24, lambda: client.tell("end"))

    outcome = client.run()

    assert (outcome.exit_code, outcome.status) == (0, "passed"), outcome.message
    assert 24 <= night.hours < 24.1
    assert not night.due
    lines = [
        (hour, line)
        for hour, event in client.received
        if isinstance(event, LogLines)
        for line in event.text.split("\n")
    ]
    assert [text for _, text in lines if text.startswith("hour ")] == [f"hour {hour}" for hour in range(1, 24)]
    late = [text for at, text in lines if text.startswith("hour ") and at - int(text[5:]) > 0.02]
    assert late == ["hour 13"], "each line is received with the next look, unless GitHub has no assertion for it"
    assert [event.status for event in client.of(JobStatusChanged)][-1] == "Completed"
    assert [event.version for event in client.of(ModelRegistered)] == ["1"]

    assert refused
    assert set(refused) == {403}, "a log's address ends after an hour"

    told = client.notices()
    (down, up), (silent, heard_again) = (
        [at for at, text in told if text.startswith("AzureML does not answer") and (6 < at < 7) == first]
        + [at for at, text in told if text == "AzureML answers again." and (6 < at < 7) == first]
        for first in (True, False)
    )
    assert 6.2 <= down < 6.25
    assert 6.9 <= up < 6.95
    # The token was good for a while; then each look asked GitHub again.
    assert 12.1 < silent < 13.2
    assert 13.6 <= heard_again < 13.65
    (said,) = [text for at, text in told if at == silent]
    assert "GitHub's OIDC service answered 500, 3 times." in said

    looks = client.asked(r"GET \S+/runs/[^/ ]+/details")
    # Once a minute while it runs, and at most a thousand times in twelve hours.
    assert 1200 <= looks <= 2000, f"{looks} status calls"
    sign_ins = client.asked(r"POST login\.microsoftonline\.com/\S+/token")
    # A token is good for 55 of its 60 minutes; each jump costs one more.
    assert 26 <= sign_ins <= 28, f"{sign_ins} sign-ins"
    # Each had an assertion of its own, no older than five seconds.
    assert len(github.issued) == len(set(github.issued)) >= sign_ins
    print(f"{looks} status calls, {sign_ins} sign-ins, {len(github.asked)} calls of GitHub")
