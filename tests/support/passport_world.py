"""A workspace and a registry in memory, with a model that has a passport, and everything that it rests on."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from aml_train.config.policy import PolicyConfig
from aml_train.config.sections.gate import GateRule
from aml_train.config.sections.image import ImageConfig
from aml_train.config.sections.model import StagePolicy
from aml_train.core.clock import Clock
from aml_train.core.events import Event
from aml_train.core.tags import Tag
from aml_train.gate.decide import Decision
from aml_train.gate.history import MetricPoint
from aml_train.gate.rules import parse_rule
from aml_train.image.inputs import ImageInputs
from aml_train.image.provenance import IN_TOTO, SLSA_PROVENANCE, provenance
from aml_train.image.readiness.check import store_facts
from aml_train.image.records import store_record
from aml_train.image.registry.client import Registry
from aml_train.image.registry.manifest import OCI_MANIFEST, Manifest
from aml_train.image.registry.referrers import attach_document
from aml_train.image.spec import TestRecord
from aml_train.jobs.spec import JobSpec
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView, ModelView
from aml_train.models.lineage import Tracer
from aml_train.models.passport.envelope import Signer
from aml_train.models.passport.issue import Passport, issue_passport
from aml_train.models.passport.keys import KeySigner, PublicKey
from aml_train.models.passport.observe import Evidence
from aml_train.models.passport.trust import Trust
from aml_train.models.passport.values import Verification
from aml_train.models.passport.verify import Verifier
from aml_train.models.promotion.change import Promotion, PromotionRequest
from aml_train.models.promotion.promote import Promoter
from aml_train.models.register import fitting, lineage_tags
from aml_train.pipeline.evaluate import evaluate
from aml_train.testing.memory import MemoryJob, MemoryService
from aml_train.testing.override import MemoryCatalogue, MemoryRecords
from tests.support.fake_workspace import FakeClock
from tests.support.image_configs import BASE, plan
from tests.support.memory_passports import MemoryPassports
from tests.unit.image.registry.fake_registry import FakeRegistry

HOST = "amllocal.azurecr.io"
REPOSITORY = "digits"
KEY = "k" * 40
JOB = "digits-abc-1"
SOURCE = f"azureml://jobs/{JOB}/outputs/artifacts/paths/outputs/model"
_OF_IMAGE = (
    "aml-train.image",
    "aml-train.image-digest",
    "aml-train.image-address",
    "aml-train.base",
    "aml-train.tested",
)
RULES: Mapping[str, str] = {"accuracy": ">= 0.9", "loss": "min < 0.5"}


def new_signer(name: str = "signing.pem", curve: ec.EllipticCurve | None = None) -> KeySigner:
    """Return a signer with a new key."""
    return KeySigner(name=name, key=ec.generate_private_key(curve or ec.SECP256R1()))


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What was trained, and how: the same everywhere but for what a test is about.

    Attributes:
        files: the model's, relative to *source*.
        source: the model's place in the job.
        metrics: name → values by step.
        gate: the rules, in order.
        code: the files of the code snapshot; None for a job without one.
        tags: of the job, besides those of its image; None leaves one out.
        image: whether the job ran in an image of ours, which has tests and a provenance.
        facts: what the readiness checks found in the image.
        artifacts: other files of the job.
    """

    files: Mapping[str, bytes] = field(
        default_factory=lambda: {"weights.bin": b"\x00\x01weights", "config.json": b'{"layers": 2}'}
    )
    source: str = SOURCE
    type: str = "custom_model"
    metrics: Mapping[str, Sequence[float]] = field(
        default_factory=lambda: {"accuracy": [0.8, 0.95], "loss": [0.6, 0.3]}
    )
    gate: Sequence[GateRule] = field(default_factory=lambda: rules(RULES))
    parameters: Mapping[str, str] = field(default_factory=lambda: {"epochs": "2", "api_token": "hidden"})
    inputs: Mapping[str, str] = field(default_factory=lambda: {"train": "azureml:images:4"})
    code: Mapping[str, bytes] | None = field(
        default_factory=lambda: {"train.py": b"print(1)\n", "lib/net.py": b"x = 1\n"}
    )
    tags: Mapping[str, str | None] = field(default_factory=dict)
    image: bool = True
    facts: Mapping[str, Any] = field(default_factory=lambda: {"format": 1, "bash": None, "python": None})
    artifacts: Mapping[str, bytes] = field(default_factory=dict)


def rules(given: Mapping[str, str], **more: Any) -> list[GateRule]:
    """Return the rules of a gate by the metrics that they are about."""
    return [
        GateRule(metric=name, rule=parse_rule(text), where=f"aml-train.yml:{line}", **more)
        for line, (name, text) in enumerate(given.items(), 9)
    ]


