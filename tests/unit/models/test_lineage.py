"""A model's lineage: every step is looked up, and each way of being broken is found."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from aml_train.core.errors import ImageError
from aml_train.core.trust import PROPOSALS_SUFFIX
from aml_train.image.records import RECORD_TYPE, load_record, record_tag, store_record
from aml_train.image.registry.client import Registry
from aml_train.image.registry.referrers import store_document
from aml_train.image.spec import TestRecord
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView, ModelView
from aml_train.models.lineage import LineageStep, Tracer, render_lineage
from tests.support.fake_promotion import FakeCatalogue
from tests.support.fake_workspace import FakeService
from tests.unit.image.registry.fake_registry import FakeRegistry

KEY = "k" * 40
HOST = "amllocal.azurecr.io"


class World:
    """A model whose lineage is intact, and everything that it rests on."""

    def __init__(self) -> None:
        self.server = FakeRegistry()
        self.reachable = True
        with self.open(HOST) as registry:
            self.digest = registry.put_manifest(
                "digits", "one", b'{"schemaVersion": 2}', "application/vnd.oci.image.manifest.v1+json"
            )
            self.record = TestRecord(
                digest=self.digest,
                key=KEY,
                command="pytest -q",
                passed=3,
                failed=0,
                skipped=1,
                seconds=1.0,
                at="2026-11-21",
                commit=None,
            )
            store_record(registry, "digits", self.record)
        image = f"{HOST}/digits@{self.digest}"
        own = {"aml-train.commit": "c0ffee", "aml-train.image": image, "aml-train.image-digest": self.digest}
        self.exists = True
        self.job = JobView(
            name="j",
            status=JobStatus.COMPLETED,
            experiment="digits",
            tags={
                **own,
                "aml-train.tested": KEY,
                "aml-train.base": "python:3.11@sha256:1",
                "aml-train.repository": "github.com/o/r",
                "aml-train.branch": "main",
                "aml-train.data.train": "images:4",
                "aml-train.data.where": "azureml://datastores/d/paths/p",
            },
        )
        self.model = ModelView(
            name="digits",
            version="7",
            path="azureml://x",
            tags={
                **own,
                "aml-train.job": "j",
                "aml-train.model-source": "azureml://jobs/j/outputs/artifacts/paths/outputs/model",
            },
            properties={"aml-train.job": "j", "aml-train.image-digest": self.digest},
        )
        self.images = {"j": image}
        self.data = ["images:4"]
        self.artifacts = ["outputs/model/w"]

    def open(self, host: str) -> Registry:
        assert host == HOST
        if not self.reachable:
            raise ImageError("the registry does not answer")
        return Registry(f"https://{HOST}", transport=self.server)

    def trace(self) -> LineageStep:
        service = FakeService(artifacts=self.artifacts, jobs={"j": self.job} if self.exists else {})
        catalogue = FakeCatalogue(service, images=self.images, data=self.data)
        return Tracer(service=service, catalogue=catalogue, registry=self.open).trace(self.model)


def test_an_intact_lineage() -> None:
    world = World()
    lines = [line.replace(world.digest, "sha256:2") for line in render_lineage(world.trace())]
    assert lines == [
        "✓ model       digits:7  (azureml://x)",
        "├─ ✓ files       outputs/model  (among the job's artefacts)",
        "└─ ✓ job         j  (experiment digits, Completed)",
        "   ├─ ✓ environment amllocal.azurecr.io/digits@sha256:2  (the job ran in exactly this image)",
        "   │  ├─ ✓ image       sha256:2  (in amllocal.azurecr.io/digits)",
        "   │  ├─ ✓ tests       pytest -q  (3 passed, 1 skipped, 2026-11-21)",
        "   │  └─ · base        python:3.11@sha256:1  (what the image was built from)",
        "   ├─ · commit      c0ffee  (github.com/o/r, main)",
        "   ├─ ✓ data        train = images:4  (the data asset is registered)",
        "   └─ · data        where = azureml://datastores/d/paths/p  (no version of a data asset)",
    ]


def test_tests_that_a_proposal_ran_in_a_released_image_are_recorded_and_not_broken() -> None:
    world = World()
    _forget_record(world)
    with world.open(HOST) as registry:
        store_record(registry, f"digits{PROPOSALS_SUFFIX}", world.record)
    lineage = world.trace()
    (tests,) = (step for step in lineage.walk() if step.kind == "tests")
    assert (tests.state, tests.detail) == ("recorded", "by a proposal: 3 passed, 1 skipped, 2026-11-21")
    assert lineage.broken == ()


def test_a_registry_that_hides_the_proposals_takes_nothing_from_a_lineage(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()

    def load(registry: Registry, repository: str, digest: str, key: str) -> TestRecord | None:
        if repository.endswith(PROPOSALS_SUFFIX):
            raise ImageError("the registry answered 403")
        return load_record(registry, repository, digest, key)

    monkeypatch.setattr("aml_train.models.lineage.load_record", load)
    assert {step.state for step in world.trace().walk() if step.kind in ("image", "tests")} == {"verified"}


def _tag(name: str, value: str) -> Callable[[World], None]:
    def change(world: World) -> None:
        world.model = replace(world.model, tags={**world.model.tags, name: value})

    return change


def _set(**values: Any) -> Callable[[World], None]:
    def change(world: World) -> None:
        vars(world).update(values)

    return change


def _job(**values: Any) -> Callable[[World], None]:
    def change(world: World) -> None:
        world.job = replace(world.job, **values)

    return change


def _forget_record(world: World) -> None:
    del world.server.manifests["digits", record_tag(world.digest, KEY)]


def _forget_image(world: World) -> None:
    for key in [key for key in world.server.manifests if key[1] in ("one", world.digest)]:
        del world.server.manifests[key]


def _damage_record(world: World) -> None:
    content = dataclasses.replace(world.record, digest="sha256:" + "0" * 64)
    with world.open(HOST) as registry:
        store_document(
            registry,
            "digits",
            record_tag(world.digest, KEY),
            media_type=RECORD_TYPE,
            content=json.dumps(dataclasses.asdict(content)).encode(),
            subject=world.digest,
        )


@pytest.mark.parametrize(
    ("change", "kind", "reason"),
    [
        (_set(exists=False), "job", "there is no such job any more"),
        (_job(status=JobStatus.FAILED), "job", "it is Failed, and not Completed"),
        (_job(tags={}), "job", "its tag aml-train.image-digest is missing, and the model's sha256:"),
        (
            _tag("aml-train.image-digest", "sha256:0"),
            "model",
            "its tag aml-train.image-digest was changed since its registration",
        ),
        (_tag("aml-train.commit", "0"), "job", "its tag aml-train.commit is c0ffee, and the model's 0"),
        (_tag("aml-train.model-source", "azureml://jobs/other/outputs/x"), "files", "they are another job's than j"),
        (_set(artifacts=[]), "files", "they are not among the job's artefacts any more"),
        (_set(images={}), "environment", "the job's environment has no image, and not sha256:"),
        (
            _set(images={"j": "amllocal.azurecr.io/digits:latest"}),
            "environment",
            "has amllocal.azurecr.io/digits:latest, and not",
        ),
        (_set(data=[]), "data", "there is no such data asset any more"),
        (_forget_image, "image", "amllocal.azurecr.io/digits does not have it any more"),
        (_forget_record, "tests", "the registry has no record of these tests in this image"),
        (_damage_record, "tests", "is about another image or other tests"),
    ],
)
def test_a_broken_step_is_found(change: Callable[[World], None], kind: str, reason: str) -> None:
    world = World()
    change(world)
    (broken,) = world.trace().broken
    assert broken.startswith(f"{kind} ")
    assert reason in broken


def test_a_registry_that_does_not_answer_breaks_nothing() -> None:
    world = World()
    world.reachable = False
    traced = world.trace()
    assert traced.broken == ()
    assert [(step.kind, step.detail) for step in traced.walk() if step.state == "unknown"] == [
        ("image", "the registry does not answer")
    ]


def test_a_model_that_azureml_core_registered_has_the_lineage_of_its_job() -> None:
    world = World()
    world.model = replace(world.model, tags={}, properties={}, job="j")
    traced = world.trace()
    assert traced.broken == ()
    assert (traced.state, traced.detail) == (
        "recorded",
        "something else than aml-train registered it; AzureML names its job",
    )
    assert [(step.kind, step.state) for step in traced.walk()][1:5] == [
        ("files", "recorded"),
        ("job", "verified"),
        ("environment", "verified"),
        ("image", "verified"),
    ]
    # A model of aml-train remains one without its tag.
    world.model = replace(world.model, properties={"aml-train.job": "j"})
    (broken,) = world.trace().broken
    assert "its tag aml-train.job was changed since its registration: it is None, and was j" in broken
