"""One project, each builder: the same address, record and job, and tests that ran in the pushed digest."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from aml_train.azure.acr import find_registry
from aml_train.azure.http import HttpWay, WorkspaceId
from aml_train.azure.sign_in import sign_in_to_azure
from aml_train.azure.workspace import AzureRest
from aml_train.image.push import push_image
from aml_train.image.records import RECORD_TYPE, parse_record
from aml_train.image.registry.client import Registry
from aml_train.image.registry.documents import load_document
from aml_train.image.spec import TestRecord
from tests.integration.conftest import BASE
from tests.integration.image.disposable_engine import disposable_engine, missing
from tests.support.emulator_process import Emulator, running
from tests.support.registry_process import executable

if TYPE_CHECKING:
    from docker import DockerClient

SECONDS = 600
CHECK = """\
import os, pathlib, socket
here = pathlib.Path(__file__).parent
assert pathlib.Path("/etc/built").read_text() == "yes\\n"
assert os.environ["GIVEN"] == "a 'b' $c"
assert (here / "data.txt").read_text() == "beside\\n"
print("the tests ran", flush=True)
pathlib.Path("/workspace/written").write_text("as this user")
pathlib.Path("report.xml").write_text(
    '<testsuite tests="2" failures="0"><testcase classname="c" name="a" time="0.1"/><testcase classname="c" name="b"/></testsuite>'
)
"""


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    with running(Emulator(tmp_path_factory.mktemp("emulator"))) as service:
        yield service


@pytest.fixture(scope="module")
def base(emulator: Emulator, engine: DockerClient) -> Iterator[str]:
    """A base in the registry, which every builder can pull."""
    repository = f"localhost:{emulator.registry_port}/base"
    engine.images.get(BASE).tag(repository, "1")
    push_image(engine, repository, "1", auth=None, listener=lambda _event: None)
    yield f"{repository}:1"
    engine.images.remove(f"{repository}:1", noprune=True)


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a command ended."""

    code: int
    errors: str
    events: tuple[dict[str, Any], ...]

    def event(self, name: str) -> dict[str, Any]:
        """Return the last event of that name."""
        return [one for one in self.events if one["event"] == name][-1]

    @property
    def lines(self) -> list[str]:
        return [one["text"] for one in self.events if one["event"] == "log-line" and one["source"] == "tests"]


def write_project(folder: Path, base: str, emulator: Emulator, builder: str, repository: str) -> None:
    (folder / "tests").mkdir(parents=True, exist_ok=True)
    (folder / "tests" / "check.py").write_text(CHECK)
    (folder / "tests" / "data.txt").write_text("beside\n")
    (folder / "src").mkdir(exist_ok=True)
    (folder / "src" / "train.py").write_text("print('trained')\n")
    (folder / "copied.txt").write_text("yes\n")
    info = emulator.info
    (folder / "aml-train.yml").write_text(
        f"""\
job:
  command: python train.py
  code: src
  compute: azureml:local-cluster
image:
  base: {base}
  builder: {builder}
  repository: {repository}
  copy: [{{from: copied.txt, to: /etc/built}}]
  run: ["echo step > /step"]
  tags: []
tests:
  command: python tests/check.py
  files: [tests]
  junit: report.xml
  env: {{GIVEN: "a 'b' $c"}}
target: azure
targets:
  azure:
    subscription-id: {info["subscription_id"]}
    resource-group: {info["resource_group"]}
    workspace: {info["workspace"]}
    push-registry: localhost:{emulator.registry_port}
"""
    )


