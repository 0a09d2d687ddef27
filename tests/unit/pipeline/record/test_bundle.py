"""A recorded run becomes a bundle: scrubbed, proved, bounded, and written whatever happens."""

from __future__ import annotations

import io
import json
import signal
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
import requests
import urllib3
from urllib3.connectionpool import HTTPConnectionPool

from aml_train.config import load_config
from aml_train.core.errors import InvalidError, ServiceError
from aml_train.core.events import (
    LogLine,
    LogLines,
    Notice,
    Progress,
    RunFinished,
    StageStarted,
    TestFailure,
    TestsFinished,
)
from aml_train.core.interrupts import interruptible
from aml_train.core.scrub import Scrubber
from aml_train.pipeline.record import Recorder, record_run
from aml_train.pipeline.record import bundle as bundles
from aml_train.pipeline.record.bundle import LeakError, make_bundle
from aml_train.pipeline.record.words import product_words
from aml_train.pipeline.result import RunOptions

FIELDS = Path(bundles.__file__).with_name("fields.txt")
ID = "4f1c2d3e-1111-2222-3333-444455556666"
#: One for each kind of place; none of them may be in the bundle's bytes.
PLANTED = {
    "variable of the environment": "hunter2-Env0",
    "variable of the job": "hunter3-Job0",
    "variable of the job that is no secret": "quokka9zz",
    "log line": "hunter4Log0",
    "header": "hunter5Header0",
    "signature": "Hunter6%2BSig0",
    "error text": "hunter7Error0",
    "answer": "hunter8Answer0",
    "token in an answer": "hunter9Token0",
    "test output": "hunter10Test0",
    "e-mail": "jane.doe@contoso-corp.com",
    "id": ID,
    "host": "contoso-store7",
    "workspace": "main-training",
    "exception": "hunter11Exception0",
    "webhook": "hunter12Hook0",
}


def make_project(folder: Path) -> Path:
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "train.py").write_text("")
    job = {
        "code": "./src",
        "command": f"python train.py {PLANTED['e-mail']}",
        "environment": {"image": "python:3.11"},
        "environment_variables": {
            "MY_PASSWORD": PLANTED["variable of the job"],
            "MODE": PLANTED["variable of the job that is no secret"],
        },
    }
    (folder / "job.yml").write_text(json.dumps(job))
    target = {"subscription-id": ID, "resource-group": "rg", "workspace": PLANTED["workspace"], "compute": "cpu"}
    (folder / "aml-train.yml").write_text(
        json.dumps(
            {"job": "job.yml", "target": "azure", "targets": {"azure": target}, "gate": {"acc/top7": [">= 0.5"]}}
        )
    )
    return folder


def answer(status: int = 200, body: bytes = b"{}", **headers: str) -> urllib3.HTTPResponse:
    known = {"Content-Type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
    return urllib3.HTTPResponse(body=io.BytesIO(body), headers=known, status=status, preload_content=False)


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Callable[[], urllib3.HTTPResponse]]]:
    """What the network answers, in order."""
    answers: list[Callable[[], urllib3.HTTPResponse]] = []

    def urlopen(
        _pool: HTTPConnectionPool, _method: str, _url: str, *_args: Any, **_options: Any
    ) -> urllib3.HTTPResponse:
        return answers.pop(0)()

    monkeypatch.setattr(HTTPConnectionPool, "urlopen", urlopen)
    yield answers
    assert answers == []


def contents(data: bytes) -> dict[str, Any]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {
            name: json.loads(archive.read(name)) if name.endswith(".json") else archive.read(name).decode()
            for name in archive.namelist()
        }


def raw(data: bytes) -> str:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return "\n".join(archive.read(name).decode() for name in archive.namelist())


