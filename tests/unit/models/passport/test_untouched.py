"""Models that no one tampered with are verified and promoted, whatever they are made of and however they are used afterwards."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from aml_train.config.sections.gate import JsonValue
from aml_train.config.sections.model import StagePolicy
from aml_train.config.sections.passport import Requirement
from aml_train.gate.rules import Policies
from aml_train.image.registry.referrers import attach_document
from aml_train.models.passport.envelope import BUNDLE
from aml_train.models.passport.issue import PASSPORT_FILE
from aml_train.models.passport.trust import Trust
from tests.support.passport_world import JOB, REPOSITORY, SOURCE, PassportWorld, Shape, new_signer, rules
from tests.support.tamperings import job_tag

ALL: tuple[Requirement, ...] = ("signature", "provenance", "tests")
World = PassportWorld
Use = Callable[[World], object]


def _attach(kind: str, content: bytes | None = None) -> Use:
    """Return what attaches a document to the image: by default the passport again, with other annotations."""

    def use(world: World) -> None:
        found = content or world.passports.kept["digits", "7", PASSPORT_FILE]
        with world.registry() as registry:
            attach_document(registry, REPOSITORY, world.image, artifact_type=kind, content=found)

    return use


def _move_address(world: World) -> None:
    with world.registry() as registry:
        registry.put_manifest(REPOSITORY, "latest", b'{"schemaVersion": 2, "y": 1}', world.image.media_type)


def _reorder(world: World) -> None:
    files = world.passports.models[SOURCE]
    world.passports.models[SOURCE] = dict(reversed(files.items()))


def _by_two_keys(world: World) -> None:
    world.trust = Trust(keys=(new_signer().public, world.signer.public))


#: What may happen to a model after it was signed.
USES: Mapping[str, Use] = {
    "as issued": lambda w: None,
    "promoted and archived": lambda w: w.retag(stage="archived", promoted_at="x", promotion="y", replaced_by="8"),
    "a later version": lambda w: (w.register("8"), w.issue(version="8")),
    "the tag of the address moved": _move_address,
    "another model's passport": _attach(BUNDLE, b"{}"),
    "a verdict on the job": job_tag("aml-train.verdict.main", "passed"),
    "files in another order": _reorder,
    "a log that grew": lambda w: w.service.work[JOB].say("late"),
    "the passport attached twice": _attach(BUNDLE),
    "a policy with two keys": _by_two_keys,
}

_MLFLOW = {"MLmodel": b"flavors: {python_function: {}}\n", "python_model.pkl": b"\x80", "conda.yaml": b"name: x\n"}
_ODD = {"a\nb": b"1", "c\\d": b"2", "e": b"", ".hidden/x": b"", "same": b"1", "model.sig": b"the model's own"}
_REPORT = JsonValue(file="outputs/report.json", pointer="/test/f1")


def _shape(**given: Any) -> tuple[Shape, tuple[Requirement, ...]]:
    return Shape(**given), ALL


#: What may be trained, and what a stage can demand of it.
SHAPES: Mapping[str, tuple[Shape, tuple[Requirement, ...]]] = {
    "one file": _shape(files={"model.joblib": b"x" * 9}, source=f"{SOURCE}.d/model.joblib"),
    "an MLflow model": _shape(files=_MLFLOW, type="mlflow_model"),
    "odd names": _shape(files=_ODD),
    "a named output": _shape(source=f"azureml://jobs/{JOB}/outputs/weights"),
    "no gate": _shape(gate=[]),
    "a rule that warns": _shape(gate=rules({"accuracy": ">= 0.99"}, policies=Policies(severity="warn"))),
    "rules of aggregates": _shape(gate=rules({"accuracy": "mean(2) > 0.8", "loss": "p(50) < 0.5"})),
    "a rule on a file": _shape(
        gate=rules({"f1": "> 0.5"}, source=_REPORT), artifacts={_REPORT.file: b'{"test": {"f1": 0.75}}'}
    ),
    "values that are no numbers": _shape(metrics={"accuracy": [0.95], "loss": [0.3], "odd": [math.nan, -math.inf]}),
    "more metrics than tags": _shape(
        metrics={"accuracy": [0.95], "loss": [0.3], **{f"m{n}": [n / 7] for n in range(90)}}
    ),
    "no code": _shape(code=None),
    "no data": _shape(inputs={}, tags={"aml-train.data.train": None}),
    "no commit": _shape(
        tags=dict.fromkeys([f"aml-train.{name}" for name in ("commit", "branch", "repository", "run-url")])
    ),
    "no tests": (Shape(tags={"aml-train.tested": "no tests are configured"}), ("signature", "provenance")),
    "an image that was given": (Shape(image=False), ("signature",)),
}


def check(world: World, require: tuple[Requirement, ...]) -> None:
    """Verify and promote a world's model; nothing may be refused."""
    found = world.verify()
    assert found.faults(require) == ()
    assert {claim.basis for claim in found.claims} <= {"recomputed", "signed", "stated"}
    world.policy = StagePolicy(require=require, where="aml-train.yml:8")
    assert world.promote().status == "changed"
    assert world.verify().faults(require) == ()


@pytest.mark.parametrize("referrers", [True, False], ids=["interface", "fall-back"])
@pytest.mark.parametrize("name", USES)
def test_a_model_in_use_is_verified_and_promoted(name: str, referrers: bool) -> None:
    world = PassportWorld(referrers=referrers)
    USES[name](world)
    assert {claim.basis for claim in world.verify().claims} <= {"recomputed", "signed"}
    check(world, ALL)


@pytest.mark.parametrize("name", SHAPES)
def test_a_model_of_any_shape_is_verified_and_promoted(name: str) -> None:
    shape, require = SHAPES[name]
    check(PassportWorld(shape=shape), require)