class PassportWorld:
    """A model ``digits:7`` with a passport; tests change a part and verify.

    Args:
        referrers: whether the registry has the interface of referrers.
        shape: what was trained.
        signer: who signs, and whose signature counts.
    """

    def __init__(
        self, *, referrers: bool = True, shape: Shape | None = None, signer: KeySigner | None = None
    ) -> None:
        self.shape = shape or Shape()
        self.signer = signer or new_signer()
        self.server = FakeRegistry(referrers=referrers)
        self.service = MemoryService()
        self.catalogue = MemoryCatalogue(self.service, data=["images:4"])
        self.passports = MemoryPassports()
        self.store = MemoryRecords()
        self.events: list[Event] = []
        self.trust: Trust | None = Trust(keys=(self.signer.public,))
        self.policy = StagePolicy(require=("signature", "provenance", "tests"), where="aml-train.yml:8")
        self.image = self._push_image(b"one")
        self.decision = self._train()
        self.model = self.register("7")
        self.issue()

    @property
    def evidence(self) -> Evidence:
        return Evidence(service=self.service, catalogue=self.catalogue, registry=self.open, store=self.passports)

    @property
    def job(self) -> JobView:
        return self.service.jobs[JOB]

    @job.setter
    def job(self, view: JobView) -> None:
        self.service.jobs[JOB] = view

    @property
    def reference(self) -> str:
        return f"{HOST}/{REPOSITORY}@{self.image.digest}"

    def open(self, host: str) -> Registry | None:
        """Return the client of the registry; None for any other, which cannot be reached."""
        if host != HOST:
            return None
        return self.registry()

    def registry(self) -> Registry:
        return Registry(f"https://{HOST}", transport=self.server)

    def current(self, version: str = "7") -> ModelView:
        found = self.catalogue.version("digits", version)
        assert found is not None
        return found

    def retag(self, **changes: str | None) -> None:
        """Change tags of the model; names are without the prefix, with ``_`` for other signs."""
        tags = {f"aml-train.{name.replace('__', '.').replace('_', '-')}": value for name, value in changes.items()}
        self.catalogue.change_tags("digits", "7", tags, guard=lambda: None)

    def change_model(self, **changes: Any) -> None:
        """Replace attributes of the registered model."""
        index = self.service.registered.index(self.current())
        self.service.registered[index] = dataclasses.replace(self.current(), **changes)

    def issue(self, signer: KeySigner | None = None, version: str = "7") -> Passport:
        """Issue the model's passport."""
        gate = tuple(self.shape.gate)
        return issue_passport(
            self.evidence, signer or self.signer, self.current(version), self.job, self.decision, gate
        )

    def sign_by(self, signer: Signer) -> None:
        """Issue the passport again, by another signer."""
        issue_passport(self.evidence, signer, self.current(), self.job, self.decision, tuple(self.shape.gate))

    def register(self, version: str) -> ModelView:
        """Register a version of the job's model."""
        metrics = self.service.last_metrics(JOB)
        tags = lineage_tags(self.job, metrics=metrics, decision=self.decision)
        source = self.shape.source
        own = {"aml-train.job": JOB, "aml-train.model-source": source, Tag.STAGE: "candidate"}
        fixed = ("aml-train.job", "aml-train.model-source", "aml-train.commit", "aml-train.image-digest")
        tags = fitting({**own, **tags})
        self.service.registered.append(
            ModelView(
                name="digits",
                version=version,
                path=source,
                type=self.shape.type,
                tags=tags,
                properties={name: tags[name] for name in fixed if name in tags},
            )
        )
        return self.service.registered[-1]

    def verify(self, version: str = "7") -> Verification:
        """Verify the model as it is now."""
        return self.verifier().verify(self.current(version))

    def verifier(self) -> Verifier:
        return Verifier(evidence=self.evidence, trust=self.trust)

    def promote(self) -> Promotion:
        """Promote the model into production, which demands everything."""
        promoter = Promoter(
            service=self.service,
            catalogue=self.catalogue,
            store=self.store,
            tracer=Tracer(service=self.service, catalogue=self.catalogue, registry=self.open),
            evaluate=evaluate,
            clock=_clock(),
            listener=self.events.append,
            prove=lambda _model, _policy: "",
            verify=self.verifier().verify,
        )
        request = PromotionRequest(model="digits", stage="production", actor="ann", version="7", policy=self.policy)
        return promoter.promote(request)

    def public_key(self, folder: Path) -> Path:
        """Write the signer's public key; return its file."""
        file = folder / "signing.pub"
        key: PublicKey = self.signer.public
        file.write_bytes(key.key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
        return file

    def policy_file(self, folder: Path) -> PolicyConfig:
        """Return a policy that lets the signer count."""
        return PolicyConfig(keys=(self.public_key(folder),), require=("signature", "provenance", "tests"))

    def push_record(self, **changes: Any) -> None:
        """Write the record of the tests, perhaps a changed one."""
        record = TestRecord(
            digest=self.image.digest,
            key=KEY,
            command="pytest -q",
            passed=3,
            failed=0,
            skipped=1,
            seconds=1.0,
            at="2026-11-21",
            commit="c0ffee",
        )
        with self.registry() as registry:
            store_record(registry, REPOSITORY, dataclasses.replace(record, **changes))
            store_facts(registry, REPOSITORY, self.image.digest, self.shape.facts)

    def _push_image(self, content: bytes) -> Manifest:
        with self.registry() as registry:
            config = registry.upload_blob(REPOSITORY, content)
            document = {
                "schemaVersion": 2,
                "mediaType": OCI_MANIFEST,
                "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": config, "size": 3},
                "layers": [],
            }
            encoded = json.dumps(document).encode()
            digest = registry.put_manifest(REPOSITORY, "latest", encoded, OCI_MANIFEST)
            registry.put_manifest(REPOSITORY, f"dig-{digest.removeprefix('sha256:')}", encoded, OCI_MANIFEST)
            image = registry.get_manifest(REPOSITORY, digest)
            assert image is not None
            self.image = image
            self.push_record()
            self.attach_provenance(image, registry)
        return image

    def attach_provenance(self, image: Manifest, registry: Registry, **changes: Any) -> None:
        """Attach a provenance to an image, perhaps one with other subjects."""
        times = {"started": "2026-11-21T10:00:00+00:00", "finished": "2026-11-21T10:01:00+00:00"}
        statement = provenance(
            plan(
                ImageConfig(base=BASE.reference, repository=REPOSITORY, where="aml-train.yml:2"), inputs=ImageInputs()
            ),
            image.digest,
            commit="c0ffee",
            name=f"{HOST}/{REPOSITORY}",
            builder="engine 29",
            **times,
        )
        attach_document(
            registry,
            REPOSITORY,
            image,
            artifact_type=IN_TOTO,
            content=json.dumps({**statement, **changes}).encode(),
            annotations={"in-toto.io/predicate-type": SLSA_PROVENANCE},
        )

    def _train(self) -> Decision:
        """Put the completed job there: its metrics, files, code and environment; decide its gate."""
        tags = {
            "aml-train.commit": "c0ffee",
            "aml-train.branch": "main",
            "aml-train.repository": "github.com/o/r",
            "aml-train.run-url": "https://github.com/o/r/actions/runs/1",
            "aml-train.image": self.reference,
            "aml-train.image-digest": self.image.digest,
            "aml-train.image-address": "a" * 64,
            "aml-train.base": "python:3.11@sha256:1",
            "aml-train.tested": KEY,
            "aml-train.data.train": "images:4",
        }
        tags = {name: value for name, value in {**tags, **self.shape.tags}.items() if value is not None}
        if not self.shape.image:
            tags = {name: value for name, value in tags.items() if name not in _OF_IMAGE}
        shape = self.shape
        spec = JobSpec(
            name=JOB,
            document={"environment": {"image": self.reference}},
            directory=Path(),
            code=None,
            images={},
            fingerprint="f" * 64,
        )
        self.service.jobs[JOB] = JobView(
            name=JOB,
            status=JobStatus.COMPLETED,
            properties={"aml-train.fingerprint": "f" * 64},
            experiment="digits",
            tags=tags,
            inputs=shape.inputs,
            parameters=shape.parameters,
        )
        history = {
            name: [MetricPoint(step=step, value=value, timestamp=step) for step, value in enumerate(values)]
            for name, values in shape.metrics.items()
        }
        folder = shape.source.partition("/outputs/artifacts/paths/")[2]
        files = {path: content for path, content in shape.files.items() if folder}
        single = [*files] == [folder.rpartition("/")[2]]
        left = {folder if single else f"{folder}/{path}": content for path, content in files.items()}
        self.service.work[JOB] = MemoryJob(spec=spec, metrics=history, artifacts={**left, **shape.artifacts})
        self.passports.models[shape.source] = dict(shape.files)
        if shape.code is not None:
            self.passports.code[JOB] = dict(shape.code)
        found = evaluate(self.service, JOB, shape.gate, None, clock=_clock(), pause=0.05)
        return found.decision


def _clock() -> Clock:
    clock = FakeClock()
    return Clock(now=clock.now, sleep=clock.sleep)


__all__ = ["HOST", "JOB", "KEY", "REPOSITORY", "RULES", "SOURCE", "PassportWorld", "Shape", "new_signer", "rules"]
