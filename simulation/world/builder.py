"""The builder of this world: it pushes a manifest, and tests by a plan.

Only what an engine does is simulated: time passes, a new digest comes out of each build, tests write a report. Everything else is
the product's: candidates, the registry's client, the judgement of the report and of the facts, the record, the release.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from dataclasses import dataclass as value
from typing import TYPE_CHECKING, Any, Final, Literal

import docker.errors

from aml_train.config.sections.image_builder import BuilderConfig
from aml_train.core.events import LogLine, TestsFinished
from aml_train.image.builder import Builder, Candidate, Verified
from aml_train.image.builders.place import BuildPlace
from aml_train.image.builders.service import BuildService
from aml_train.image.context import ImageContext
from aml_train.image.readiness.check import parse_facts
from aml_train.image.readiness.facts import Facts
from aml_train.image.registry.manifest import Manifest
from aml_train.image.spec import TestSpec
from aml_train.image.testing.container import End
from aml_train.image.testing.junit import ClosingLines
from aml_train.image.testing.run import Written, conclude
from aml_train.image.verify import judge, start_checks
from aml_train.pipeline.target import Host

if TYPE_CHECKING:
    from simulation.world.project import Project

MANIFEST: Final = "application/vnd.docker.distribution.manifest.v2+json"
Moment = Literal["build", "push", "tests"]

_LEASE_SECONDS: Final = 3600.0
_LIBRARY: Final[Mapping[str, Any]] = {"status": "ok", "path": "/usr/lib/lib.so", "version": None, "error": None}
_ABSENT: Final[Mapping[str, Any]] = {"status": "absent", "path": None, "version": None, "error": None}
FACTS: Final[Mapping[str, Any]] = {
    "format": 1,
    "bash": "/usr/bin/bash",
    "python": {"version": "3.11.2", "path": "/usr/bin/python"},
    "commands": {"python": "/usr/bin/python", "mpirun": None},
    "user": {"uid": 0, "name": "root", "home": "/root", "home_writable": True, "tmp_writable": True},
    "certificates": 150,
    "environment": {"PATH": "/usr/bin:/bin"},
    "missing_files": [],
    "python_packages": {"azureml-mlflow": "1.62.0"},
    "system_packages": {},
    "azureml": ["azureml-mlflow"],
    "pip_check": [],
    "imports": {"azureml.mlflow": None},
    "libraries": dict.fromkeys(("libibverbs.so.1", "libfuse.so.2"), _LIBRARY),
    "mlx5": {"configured": True, "wanted": "libmlx5-rdmav34.so", "others": [], "library": _LIBRARY},
    "nccl": {"library": _ABSENT, "plugin": {**_ABSENT, "name": "libnccl-net.so"}},
    "cuda": None,
    "torch_cuda": None,
}
"""The facts that the probe reports of every image: it is ready for AzureML."""


@dataclass(frozen=True, kw_only=True)
class Tried:
    """The truth about one execution of a project's tests in an image."""

    digest: str
    key: str
    project: str
    passed: bool


@dataclass
class Container:
    """A container of the engine.

    Attributes:
        owner: the client that made it.
        until: the end of its lease, in seconds since the epoch.
    """

    owner: str
    kind: str
    until: float


@dataclass
class SimulatedEngine:
    """The engine that all clients build with.

    Attributes:
        containers: what is there now.
        tried: every execution of tests.
        builds: number of finished builds.
        dies: takes the engine away at the given moment of a client's work, if it returns True.
    """

    containers: dict[str, Container] = field(default_factory=dict)
    tried: list[Tried] = field(default_factory=list)
    builds: int = 0
    dies: Callable[[str, Moment], bool] = lambda _client, _moment: False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def create(self, owner: str, kind: str) -> str:
        """Create a container; return its name."""
        name = f"{kind}-{uuid.uuid4().hex[:8]}"
        with self._lock:
            self.containers[name] = Container(owner=owner, kind=kind, until=time.time() + _LEASE_SECONDS)
        return name

    def remove(self, name: str) -> None:
        """Remove a container; one that is gone is no error."""
        with self._lock:
            self.containers.pop(name, None)

    def sweep(self, alive: Callable[[str], bool]) -> list[str]:
        """Remove the containers of dead owners, and those whose lease has ended."""
        now = time.time()
        with self._lock:
            left = [name for name, one in self.containers.items() if not alive(one.owner) or one.until < now]
            for name in left:
                del self.containers[name]
        return left

    def note(self, tried: Tried) -> None:
        """Write down how tests ended."""
        with self._lock:
            self.tried.append(tried)

    def check(self, client: str, moment: Moment) -> None:
        """Return if the engine is there.

        Raises:
            docker.errors.DockerException: it died.
        """
        if self.dies(client, moment):
            raise docker.errors.DockerException("the connection to the engine was reset")


