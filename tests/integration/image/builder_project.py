"""One project for each builder: how it is written, run, and compared with what another builder made of it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aml_train.azure.names import WorkspaceId
from aml_train.azure.sign_in import sign_in_to_azure
from aml_train.azure.workspace import AzureRest
from aml_train.image.push import push_image
from aml_train.image.records import RECORD_TYPE, parse_record
from aml_train.image.registry.client import Registry
from aml_train.image.registry.referrers import load_document
from aml_train.image.spec import TestRecord
from aml_train.local.target import EmulatorSession
from tests.integration.conftest import BASE
from tests.integration.image.disposable_engine import DisposableEngine
from tests.support.emulator_process import Emulator
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


@contextlib.contextmanager
def pushed_base(emulator: Emulator, engine: DockerClient) -> Iterator[str]:
    """Give a base in the registry, which every builder can pull."""
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
        env=emulator.workspace_environment(**(environ or {})),
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    lines = events.read_text().splitlines() if events.exists() else []
    return Ended(code=done.returncode, errors=done.stdout + done.stderr, events=tuple(map(json.loads, lines)))


@contextlib.contextmanager
def registry_inside(engine: DisposableEngine, emulator: Emulator, folder: Path) -> Iterator[None]:
    """Serve the emulator's registry inside an engine's walls, under the name that this machine has for it."""
    port, data = emulator.registry_port, emulator.folder / "data" / "registry"
    config = folder / "registry.yml"
    config.write_text(
        f"version: 0.1\nstorage: {{filesystem: {{rootdirectory: {data}}}}}\nhttp: {{addr: '127.0.0.1:{port}'}}\n"
    )
    served = subprocess.Popen(
        engine.inside([executable(), "serve", str(config)]), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        served.terminate()
        served.wait(SECONDS)


def run_project(emulator: Emulator, folder: Path, base: str, builder: str, repository: str) -> Ended:
    """Write the project, and train it in an image of *builder*."""
    write_project(folder, base, emulator, builder, repository)
    return aml_train(emulator, folder, "run")


def check_same(emulator: Emulator, ended: Ended, first: Ended, name: str, other: str) -> None:
    """Check that the image in the repository *name* is that of *other* in all but its bytes, and that its job ran."""
    assert ended.code == 0, ended.errors
    name, other = f"{name}-proposals", f"{other}-proposals"  # the project is in no git repository
    ready, expected = ended.event("image-ready"), first.event("image-ready")
    assert (ready["how"], ready["address"]) == ("built", expected["address"])
    assert ready["digest"] != expected["digest"]  # it was built again, elsewhere
    assert "the tests ran" in ended.lines
    finished = ended.event("tests-finished")
    assert (finished["passed"], finished["failed"], finished["cached"]) == (2, 0, False)
    with Registry(f"http://localhost:{emulator.registry_port}", same_machine=True) as registry:
        ours, others = (recorded(registry, one) for one in (name, other))
        assert registry.tags(f"{name}-candidate") == []
        manifest = registry.get_manifest(name, ready["digest"])
        assert manifest is not None
    # The very digest that the registry has was tested, and the job ran in it.
    assert (ours.digest, others.digest) == (ready["digest"], expected["digest"])
    different = {"digest", "key", "at", "seconds"}
    assert {key: value for key, value in vars(ours).items() if key not in different} == {
        key: value for key, value in vars(others).items() if key not in different
    }
    job = rest_of(emulator).find_job(ended.event("job-named")["job"])
    assert job is not None
    assert job.text("properties.status") == "Completed"


def recorded(registry: Registry, repository: str) -> TestRecord:
    """Return the only record of tests in a repository."""
    [tag] = [tag for tag in registry.tags(repository) if tag.startswith("test-")]
    content = load_document(registry, repository, tag, media_type=RECORD_TYPE, noun="", hint="")
    assert content is not None
    return parse_record(content)


def rest_of(emulator: Emulator) -> AzureRest:
    """Return a client of the workspace."""
    variables, info = emulator.workspace_environment(), emulator.info
    session = EmulatorSession(lambda: None, ca=Path(variables["REQUESTS_CA_BUNDLE"]), proxy=variables["HTTPS_PROXY"])
    place = WorkspaceId(
        subscription_id=info["subscription_id"], resource_group=info["resource_group"], name=info["workspace"]
    )
    return AzureRest(place, sign_in_to_azure(variables, session=session), session=session)
