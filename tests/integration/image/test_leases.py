"""Owners that live and die for real, and what a sweep does with what they made."""

from __future__ import annotations

import contextlib
import json
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from docker.errors import NotFound

from aml_train.core.events import Event, Notice
from aml_train.core.temporary import process_start
from aml_train.image.leftovers import LABEL_LEASE, container_labels, sweep_leftovers
from tests.integration.conftest import BASE, Recorder

if TYPE_CHECKING:
    from docker import DockerClient

# Whoever else runs the pipeline here sweeps too, and would be quicker.
pytestmark = pytest.mark.alone

MAKE = """
import json, os, sys
from aml_train.core.docker import connect_engine
from aml_train.image.leftovers import candidate_tag, container_labels

engine = connect_engine(os.environ)
base, repository = sys.argv[1:]
container = engine.containers.create(base, ["sleep", "6000"], labels=container_labels(engine, "tests", 3600))
container.start()
name = f"{repository}:{candidate_tag(engine, 3600)}"
assert engine.images.get(base).tag(*name.rsplit(":", 1))
print(json.dumps({"container": container.id, "image": name}), flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True)
class Made:
    """A process, and what it has made."""

    process: subprocess.Popen[str]
    container: str
    image: str

    def there(self, engine: DockerClient) -> tuple[bool, bool]:
        """Tell whether the container and the image are still there."""
        containers = {item["Id"] for item in engine.api.containers(all=True)}
        return self.container in containers, bool(engine.images.list(name=self.image))


@pytest.fixture
def make(engine: DockerClient) -> Iterator[Any]:
    made: list[Made] = []

    def start() -> Made:
        # As deep as a repository with the registry's name may be, and one that no other test has.
        repository = f"localhost:9/team/{secrets.token_hex(6)}-candidate"
        process = subprocess.Popen(
            [sys.executable, "-c", MAKE, BASE, repository], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        found = json.loads(process.stdout.readline())
        made.append(Made(process, found["container"], found["image"]))
        return made[-1]

    yield start
    for item in made:
        item.process.kill()
        item.process.communicate()
        with contextlib.suppress(NotFound):
            engine.containers.get(item.container).remove(force=True)
        if engine.images.list(name=item.image):
            engine.images.remove(item.image, noprune=True)


def test_what_a_killed_process_left_is_swept_and_what_a_living_one_has_is_not(
    engine: DockerClient, make: Any, recorder: Recorder
) -> None:
    killed, living = make(), make()
    sweep_leftovers(engine, recorder)
    assert killed.there(engine) == living.there(engine) == (True, True)

    killed.process.kill()
    # Nobody has asked for its exit code yet: its remains are no life.
    deadline = time.monotonic() + 120
    while process_start(killed.process.pid) is not None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    sweep_leftovers(engine, recorder)
    assert killed.there(engine) == (False, False)
    assert living.there(engine) == (True, True)
    assert any("Removed what a killed run had left" in notice.text for notice in recorder.of(Notice))
    assert engine.images.get(BASE).id, "only the candidate's name goes, not the image"


def test_an_owner_of_another_machine_has_its_lease(engine: DockerClient, recorder: Recorder) -> None:
    labels = {**container_labels(engine, "tests", 3600), "org.aml-train.owner": f"{'0' * 12}.17.5.host"}
    leased = engine.containers.create(BASE, ["true"], labels=labels)
    expired = engine.containers.create(BASE, ["true"], labels={**labels, LABEL_LEASE: "1000"})
    try:
        sweep_leftovers(engine, recorder)
        leased.reload()
        with pytest.raises(NotFound):
            expired.reload()
    finally:
        leased.remove(force=True)


def test_sweeps_at_once_do_not_disturb_each_other(engine: DockerClient, make: Any) -> None:
    from concurrent.futures import ThreadPoolExecutor

    killed = [make() for _ in range(3)]
    for item in killed:
        item.process.kill()
        item.process.wait()
    told: list[Event] = []
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: sweep_leftovers(engine, told.append), range(4)))
    assert [item.there(engine) for item in killed] == [(False, False)] * 3
    assert not [event for event in told if isinstance(event, Notice) and event.level == "warning"], told
