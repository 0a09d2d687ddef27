"""The parts of a replay: answers by key and order, virtual time, and the comparison."""

from __future__ import annotations

import json
import time
import zipfile
from pathlib import Path
from typing import Any, NoReturn

import pytest
import requests

from aml_train.core.errors import ImageError
from aml_train.core.file_selection import FileEntry
from aml_train.core.files import FileSet
from aml_train.core.references import ImageRef
from aml_train.image import Tested
from aml_train.pipeline.record.values import encode
from simulation.incident.bundle import BEYOND, Bundle, Ending, ReplayError, read_bundle
from simulation.incident.interruptions import Interruptions
from simulation.incident.replay import Replay, first_difference
from simulation.incident.target import RecordedImages, error_of, event_of, written
from simulation.incident.transport import Answers, UnknownRequestError, address_key, filler
from simulation.incident.virtual_time import VirtualTime

OURS = "00000000-0000-4000-8000-000000000001"
FRESH = "4f1c2d3e-1111-2222-3333-444455556666"


def exchange(address: str, body: Any = None, **changed: Any) -> dict[str, Any]:
    known = {
        "method": "GET",
        "address": address,
        "began": 1.0,
        "ended": 2.0,
        "main": True,
        "during": "",
        "status": 200,
    }
    shape = {"json": body} if body is not None else {"bytes": 0, "lines": 0}
    return {**known, "headers": {"content-type": "application/json"}, "error": [], "body": shape, **changed}


def answers(*exchanges: dict[str, Any]) -> tuple[Answers, VirtualTime]:
    clock = VirtualTime(0.0)
    return Answers(list(exchanges), clock, Interruptions([], exchanges, [], clock)), clock


def get(url: str, method: str = "GET") -> requests.Response:
    with requests.Session() as session:
        session.trust_env = False
        return session.request(method, url)


def test_answers_come_in_order_and_the_last_one_again() -> None:
    found, clock = answers(
        exchange("https://a.b/jobs/x1?api-version=1&b=c d", {"n": 1}),
        exchange("https://a.b/jobs/x2", {"n": 9}, ended=7.0),
        exchange("https://a.b/jobs/x1?b=c d&api-version=1", {"n": 2}),
    )
    with found.in_place():
        first = [get("https://a.b/jobs/x1?api-version=1&b=c%20d").json()["n"] for _ in range(4)]
        assert first == [1, 2, 2, 2]
        assert clock.now() == 2.0
        assert get("https://a.b/jobs/x2").json() == {"n": 9}
        assert clock.now() == 7.0
    assert (found.answered, found.unknown) == (3, [])


def test_an_unknown_request_names_itself_and_no_handler_takes_it() -> None:
    found, _ = answers(exchange("https://a.b/jobs/x1"), exchange("https://a.b/jobs/x3", method="PUT"))
    with found.in_place():
        with pytest.raises(UnknownRequestError):
            get("https://a.b/jobs/x2?sig=1")
        assert not issubclass(UnknownRequestError, Exception)
        assert get("https://a.b/jobs/x3", "PUT").status_code == 200
        with pytest.raises(UnknownRequestError):
            get("https://a.b/jobs/x3", "PUT")
    assert found.unknown == ["GET https://a.b/jobs/x2", "PUT https://a.b/jobs/x3"]


def test_an_id_that_is_new_in_each_run_matches_and_a_known_one_does_not() -> None:
    found, _ = answers(exchange(f"https://a.b/codes/{OURS}/versions?hash=x1", {"n": 1}))
    with found.in_place():
        assert get(f"https://a.b/codes/{FRESH}/versions?hash=0f").json() == {"n": 1}
        with pytest.raises(UnknownRequestError):
            get(f"https://a.b/codes/{OURS[:-1]}7/versions")


