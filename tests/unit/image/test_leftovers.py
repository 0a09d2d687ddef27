from __future__ import annotations

import os
import re
from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import APIError

from aml_train.core.events import Event, Notice
from aml_train.core.temporary import Life, Owner, life_of, process_start, this_machine
from aml_train.image.leftovers import (
    candidate_tag,
    container_labels,
    lease_of_image,
    lease_of_labels,
    sweep_leftovers,
    this_owner,
)

HERE, THERE = "0123456789ab", "ba9876543210"
RUNNING = ["c0ffee00c0ff" + "0" * 52]
FIRST = Owner(machine=THERE, pid=1, start=7, container="c0ffee00c0ff")


@pytest.mark.parametrize(
    "owner",
    [
        Owner(machine=HERE, pid=1, start=0, container=None),
        Owner(machine=HERE, pid=4194304, start=99999999999, container="c0ffee00c0ff"),
    ],
)
def test_an_owner_is_read_as_it_was_written(owner: Owner) -> None:
    assert Owner.parse(str(owner)) == owner


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0" * 32,
        f"{HERE}.1.2",
        f"{HERE}.1.2.nowhere",
        f"{HERE}.x.2.host",
        f"{HERE}.1.2.host\n",
        f"{HERE}.{'9' * 5000}.2.host",
    ],
)
def test_anything_else_is_nobody(text: str) -> None:
    assert Owner.parse(text) is None


