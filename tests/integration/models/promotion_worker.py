"""What promoters do, as processes of their own that know nothing but the environment. Usage: ``promotion_worker.py STEP ARGUMENTS``.

Each step prints JSON on its last line. The clients are the unmodified azure-ai-ml, azure-identity and azure-storage-blob.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from aml_train.azure.blob.lease import AzureLeases
from aml_train.azure.sdk_v2 import AzureV2
from aml_train.config.sections.gate import GateRule
from aml_train.config.sections.model import ModelConfig, StagePolicy
from aml_train.config.sections.targets import TargetConfig
from aml_train.core.clock import Clock
from aml_train.core.errors import ServiceError
from aml_train.core.events import Event
from aml_train.core.references import ImageRef
from aml_train.core.threads import CancelToken
from aml_train.gate.decide import Decision
from aml_train.gate.rules import parse_rule
from aml_train.image.records import store_record
from aml_train.image.registry.client import Registry
from aml_train.image.registry.manifest import OCI_MANIFEST
from aml_train.image.spec import Tested, TestRecord
from aml_train.jobs.spec import JobTemplate, make_job
from aml_train.models.catalogue import LockedRecord
from aml_train.models.promotion.change import PromotionRequest
from aml_train.models.promotion.promote import Promoter
from aml_train.models.register import lineage_tags, register_model
from aml_train.pipeline.promotion import open_promoter, run_promotion
from aml_train.pipeline.target import Host

MODEL = "digits"
CLOCK = Clock(now=time.monotonic, sleep=time.sleep)
RULES = (GateRule(metric="acc", rule=parse_rule(">= baseline"), where="aml-train.yml:5"),)
#: The least and the most that the service takes: one that is waited for, and one that does not end by itself meanwhile.
SHORT_LEASE, LONG_LEASE = 15, 60


def opened(listener: Callable[[Event], None] = lambda _event: None) -> Promoter:
    target = TargetConfig(name="azure", kind="azure")
    return open_promoter(Host(environ=dict(os.environ)), target, Path(), listener)


def request(version: str | None, actor: str, **more: Any) -> PromotionRequest:
    policy = StagePolicy(rules=RULES, bootstrap=True, where="aml-train.yml:4")
    # The jobs are of no repository: what is tried here is the lock.
    given = {"model": MODEL, "stage": "production", "version": version, "actor": actor, "policy": policy}
    return PromotionRequest(**{**given, "allow_foreign": True, "reason": "of no repository", **more})


def tested(port: int, mark: str) -> Tested:
    """Put an image into the registry, as small as can be, with the record of its tests; each *mark* is another one."""
    with Registry(f"http://localhost:{port}") as registry:
        config = registry.upload_blob("digits", b"{}")
        layers = [registry.upload_blob("digits", mark.encode())] if mark else []
        manifest = {
            "schemaVersion": 2,
            "mediaType": OCI_MANIFEST,
            "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": config, "size": 2},
            "layers": [
                {"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": one, "size": len(mark)}
                for one in layers
            ],
        }
        digest = registry.put_manifest("digits", "one", json.dumps(manifest).encode(), OCI_MANIFEST)
        record = TestRecord(
            digest=digest,
            key="k" * 40,
            command="pytest",
            passed=3,
            failed=0,
            skipped=0,
            seconds=1.0,
            at="2026-11-21T00:00:00+00:00",
            commit=None,
        )
        store_record(registry, "digits", record)
    reference = ImageRef(registry="amllocal.azurecr.io", repository="digits", digest=digest)
    return Tested(
        reference=reference, digest=digest, address="a" * 64, how="built", record=record, compressed_bytes=2
    )


def prepare(*, port: int, versions: int, folder: str) -> object:
    """Train once, well, and register *versions* versions; and once badly, for one more."""
    promoter = opened()
    service = promoter.service
    assert isinstance(service, AzureV2)
    image = tested(port, "")
    jobs = []
    for accuracy, count in ((0.9, versions), (0.5, 1)):
        words = [
            f"metric acc 1 {accuracy}",
            *(f"write outputs/m{number}/weights {number}" for number in range(count)),
        ]
        template = JobTemplate(
            document={
                "type": "command",
                "command": "\n".join(words),
                "compute": "azureml:local-cluster",
                "experiment_name": "promotion",
            },
            directory=Path(folder),
            code_digest=None,
            scope="test",
            stem="digits",
            tags={"aml-train.commit": "c" * 40},
        )
        jobs.append((service.submit(make_job(template, {"": image}, 1), CancelToken()).name, accuracy, count))
    for job, accuracy, count in jobs:
        while not service.details(job).status.terminal:
            time.sleep(0.05)
        view = service.find(job)
        assert view is not None
        tags = lineage_tags(view, metrics={"acc": accuracy}, decision=Decision(rules=()))
        for number in range(count):
            spec = ModelConfig(name=MODEL, path=f"outputs/m{number}", type="custom_model")
            register_model(service, spec, job=job, tags=tags)
    return {"digest": image.digest, "jobs": [name for name, _, _ in jobs]}


class AtOnce:
    """A store whose lock nobody asks for before everybody has decided."""

    def __init__(self, inner: Any, barrier: Any) -> None:
        self._inner, self._barrier = inner, barrier

    def read(self, model: str) -> bytes:
        content: bytes = self._inner.read(model)
        return content

    def hold(self, model: str) -> AbstractContextManager[LockedRecord]:
        self._barrier.wait()
        held: AbstractContextManager[LockedRecord] = self._inner.hold(model)
        return held


def race(*, versions: list[str]) -> object:
    """Promote all *versions* at once, each in a process of its own. Nobody says what to expect."""
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(len(versions)), context.SimpleQueue()

    def one(version: str) -> None:
        promoter = opened()
        promoter = dataclasses.replace(promoter, store=AtOnce(promoter.store, barrier))
        end, _ = run_promotion(lambda: promoter.promote(request(version, f"racer {version}")), lambda _event: None)
        results.put((version, end.exit_code, end.status, end.message))

    processes = [context.Process(target=one, args=(version,)) for version in versions]
    for process in processes:
        process.start()
    ended = [results.get() for _ in processes]
    for process in processes:
        process.join()
    return ended


def register_race(*, job: str, same: int, others: int) -> object:
    """Register at once: *same* times one place of *job*, and *others* other places, each in a process of its own."""
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(same + others), context.SimpleQueue()
    import azure.ai.ml.entities  # noqa: F401  once, for all of them

    def one(artifact: str) -> None:
        service = opened().service
        spec = ModelConfig(name="raced", path=artifact, type="custom_model")
        barrier.wait()
        view, _ = register_model(service, spec, job=job, tags={})
        results.put((artifact, view.version))

    artifacts = ["outputs/m0"] * same + [f"outputs/m{number + 1}" for number in range(others)]
    processes = [context.Process(target=one, args=(artifact,)) for artifact in artifacts]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert all(process.exitcode == 0 for process in processes)
    ended = [results.get() for _ in processes]
    found = {one.version: one.tags["aml-train.model-source"] for one in opened().service.models("raced")}
    return {"ended": ended, "found": found}


def leases(promoter: Promoter, seconds: int) -> AzureLeases:
    """Return the same records with leases of so many seconds."""
    service = promoter.service
    assert isinstance(service, AzureV2)
    return AzureLeases(service, clock=CLOCK, seconds=seconds)


def killed(*, version: str) -> object:
    """Promote, and die with the new one tagged, the old one not, and the lock held."""
    promoter = opened()
    original = promoter.catalogue.change_tags

    class Dying:
        def __getattr__(self, name: str) -> Any:
            return getattr(promoter.catalogue, name)

        def change_tags(
            self, name: str, version: str, changes: Mapping[str, str | None], *, guard: Callable[[], None]
        ) -> None:
            original(name, version, changes, guard=guard)
            os.kill(os.getpid(), signal.SIGKILL)

    dying = dataclasses.replace(promoter, catalogue=Dying(), store=leases(promoter, SHORT_LEASE))
    dying.promote(request(version, "the late one"))
    return None


def sdk() -> object:
    """Return what the unmodified azure-ai-ml says of the model's versions."""
    service = opened().service
    assert isinstance(service, AzureV2)
    with contextlib.redirect_stdout(sys.stderr):
        found = list(service.client.models.list(name=MODEL))
    return {one.version: {"tags": dict(one.tags), "path": one.path, "type": one.type} for one in found}


def holding() -> object:
    """Try to write past a lock that is lost, and past one that somebody else has."""
    promoter = opened()
    store = leases(promoter, LONG_LEASE)
    told: list[str] = []

    @contextlib.contextmanager
    def telling() -> Iterator[None]:
        try:
            yield
        except ServiceError as error:
            told.append(error.message)

    with store.hold("other") as held:
        held.write(b"mine")
        other = AzureLeases.__new__(AzureLeases)
        other.__dict__.update({**store.__dict__, "_wait": 0.0})
        with telling(), other.hold("other"):
            told.append("two have the lock")
        store._blob("other").upload_blob(b"x", overwrite=True, lease=held._lease)  # the holder may
        from azure.core.exceptions import HttpResponseError

        try:
            store._blob("other").upload_blob(b"not mine", overwrite=True)
        except HttpResponseError as error:
            told.append(str(getattr(error.error_code, "value", error.error_code)))
        held._lease.break_lease(0)
        with telling():
            held.renew()
        with telling():
            held.write(b"too late")
    return {"told": told, "content": store.read("other").decode()}


if __name__ == "__main__":
    step, arguments = sys.argv[1:]
    print(json.dumps(globals()[step](**json.loads(arguments))))