def test_failures_are_those_of_the_recording() -> None:
    found, _ = answers(
        exchange("https://a.b/1", status=None, error=["MaxRetryError", "NewConnectionError"]),
        exchange("https://a.b/2", status=None, error=["ReadTimeoutError"]),
        exchange("https://a.b/3", {"a": 1}, error=["ProtocolError"]),
        exchange("https://a.b/4", body={"same": 2}),
        exchange("https://a.b/5", status=503, headers={"retry-after": "7"}),
    )
    found._exchange[3]["body"] = {"same": 2}
    with found.in_place():
        for number, error in (
            (1, requests.ConnectionError),
            (2, requests.ReadTimeout),
            (3, requests.exceptions.ChunkedEncodingError),
        ):
            with pytest.raises(error):
                get(f"https://a.b/{number}")
        assert get("https://a.b/4").json() == {"a": 1}
        refused = get("https://a.b/5")
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "7")


def test_time_is_virtual_in_the_block_and_real_after_it() -> None:
    clock, began = VirtualTime(1000.0), time.monotonic()
    with clock.in_place():
        time.sleep(3600.0)
        assert (time.monotonic(), time.time()) == (3600.0, 4600.0)
        assert time.clock_gettime(time.CLOCK_BOOTTIME) == 3600.0
    assert time.monotonic() - began < 60
    assert time.time() > 1e9


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("https://a/b?x=1&y=2", "https://a/b/?y=2&x=1", True),
        ("https://a/b?x=1&sig=1&se=5", "https://a/b?x=1&sig=2&se=6", True),
        ("https://a/b?x=1", "https://a/b?x=2", False),
        ("https://a/b", "https://c/b", False),
    ],
)
def test_keys_of_addresses(one: str, other: str, same: bool) -> None:
    assert (address_key(one) == address_key(other)) is same


@pytest.mark.parametrize(("length", "lines"), [(0, 0), (10, 0), (10, 3), (1, 1), (5, 9), (1000, 7)])
def test_a_filler_has_the_recorded_length_and_lines(length: int, lines: int) -> None:
    text = filler(length, lines)
    assert len(text) == length
    assert text.count(b"\n") == min(lines, length)


def event(name: str, **fields: Any) -> dict[str, Any]:
    return {"event": name, **fields}


def test_the_first_event_that_differs_is_named() -> None:
    one = [
        event("stage-started", stage="gate"),
        event("notice", text="a"),
        event("rule-decided", metric="a", verdict="met"),
    ]
    assert first_difference(one, [one[0], one[2]]) == ""
    missed = {**one[2], "verdict": "missed"}
    wanted = "event 2: recorded rule-decided metric=a verdict=met, replayed rule-decided metric=a verdict=missed"
    assert first_difference(one, [one[0], missed]) == wanted
    assert first_difference(one, one[:1]).endswith("replayed the end of the run")


def test_an_ending_is_reproduced_by_status_code_defect_and_stages() -> None:
    passed, defect = Ending(status="passed", exit_code=0), Ending(status=None, exit_code=None, defect="KeyError")
    assert Replay(recorded=passed, replayed=passed, difference="").reproduced
    assert not Replay(recorded=passed, replayed=passed, difference="event 1").reproduced
    assert not Replay(recorded=passed, replayed=passed, difference="", unknown=("GET a",)).reproduced
    assert not Replay(recorded=defect, replayed=passed, difference="").reproduced
    text = str(Replay(recorded=defect, replayed=passed, difference=""))
    assert text.startswith("not reproduced\nrecorded  a defect: KeyError\nreplayed  passed (exit code 0)")
    beyond = Replay(
        recorded=defect, replayed=Ending(status=BEYOND, exit_code=None), difference="", unknown=("GET a",)
    )
    assert not beyond.reproduced
    assert "replayed  beyond the recording: it sent a request that is not in the bundle\nunknown   GET a" in str(
        beyond
    )


def test_events_and_errors_come_back_as_classes() -> None:
    found = event_of(event("stage-started", stage="tests", title="a", at="x", seconds=1.0))
    assert found is not None
    assert (found.name, vars(found)["stage"]) == ("stage-started", "tests")
    assert event_of(event("log-lines", lines=3)) is None
    error = error_of({"type": "TestsFailedError", "status": "tests-failed", "message": "two", "hint": None})
    assert (type(error).__name__, error.exit_code, error.message) == ("TestsFailedError", 4, "two")
    assert error_of({"type": "os", "status": "gate-failed", "message": "a"}).exit_code == 6