def aml_train(emulator: Emulator, folder: Path, *arguments: str, environ: dict[str, str] | None = None) -> Ended:
    events = folder.parent / f"{folder.name}.jsonl"
    done = subprocess.run(
        [sys.executable, "-m", "aml_train", *arguments, "--events", str(events)],
        cwd=folder,
        env={**emulator.environment(), "AML_TRAIN_SIGN_IN": "secret", **(environ or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    lines = events.read_text().splitlines() if events.exists() else []
    return Ended(code=done.returncode, errors=done.stdout + done.stderr, events=tuple(map(json.loads, lines)))


@pytest.fixture(scope="module")
def first(emulator: Emulator, base: str, tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """The project as this machine's engine builds it."""
    folder = tmp_path_factory.mktemp("first") / "project"
    write_project(folder, base, emulator, "local", "one/local")
    ended = aml_train(emulator, folder, "run")
    assert ended.code == 0, ended.errors
    return ended


@contextlib.contextmanager
def another_engine(emulator: Emulator, folder: Path) -> Iterator[dict[str, str]]:
    """Give a second engine in a separate network, to which the registry is known by the same name.

    The Docker context ``another`` names it.
    """
    folder.mkdir()
    port, data = emulator.registry_port, emulator.folder / "data" / "registry"
    with disposable_engine(disk=3 << 30) as engine:
        config = folder / "registry.yml"
        config.write_text(
            f"version: 0.1\nstorage: {{filesystem: {{rootdirectory: {data}}}}}\nhttp: {{addr: '127.0.0.1:{port}'}}\n"
        )
        served = subprocess.Popen(
            engine.inside([executable(), "serve", str(config)]), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        environ = {"DOCKER_CONFIG": str(folder / "docker")}
        host = f"host={engine.environ['DOCKER_HOST']}"
        subprocess.run(
            ["docker", "context", "create", "another", "--docker", host],
            env={**os.environ, **environ},
            check=True,
            stdout=subprocess.DEVNULL,
        )
        try:
            yield environ
        finally:
            left = engine.client().containers.list(all=True)
            served.terminate()
            served.wait(SECONDS)
        assert left == []


BUILDERS = [
    pytest.param("acr", id="acr"),
    pytest.param(
        "{kind: remote, context: another}",
        id="remote",
        marks=pytest.mark.skipif(missing() is not None, reason=f"no engine of the test's own: {missing()}"),
    ),
]


@pytest.mark.parametrize("builder", BUILDERS)
def test_one_project_is_the_same_image_and_job_from_each_builder(
    emulator: Emulator, base: str, first: Ended, tmp_path: Path, builder: str
) -> None:
    folder, name = tmp_path / "project", f"one/{'acr' if builder == 'acr' else 'remote'}"
    write_project(folder, base, emulator, builder, name)
    place: contextlib.AbstractContextManager[dict[str, str]] = contextlib.nullcontext({})
    if "remote" in builder:
        place = another_engine(emulator, tmp_path / "engine")
    with place as environ:
        ended = aml_train(emulator, folder, "run", environ=environ)
    assert ended.code == 0, ended.errors
    ready, expected = ended.event("image-ready"), first.event("image-ready")
    assert (ready["how"], ready["address"]) == ("built", expected["address"])
    assert ready["digest"] != expected["digest"]  # it was built again, elsewhere
    assert "the tests ran" in ended.lines
    finished = ended.event("tests-finished")
    assert (finished["passed"], finished["failed"], finished["cached"]) == (2, 0, False)
    with Registry(f"http://localhost:{emulator.registry_port}", same_machine=True) as registry:
        ours, others = (recorded(registry, one) for one in (name, "one/local"))
        assert registry.tags(f"{name}-candidate") == []
        manifest = registry.get_manifest(name, ready["digest"])
        assert manifest is not None
    # The very digest that the registry has was tested, and the job ran in it.
    assert (ours.digest, others.digest) == (ready["digest"], expected["digest"])
    different = {"digest", "key", "at", "seconds", "facts"}
    assert {key: value for key, value in vars(ours).items() if key not in different} == {
        key: value for key, value in vars(others).items() if key not in different
    }
    assert ours.facts["python_packages"] == others.facts["python_packages"]
    assert ours.facts["image"].keys() == others.facts["image"].keys()
    job = rest_of(emulator).find_job(ended.event("job-named")["job"])
    assert job is not None
    assert job.text("properties.status") == "Completed"


def recorded(registry: Registry, repository: str) -> TestRecord:
    """Return the only record of tests in a repository."""
    [tag] = [tag for tag in registry.tags(repository) if tag.startswith("test-")]
    content = load_document(registry, repository, tag, media_type=RECORD_TYPE, noun="", hint="")
    assert content is not None
    return parse_record(content)


def build(emulator: Emulator, folder: Path, *arguments: str) -> Ended:
    return aml_train(emulator, folder, "image", "build", *arguments)


def rest_of(emulator: Emulator) -> AzureRest:
    """Return a client of the workspace."""
    variables, info = {**emulator.environment(), "AML_TRAIN_SIGN_IN": "secret"}, emulator.info
    way = HttpWay(proxy=variables["HTTPS_PROXY"], ca_bundle=variables["REQUESTS_CA_BUNDLE"])
    place = WorkspaceId(
        subscription_id=info["subscription_id"], resource_group=info["resource_group"], name=info["workspace"]
    )
    return AzureRest(place, sign_in_to_azure(variables, options=way.azure_options()), session=way.session())


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
        repository = f"acr/{project.parent.name.lower().replace('_', '-')}"
        assert registry.tags(repository) == []
        assert registry.tags(f"{repository}-candidate") == []


def test_tests_that_take_too_long_there_are_killed(emulator: Emulator, project: Path) -> None:
    (project / "tests" / "check.py").write_text("import time\ntime.sleep(600)\n")
    ended = build(emulator, project, "--set", "tests.timeout=3")
    assert ended.code == 4, ended.errors
    assert "took longer than 3 seconds" in ended.errors


def test_a_step_that_fails_there_is_named(emulator: Emulator, project: Path) -> None:
    ended = build(emulator, project, "--set", "image.run=[echo before; exit 3]")
    assert ended.code == 3, ended.errors
    assert "ACR Tasks of amllocal.azurecr.io: the image's step 'RUN echo before; exit 3' failed" in ended.errors
    assert runs(emulator)[0] == "Failed"


def test_secrets_never_leave_this_machine(emulator: Emulator, project: Path) -> None:
    count = len(runs(emulator))
    ended = build(emulator, project, "--set", "image.secrets.token.env=TOKEN")
    assert ended.code == 2, ended.errors
    assert "`image.secrets` and the builder `acr` exclude each other: ACR Tasks would take a secret" in ended.errors
    assert len(runs(emulator)) == count


def test_a_lost_answer_does_not_build_twice(emulator: Emulator, project: Path) -> None:
    count = len(runs(emulator))
    emulator.admin("POST", "faults?kind=reset&after=1&method=POST&path=*/scheduleRun&count=1").raise_for_status()
    try:
        ended = build(emulator, project)
    finally:
        emulator.admin("DELETE", "faults").raise_for_status()
    assert ended.code == 0, ended.errors
    assert "Whether the run was scheduled is looked up" in ended.errors
    assert len(runs(emulator)) == count + 2  # the build and the tests


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
            "--json",
            str(events),
        ],
        cwd=project,
        env={**emulator.environment(), "AML_TRAIN_SIGN_IN": "secret"},
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