@pytest.mark.parametrize(
    ("owner", "expected"),
    [
        (Owner(machine=HERE, pid=10, start=7, container=None), "alive"),
        (Owner(machine=HERE, pid=10, start=6, container=None), "dead"),  # the pid was given to another process
        (Owner(machine=HERE, pid=11, start=7, container=None), "dead"),
        (Owner(machine=HERE, pid=12, start=7, container=None), "unknown"),
        (
            Owner(machine=HERE, pid=11, start=7, container="c0ffee00c0ff"),
            "dead",
        ),  # the container runs, the process does not
        (Owner(machine=THERE, pid=10, start=7, container=None), "unknown"),
        (FIRST, "alive"),
        (Owner(machine=THERE, pid=10, start=7, container="c0ffee00c0ff"), "unknown"),
        (Owner(machine=THERE, pid=1, start=7, container="dead00000000"), "dead"),
    ],
)
def test_whether_an_owner_lives(owner: Owner, expected: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    processes: dict[int, int | None] = {10: 7, 12: -1}
    monkeypatch.setattr("aml_train.core.temporary.this_machine", lambda: HERE)
    monkeypatch.setattr("aml_train.core.temporary.process_start", processes.get)
    assert life_of(owner, RUNNING) == expected


def test_this_process_lives_and_others_do_not() -> None:
    started = process_start(os.getpid())
    assert started is not None
    assert started > 0
    assert process_start(2**22 + 1) is None
    assert process_start(2**40) is None
    assert re.fullmatch("[0-9a-f]{12}", this_machine())


class Engine:
    """An engine's list of what is there, and of what is removed."""

    def __init__(self, containers: dict[str, dict[str, str]], images: list[str], running: list[str]) -> None:
        self.api = SimpleNamespace(
            containers=self._containers,
            images=lambda filters: [{"RepoTags": [name]} for name in images] + [{"RepoTags": None}],
            remove_container=self._remove,
            remove_image=self._remove,
        )
        self._listed = containers
        self._running = running
        self.removed: list[str] = []
        self.refused: dict[str, APIError] = {}

    def _containers(self, **options: Any) -> list[dict[str, Any]]:
        if not options:
            return [{"Id": identity} for identity in self._running]
        assert options == {"all": True, "filters": {"label": ["org.aml-train.owner"]}}
        return [{"Id": identity, "Labels": labels} for identity, labels in self._listed.items()]

    def _remove(self, name: str, **_: Any) -> None:
        if name in self.refused:
            raise self.refused[name]
        self.removed.append(name)


def _labels(owner: str, until: int) -> dict[str, str]:
    return {"org.aml-train.owner": owner, "org.aml-train.lease": str(until), "org.aml-train.kind": "tests"}


PAST, FUTURE = 1, 2**40
DEAD = Owner(machine=THERE, pid=1, start=7, container="dead00000000")
UNKNOWN = Owner(machine=THERE, pid=5, start=7, container=None)


def test_the_dead_and_the_expired_are_swept_and_never_the_living() -> None:
    containers = {
        "dead": _labels(str(DEAD), FUTURE),
        "alive": _labels(str(FIRST), PAST),
        "unknown": _labels(str(UNKNOWN), FUTURE),
        "expired": _labels(str(UNKNOWN), PAST),
        "former": _labels("0" * 32, FUTURE),
        "without": {"org.aml-train.owner": str(DEAD)},
    }
    images = [
        f"localhost:1/a-candidate:candidate-{DEAD}.{FUTURE}.abc",
        f"localhost:1/a-candidate:candidate-{FIRST}.{PAST}.abc",
        f"localhost:1/b/c-candidate:candidate-{UNKNOWN}.{PAST}.abc",
        "localhost:1/a-candidate:candidate-0123456789abcdef",
        f"localhost:1/a:candidate-{DEAD}.{FUTURE}.abc",
        f"localhost:1/a-candidate:my-candidate-{DEAD}.{FUTURE}.abc",
    ]
    engine, told = Engine(containers, images, RUNNING), list[Event]()
    sweep_leftovers(engine, told.append)  # type: ignore[arg-type]
    assert engine.removed == ["dead", "expired", images[0], images[2]]
    (notice,) = told
    assert isinstance(notice, Notice)
    assert notice.text == (
        "Removed what a killed run had left on the engine: the container dead, the container expired, "
        f"the image {images[0]}, the image {images[2]}"
    )


def test_what_cannot_be_removed_is_told_and_the_rest_is_removed() -> None:
    class RefusalError(APIError):
        def __init__(self, status: int, explanation: str) -> None:
            super().__init__(explanation, explanation=explanation)
            self._status = status

        @property
        def status_code(self) -> int:
            return self._status

    dead = _labels(str(DEAD), FUTURE)
    engine, told = Engine(dict.fromkeys(("gone", "used", "going", "stuck", "last"), dead), [], []), list[Event]()
    engine.refused = {
        "gone": RefusalError(404, "No such container"),
        "used": RefusalError(409, "container a is using its referenced image b"),
        "going": RefusalError(409, "removal of container going is already in progress"),
        "stuck": RefusalError(500, "device or resource busy"),
    }
    sweep_leftovers(engine, told.append)  # type: ignore[arg-type]
    assert engine.removed == ["last"]
    warning, notice = told
    assert isinstance(warning, Notice)
    assert isinstance(notice, Notice)
    assert warning.level == "warning"
    assert warning.text == "A killed run left the container stuck, which cannot be removed: device or resource busy"
    assert notice.text.endswith("on the engine: the container last")


def test_labels_and_tags_carry_owner_and_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aml_train.image.leftovers.in_container", lambda: False)
    monkeypatch.setattr("aml_train.image.leftovers.time.time", lambda: 1000.7)
    engine: Any = object()
    owner = this_owner(engine)
    assert (owner.pid, owner.machine, owner.container) == (os.getpid(), this_machine(), None)
    assert life_of(owner, running=[]) == "alive"
    labels = container_labels(engine, "tests", 60)
    assert labels["org.aml-train.kind"] == "tests"
    lease = lease_of_labels(labels)
    assert lease is not None
    assert (lease.owner, lease.until) == (owner, 1060)
    for odd in ("", "soon", "\u00b2", "9" * 5000):
        assert lease_of_labels({**labels, "org.aml-train.lease": odd}) is None

    tag = candidate_tag(engine, 60)
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", tag), "what the engine takes as a tag"
    assert candidate_tag(engine, 60) != tag
    assert lease_of_image(f"localhost:7381/team/digits-candidate:{tag}") == lease