def test_the_target_builds_what_the_recording_built_or_fails_as_it_did() -> None:
    tested = Tested(
        reference=ImageRef.parse("x1.azurecr.io/x2@sha256:" + "0" * 64),
        digest="sha256:" + "0" * 64,
        address="0" * 64,
        how="built",
        record=None,
        compressed_bytes=7,
    )
    began, ended = event("stage-started", stage="image", title="a"), event("notice", text="b", level="warning")
    failed = {"type": "ImageError", "status": "image-failed", "message": "no", "hint": "do"}
    calls = [
        {"part": "open", "first_event": 0, "after_event": 0},
        {"part": "image", "first_event": 1, "after_event": 3, "result": encode(tested)},
        {"part": "find-image", "first_event": 3, "after_event": 3, "result": None},
        {"part": "image", "first_event": 3, "after_event": 3, "error": failed},
        {"part": "image", "first_event": 3, "after_event": 3, "error": {"interrupted": True}},
        {"part": "image", "first_event": 3, "after_event": 3, "error": {"defect": "KeyError"}},
    ]
    seen: list[str] = []
    bundle = Bundle(
        facts={}, config=None, plan=None, options=None, calls=calls, events=[{"event": "cut"}, began, ended]
    )

    def interrupt() -> NoReturn:
        raise KeyboardInterrupt

    images = RecordedImages(bundle, lambda one: seen.append(one.name), interrupt)
    assert images.next("image") == tested
    assert seen == ["stage-started", "notice"]
    with pytest.raises(ImageError, match="no"):
        images.next("image")
    assert images.next("find-image") is None
    with pytest.raises(KeyboardInterrupt):
        images.next("image")
    with pytest.raises(ReplayError, match="A defect ended the target's part image, KeyError"):
        images.next("image")
    with pytest.raises(ReplayError, match="more often than in the recording"):
        images.next("image")


def test_files_are_made_in_the_folder_and_nowhere_else(tmp_path: Path) -> None:
    good = FileSet(root=Path("/x1/src"), entries=(FileEntry(path="a/b.py", executable=False, size=7),))
    found = written(good, tmp_path / "code")
    assert [(path.relative_to(tmp_path).as_posix(), path.stat().st_size) for path in tmp_path.rglob("*.py")] == [
        ("code/a/b.py", 7)
    ]
    assert found.contents.keys() == {"a/b.py"}
    for name in ("../b.py", "/etc/b.py", "a/../../b.py"):
        bad = FileSet(root=Path("/x1"), entries=(FileEntry(path=name, executable=False, size=1),))
        with pytest.raises(ReplayError, match="names a file outside of its folder"):
            written(bad, tmp_path / f"bad-{name.count('.')}-{len(name)}")


@pytest.mark.parametrize("content", [b"", b"PK", b"no zip"])
def test_a_file_that_is_no_bundle_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bundle.zip"
    path.write_bytes(content)
    with pytest.raises(ReplayError, match="is no bundle of a recorded run"):
        read_bundle(path)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"bundle": {"format": 1}}, "the bundle has the format 1, and this version reads 2"),
        ({"bundle": []}, "the bundle has the format None"),
        ({"plan": None}, "the run ended before it had a plan, as invalid: there is nothing to replay"),
        ({"plan": {"$type": "os:system"}}, "os:system is no class of aml-train"),
        ({"config": {}}, "it holds no Config. The bundle was written by aml-train 0, and this is"),
    ],
)
def test_a_bundle_that_cannot_be_replayed_says_why(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    facts = {"format": 2, "ending": {"status": "invalid"}, "versions": {"aml-train": "0"}}
    documents = {"bundle": facts, "config": {}, "plan": {}, "options": {}, "calls": [], "events": [], "exchange": []}
    path = tmp_path / "bundle.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, value in {**documents, **changed}.items():
            archive.writestr(f"{name}.json", json.dumps(value))
    with pytest.raises(ReplayError, match=message):
        read_bundle(path)