def recorder_of(folder: Path) -> Recorder:
    environ = {
        "AZURE_CLIENT_SECRET": PLANTED["variable of the environment"],
        "AZURE_CLIENT_ID": "local",
        "UNRELATED": "1",
    }
    recorder = Recorder("run", environ)
    recorder.loaded(load_config(None, directory=make_project(folder)))
    return recorder


def test_no_planted_secret_is_in_the_bytes(tmp_path: Path, network: list[Callable[[], urllib3.HTTPResponse]]) -> None:
    recorder = recorder_of(tmp_path / "project")
    body = {
        "properties": {"status": "Completed", "description": PLANTED["answer"], "owner": PLANTED["e-mail"]},
        "access_token": PLANTED["token in an answer"],
        "id": f"/subscriptions/{ID}/resourceGroups/rg/workspaces/{PLANTED['workspace']}/jobs/a",
        "metrics": [{"key": "acc/top7", "value": 0.75}],
    }
    network.append(
        lambda: answer(200, json.dumps(body).encode(), Location=f"https://{PLANTED['host']}.example.com/{ID}")
    )
    network.append(lambda: answer(403, f"refused {PLANTED['answer']}".encode(), Content_Type="text/plain"))
    with recorder.tap.attached(), requests.Session() as session:
        session.trust_env = False
        session.get(
            f"https://{PLANTED['host']}.blob.core.windows.net/a?sig={PLANTED['signature']}&sp=r",
            headers={"Authorization": f"Bearer {PLANTED['header']}"},
        )
        session.get(f"https://eastus.api.azureml.ms/mlflow/{PLANTED['workspace']}")
    recorder(StageStarted(stage="target", title=f"the workspace {PLANTED['workspace']}"))
    recorder(LogLine(source="build", text=PLANTED["log line"]))
    recorder(LogLines(origin="user_logs/std_log.txt", text=f"a\n{PLANTED['log line']}"))
    recorder(Progress(stage="push", label=PLANTED["log line"], done=1, total=2, unit="bytes"))
    failure = TestFailure(name="t", file="a.py", line=1, message="m", output=PLANTED["test output"])
    recorder(TestsFinished(passed=0, failed=1, skipped=0, seconds=1.0, cached=False, failures=(failure,)))
    recorder(Notice(text=f"Retrying: {PLANTED['error text']}"))
    recorder(
        RunFinished(
            status="job-failed", exit_code=5, message=f"It failed.\n{PLANTED['log line']}", facts={"job": "x"}
        )
    )
    with pytest.raises(ValueError, match="hunter") as caught:
        int(f"{PLANTED['exception']} in {PLANTED['workspace']}")
    recorder.seen.failure = caught.value
    data, requests_made = make_bundle(recorder)
    text = raw(data).lower()
    for place, planted in PLANTED.items():
        assert planted.lower() not in text, place
    assert "hunter6+sig0" not in text
    assert "contoso" not in text
    assert requests_made == 2
    found = contents(data)
    first, second = found["exchange.json"]
    assert first["status"] == 200
    assert first["body"]["json"]["properties"]["status"] == "Completed"
    assert first["body"]["json"]["metrics"] == [{"key": "acc/top7", "value": 0.75}]
    assert first["body"]["json"]["access_token"] == "***"
    assert (second["status"], second["body"]) == (403, {"bytes": 22, "lines": 0})
    assert [one["event"] for one in found["events.json"]] == [
        "stage-started", "log-line", "log-lines", "tests-finished", "notice", "run-finished",
    ]  # fmt: skip
    assert found["events.json"][2]["lines"] == 2
    assert found["events.json"][-1]["message"] == "It failed."
    assert found["bundle.json"]["variables"] == ["AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET"]
    assert found["bundle.json"]["traceback"]["chain"][0]["type"] == "ValueError"
    # The same name has the same placeholder in the configuration and in the answers.
    workspace = found["config.json"]["target"]["workspace"]
    assert f"/workspaces/{workspace}/jobs/" in first["body"]["json"]["id"]


