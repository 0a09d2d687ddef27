"""One project, each builder: the same address, record and job, and tests that ran in the pushed digest."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from aml_train.azure.acr import find_registry
from aml_train.image.registry.client import Registry
from tests.integration.image.builder_project import (
    SECONDS,
    Ended,
    aml_train,
    check_same,
    pushed_base,
    registry_inside,
    rest_of,
    run_project,
    write_project,
)
from tests.integration.image.disposable_engine import disposable_engine, missing
from tests.support.emulator_process import Emulator, running

if TYPE_CHECKING:
    from docker import DockerClient


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    with running(Emulator(tmp_path_factory.mktemp("emulator"))) as service:
        yield service


@pytest.fixture(scope="module")
def base(emulator: Emulator, engine: DockerClient) -> Iterator[str]:
    with pushed_base(emulator, engine) as name:
        yield name


@pytest.fixture(scope="module")
def first(emulator: Emulator, base: str, tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """The project as this machine's engine builds it."""
    folder = tmp_path_factory.mktemp("first") / "project"
    ended = run_project(emulator, folder, base, "local", "one/local")
    assert ended.code == 0, ended.errors
    return ended


@contextlib.contextmanager
def another_engine(emulator: Emulator, folder: Path) -> Iterator[str]:
    """Give the address of a second engine in a separate network, to which the registry is known by the same name."""
    folder.mkdir()
    with disposable_engine(disk=3 << 30) as engine, registry_inside(engine, emulator, folder):
        yield engine.environ["DOCKER_HOST"]
        left = engine.client().containers.list(all=True)
    assert left == []


BUILDERS = [
    pytest.param("acr", id="acr"),
    pytest.param(
        "remote",
        id="remote",
        marks=pytest.mark.skipif(missing() is not None, reason=f"no engine of the test's own: {missing()}"),
    ),
]


@pytest.mark.full
@pytest.mark.parametrize("builder", BUILDERS)
def test_one_project_is_the_same_image_and_job_from_each_builder(
    emulator: Emulator, base: str, first: Ended, tmp_path: Path, builder: str
) -> None:
    folder, name = tmp_path / "project", f"one/{builder}"
    place: contextlib.AbstractContextManager[str] = contextlib.nullcontext("")
    if builder == "remote":
        place = another_engine(emulator, tmp_path / "engine")
    with place as host:
        ended = run_project(emulator, folder, base, f"{{kind: remote, engine: '{host}'}}" if host else builder, name)
    check_same(emulator, ended, first, name, "one/local")


def build(emulator: Emulator, folder: Path, *arguments: str) -> Ended:
    return aml_train(emulator, folder, "image", "build", *arguments)


def runs(emulator: Emulator) -> list[str]:
    """Return the states of the runs of ACR Tasks, newest first."""
    rest = rest_of(emulator)
    registry = find_registry(rest, "amllocal.azurecr.io")
    assert registry is not None
    address = f"https://management.azure.com{registry.text('id')}/runs"
    found = rest.items(address, "Listing the runs", params={"api-version": "2019-06-01-preview"})
    return [one.text("properties.status") for one in found]


@pytest.fixture
def project(emulator: Emulator, base: str, tmp_path: Path) -> Path:
    """A project that ACR Tasks build, with a repository that no other test uses."""
    folder = tmp_path / "project"
    write_project(folder, base, emulator, "acr", f"acr/{tmp_path.name.lower().replace('_', '-')}")
    return folder


@pytest.mark.full
def test_a_found_image_without_a_record_is_tested_where_it_is_built(emulator: Emulator, project: Path) -> None:
    assert build(emulator, project).code == 0
    count = len(runs(emulator))
    again = build(emulator, project)
    assert (again.code, again.event("tests-finished")["cached"], len(runs(emulator))) == (0, True, count)
    check = project / "tests" / "check.py"
    check.write_text(check.read_text().replace("the tests ran", "the new tests ran"))
    ended = build(emulator, project)
    assert ended.code == 0, ended.errors
    assert ended.event("image-ready")["how"] == "found"
    assert "the new tests ran" in ended.lines
    assert len(runs(emulator)) == count + 1


@pytest.mark.full
def test_tests_that_fail_there_release_nothing(emulator: Emulator, project: Path) -> None:
    (project / "tests" / "check.py").write_text(
        "import pathlib\n"
        'pathlib.Path(\'report.xml\').write_text(\'<testsuite tests="1" failures="1">'
        '<testcase classname="c" name="wrong"><failure message="no"/></testcase></testsuite>\')\n'
        "raise SystemExit(1)\n"
    )
    ended = build(emulator, project)
    assert ended.code == 4, ended.errors
    assert "1 of 1 tests failed in the image" in ended.errors
    with Registry(f"http://localhost:{emulator.registry_port}", same_machine=True) as registry:
        repository = f"acr/{project.parent.name.lower().replace('_', '-')}-proposals"
        assert registry.tags(repository) == []
        assert registry.tags(f"{repository}-candidate") == []


@pytest.mark.full
def test_tests_that_take_too_long_there_are_killed(emulator: Emulator, project: Path) -> None:
    (project / "tests" / "check.py").write_text("import time\ntime.sleep(600)\n")
    ended = build(emulator, project, "--set", "tests.timeout=3")
    assert ended.code == 4, ended.errors
    assert "took longer than 3 seconds" in ended.errors


def test_secrets_never_leave_this_machine(emulator: Emulator, project: Path) -> None:
    count = len(runs(emulator))
    ended = build(emulator, project, "--set", "image.secrets.token.env=TOKEN")
    assert ended.code == 2, ended.errors
    assert "`image.secrets` and the builder `acr` exclude each other: ACR Tasks would take a secret" in ended.errors
    assert len(runs(emulator)) == count


@pytest.mark.full
def test_an_interrupted_build_is_cancelled_there(emulator: Emulator, project: Path) -> None:
    events = project / "events.jsonl"
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "aml_train",
            "image",
            "build",
            "--set",
            "image.run=[sleep 300]",
            "--events",
            str(events),
        ],
        cwd=project,
        env=emulator.workspace_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_until(lambda: events.exists() and "RUN sleep 300" in events.read_text())
    process.send_signal(signal.SIGINT)
    assert process.wait(SECONDS) in (7, 130, -signal.SIGINT)
    wait_until(lambda: runs(emulator)[0] == "Canceled")


def wait_until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.1)