class SimulatedBuilder:
    """Builds for one client; a :class:`aml_train.image.builder.Builder`.

    Args:
        engine: of the world.
        client: who builds.
        project: says how long it takes, and whether its tests pass.
    """

    def __init__(self, engine: SimulatedEngine, client: str, project: Project) -> None:
        self._engine, self._client, self._project = engine, client, project

    def build(self, ctx: ImageContext, candidate: Candidate, started: float, *, force: bool) -> Verified:
        """Build, push as the candidate, check and test."""
        del force
        engine = self._engine
        container = engine.create(self._client, "build")
        try:
            ctx.listener(LogLine(source="build", text=f"building {ctx.spec.address[:12]}"))
            engine.check(self._client, "build")
            time.sleep(self._project.build_seconds)
            engine.check(self._client, "push")
            digest = self._push(ctx, candidate)
        finally:
            engine.remove(container)
        engine.builds += 1
        manifest = candidate.manifest(digest)
        ctx.finish("image", f"built and pushed {manifest.digest[:19]}", started)
        results, facts = self._verify(ctx, manifest, check=True, test=ctx.tests is not None)
        if facts is None:
            raise ValueError("the checks returned no facts")
        return Verified(manifest=manifest, results=results, facts=facts)

    def verify(
        self, ctx: ImageContext, found: Manifest, *, check: bool, test: bool
    ) -> tuple[TestsFinished | None, Facts | None]:
        """Check and test a released image."""
        return self._verify(ctx, found, check=check, test=test)

    def identity(self, ctx: ImageContext) -> str:
        """Return the builder's name."""
        del ctx
        return "simulation"

    def discard(self, ctx: ImageContext, candidate: Candidate) -> None:
        """Nothing is kept under the candidate's name."""

    def _push(self, ctx: ImageContext, candidate: Candidate) -> str:
        # No two builds give the same bytes, as in an engine.
        config = json.dumps(
            {"architecture": "amd64", "os": "linux", "config": {}, "build": uuid.uuid4().hex}, sort_keys=True
        ).encode()
        layer = hashlib.sha256(ctx.spec.dockerfile.encode()).digest()
        candidate.pushed = True
        listed = []
        for kind, content in (("container.image.v1+json", config), ("image.rootfs.diff.tar.gzip", layer)):
            digest = ctx.registry.upload_blob(ctx.candidates, content)
            listed.append({"mediaType": f"application/vnd.docker.{kind}", "digest": digest, "size": len(content)})
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": listed[0], "layers": listed[1:]}
        return ctx.registry.put_manifest(ctx.candidates, candidate.tag, json.dumps(manifest).encode(), MANIFEST)

    def _verify(
        self, ctx: ImageContext, manifest: Manifest, *, check: bool, test: bool
    ) -> tuple[TestsFinished | None, Facts | None]:
        facts, results, tests = None, None, ctx.tests
        if check:
            started = start_checks(ctx)
            facts = parse_facts(json.dumps(FACTS).encode())
            judge(ctx, facts, started)
        if test and tests is not None:
            with ctx.stage("tests", f"tests in the image: {tests.command}") as summary:
                results = self._test(ctx, tests, manifest.digest)
                summary.append(f"{results.passed} passed")
        return results, facts

    def _test(self, ctx: ImageContext, tests: TestSpec, digest: str) -> TestsFinished:
        engine, project = self._engine, self._project
        container = engine.create(self._client, "tests")
        try:
            ctx.listener(LogLine(source="tests", text="testing"))
            time.sleep(project.test_seconds)
            engine.check(self._client, "tests")
        finally:
            engine.remove(container)
        passed = project.tests_pass
        engine.note(Tried(digest=digest, key=tests.key(digest), project=project.key, passed=passed))
        failure = "" if passed else '<failure message="assert 1 == 2">assert 1 == 2</failure>'
        report = (
            f'<testsuites><testsuite name="pytest" tests="1" failures="{int(not passed)}" errors="0" skipped="0">'
            f'<testcase classname="tests.test_model" name="test_model" time="0.1">{failure}</testcase>'
            "</testsuite></testsuites>"
        )
        written = Written(by_pytest={f"pytest-1-{int(not passed)}.xml": report.encode()})
        end = End(exit_code=int(not passed), seconds=project.test_seconds)
        return conclude(tests, end, written, ClosingLines(), ctx.listener)


@value(frozen=True, kw_only=True)
class SimulatedPlace(BuildPlace):
    """The place of a service's builds, whose builder is that of the world.

    Attributes:
        simulated: gives the builder.
    """

    simulated: Callable[[], Builder]

    def builder(self, service: Callable[[BuilderConfig], BuildService]) -> Callable[[], Builder]:
        """Return what gives the builder."""
        del service
        return self.simulated


@value(frozen=True, kw_only=True)
class SimulatedHost(Host):
    """A machine without an engine, whose images the world's builder makes.

    Attributes:
        simulated: gives the builder.
    """

    simulated: Callable[[], Builder]

    def place(self, builder: BuilderConfig) -> BuildPlace:
        """Return the place where images are built."""
        return SimulatedPlace(config=builder, local=self.engine, environ=self.environ, simulated=self.simulated)