def test_the_product_reads_the_same_body_while_it_is_recorded(
    tmp_path: Path, network: list[Callable[[], urllib3.HTTPResponse]]
) -> None:
    recorder = recorder_of(tmp_path / "project")
    network.append(lambda: answer(200, b'{"a": 1}'))
    network.append(lambda: answer(200, b"abc" * 700_000, Content_Type="application/octet-stream"))

    def broken() -> urllib3.HTTPResponse:
        raise urllib3.exceptions.ReadTimeoutError(None, "/", "slow")  # type: ignore[arg-type]

    network.append(broken)
    with recorder.tap.attached(), requests.Session() as session:
        session.trust_env = False
        assert session.get("https://example.com/a").json() == {"a": 1}
        assert len(session.get("https://example.com/b", stream=True).content) == 2_100_000
        with pytest.raises(requests.ReadTimeout):
            session.get("https://example.com/c")
    one, two, three = recorder.tap.exchanges
    assert (one.body, two.body, two.length) == (b'{"a": 1}', None, 2_100_000)
    assert (three.status, three.error) == (None, ("ReadTimeoutError",))
    before = HTTPConnectionPool.urlopen
    with recorder.tap.attached():
        assert HTTPConnectionPool.urlopen is not before
    assert HTTPConnectionPool.urlopen is before


def numbered(number: int) -> Callable[[], urllib3.HTTPResponse]:
    return lambda: answer(200, b'{"a": "%d"}' % number + b" " * 200)


def test_repeated_answers_are_written_once_and_large_bundles_are_cut(
    tmp_path: Path, network: list[Callable[[], urllib3.HTTPResponse]], monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = recorder_of(tmp_path / "project")
    same = json.dumps({"status": "Running", "tags": ["train"] * 100}).encode()
    network += [lambda: answer(200, same)] * 30
    network += [numbered(number) for number in range(300)]
    with recorder.tap.attached(), requests.Session() as session:
        session.trust_env = False
        for _ in range(330):
            session.get("https://example.com/jobs/a")
    for _ in range(50):
        recorder(LogLine(source="job", text="a"))
    recorder(RunFinished(status="passed", exit_code=0, message=""))
    found = contents(make_bundle(recorder)[0])
    assert found["bundle.json"]["cut"] == {"repeated": 29, "log_events": 0, "of_builds": 0, "in_between": 0}
    assert found["exchange.json"][29]["body"] == {"same": 0}
    monkeypatch.setattr(bundles, "MOST", 60_000)
    cut = contents(make_bundle(recorder)[0])
    assert len(json.dumps(cut["exchange.json"])) <= 60_000
    assert cut["bundle.json"]["cut"]["log_events"] == 50
    assert cut["bundle.json"]["cut"]["in_between"] > 0
    assert cut["exchange.json"][0]["body"] == found["exchange.json"][0]["body"]
    assert cut["exchange.json"][-1] == found["exchange.json"][-1]
    assert cut["events.json"][-1]["status"] == "passed"
    monkeypatch.setattr(bundles, "MOST", 2_000)
    with pytest.raises(InvalidError, match=r"it would have .*, and may have 2\.0 kB"):
        make_bundle(recorder)


def test_a_bundle_is_written_however_the_run_ends(tmp_path: Path) -> None:
    path, said = tmp_path / "bundle.zip", list[str]()

    def record(error: BaseException | None) -> None:
        said.clear()
        with record_run(path, "run", {}, report=said.append) as recorder:
            recorder(StageStarted(stage="target", title="the job"))
            if error is not None:
                raise error

    for error, status in ((None, None), (ServiceError("out"), "service-error")):
        if error is None:
            record(None)
        else:
            with pytest.raises(ServiceError):
                record(error)
        ending = contents(path.read_bytes())["bundle.json"]["ending"]
        assert (ending and ending["status"]) == status
        assert said[0].startswith(f"The bundle {path} has 0 requests and 1 events in")
    with pytest.raises(KeyboardInterrupt):
        record(KeyboardInterrupt())
    assert said[0].startswith(f"The bundle {path} has 0 requests and 1 events in")
    with pytest.raises(ZeroDivisionError):
        record(ZeroDivisionError("division"))
    trace = contents(path.read_bytes())["bundle.json"]["traceback"]["chain"][0]
    assert trace["type"] == "ZeroDivisionError"
    assert [frame["file"] for frame in trace["frames"]][-1] == "elsewhere"
    assert any(frame["file"] == "aml_train/pipeline/record/recording.py" for frame in trace["frames"])
    assert list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_proved_is_not_written_and_its_place_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, said = tmp_path / "bundle.zip", list[str]()
    monkeypatch.setattr(Scrubber, "text", lambda _self, text: text)
    with record_run(path, "run", {"A_TOKEN": "hunter2-Env0"}, report=said.append) as recorder:
        recorder(Notice(text="with hunter2-Env0"))
    assert not path.exists()
    assert said[0].startswith("No bundle was written: ")
    assert "events.json, item 1, member 3: a secret of this run" in said[0]
    assert "hunter2" not in said[0]
    with pytest.raises(LeakError):
        make_bundle(recorder)


def test_an_interruption_of_the_writing_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_recorder: Recorder) -> NoReturn:
        raise KeyboardInterrupt

    said: list[str] = []
    monkeypatch.setattr(bundles, "make_bundle", interrupted)
    with pytest.raises(KeyboardInterrupt), record_run(tmp_path / "bundle.zip", "run", {}, report=said.append):
        pass
    assert said == ["No bundle was written: that was interrupted."]
    assert list(tmp_path.iterdir()) == []


def test_a_fault_of_the_recorder_does_not_change_the_ending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(bundles, "make_bundle", lambda _recorder: 1 // 0)
    with record_run(tmp_path / "bundle.zip", "run", {}, report=said.append):
        pass
    assert said[0].startswith("No bundle was written: ZeroDivisionError in ")


@pytest.mark.parametrize("name", ["missing/bundle.zip", "."])
def test_a_path_that_cannot_be_written_is_refused_before_anything_happens(tmp_path: Path, name: str) -> None:
    with (
        pytest.raises(InvalidError, match="--record"),
        record_run(tmp_path / name, "run", {}, report=print),
    ):
        pytest.fail("the block must not run")


def test_the_moment_of_each_interruption_is_noted(tmp_path: Path) -> None:
    path = tmp_path / "bundle.zip"
    with interruptible(signal.SIGINT), record_run(path, "run", {}, report=print) as recorder:
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        first, second = recorder.seen.interruptions
        # One that was lost is raised again: its later moment counts.
        recorder.interrupted(True)
    assert second >= first
    written = contents(path.read_bytes())["bundle.json"]["interruptions"]
    assert written == [round(one, 6) for one in recorder.seen.interruptions]
    assert len(written) == 2
    assert written[1] >= round(second, 6)


def test_the_words_are_those_of_the_source_and_of_answers_and_no_others() -> None:
    words = product_words()
    assert {"completed", "subscriptions", "amlcompute", "aml", "train", "sig"} <= words
    assert not {"quokka9zz", "hunter2", "quokka"} & words
    lines = FIELDS.read_text().splitlines()
    assert lines[0].startswith("# ")
    fields = [word for line in lines[1:] for word in line.split()]
    assert fields == sorted(set(fields))
    assert all(word.isalnum() and word == word.lower() for word in fields)


def test_options_are_named_without_values(tmp_path: Path) -> None:
    recorder = recorder_of(tmp_path / "project")
    recorder.seen.options = RunOptions(fresh=True, job="quokka9zz-job")
    data, _ = make_bundle(recorder)
    assert contents(data)["bundle.json"]["options"] == ["fresh", "job"]
    assert "quokka9zz" not in raw(data)
