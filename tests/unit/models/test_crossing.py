"""Stages in another workspace: what is compared there, what is refused, and how the workspace is found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from aml_train.config.load import load_promotion
from aml_train.config.sections.model import StagePlace, StagePolicy
from aml_train.config.sections.targets import TargetConfig
from aml_train.core.errors import GateFailedError, InvalidError
from aml_train.core.events import ModelPromoted, RuleVerdict
from aml_train.core.tags import Tag
from aml_train.jobs.workspace import ModelView
from aml_train.models.passport.observe import Evidence
from aml_train.models.promotion.change import PromotionRequest
from aml_train.models.promotion.crossing import Crossing
from aml_train.models.promotion.promote import Promoter
from aml_train.pipeline.promotion import _other_workspace
from aml_train.pipeline.target import Host
from tests.support.fake_promotion import Place, rules
from tests.support.memory_passports import MemoryPassports

POLICY = StagePolicy(rules=rules(">= baseline"), bootstrap=True, where="aml-train.yml:8")
ORIGIN = "/subscriptions/s/resourceGroups/g/providers/Microsoft.MachineLearningServices/workspaces/test"


class Two:
    """Two workspaces with the model ``digits``; of the second, files are in memory."""

    def __init__(self) -> None:
        self.here, self.there = Place(), Place()
        self.files, self.copies = MemoryPassports(), MemoryPassports()

    def add(self, acc: float, stage: str | None = "candidate") -> str:
        version = self.here.add(acc, stage)
        self.files.models[f"path/{version}"] = {"weights": version.encode()}
        return version

    def promoter(self) -> Promoter:
        def evidence(place: Place, store: MemoryPassports) -> Evidence:
            return Evidence(
                service=place.service, catalogue=place.catalogue, registry=lambda _host: None, store=store
            )

        def copy(model: ModelView, folder: str) -> str:
            self.copies.models[folder] = dict(self.files.models[model.path])
            return folder

        crossing = Crossing(
            workspace="prod",
            origin=ORIGIN,
            source=evidence(self.here, self.files),
            target=evidence(self.there, self.copies),
            image_host=lambda: "prod.azurecr.io",
            copy_files=copy,
        )
        there = replace(self.there.promoter(), workspace="prod", tracer=crossing.target)
        return replace(self.here.promoter(), crossing=crossing, there=there)


def request(version: str | None = None, policy: StagePolicy = POLICY) -> PromotionRequest:
    return PromotionRequest(model="digits", stage="production", actor="ann", version=version, policy=policy)


def test_the_stage_there_is_compared_with_and_the_version_stays_in_its_stage_here() -> None:
    two = Two()
    # A namesake of the stage here is no baseline of an empty stage there.
    two.add(0.9, "production")
    for acc in (0.5, 0.6):
        two.add(acc)
    assert two.promoter().promote(request("2")).message == (
        "digits version 2 is in production of the workspace prod as version 1, the first one."
    )
    assert [one.verdict for one in two.here.events if isinstance(one, RuleVerdict)] == ["skipped"]
    made = two.promoter().promote(request())
    assert (made.model.version, made.previous, made.source, made.workspace) == ("2", "1", "3", "prod")
    assert two.there.stages() == {"1": "archived", "2": "production"}
    assert two.here.stages() == {"1": "production", "2": "candidate", "3": "candidate"}
    promoted = [one for one in two.here.events if isinstance(one, ModelPromoted)]
    assert [(one.version, one.workspace) for one in promoted] == [("1", "prod"), ("2", "prod")]
    with pytest.raises(GateFailedError, match="does not meet the gate of production"):
        two.promoter().promote(request("2"))
    assert two.promoter().promote(request("3")).status == "unchanged"


def test_a_stage_there_with_something_of_unknown_origin_has_no_baseline() -> None:
    two = Two()
    two.add(0.9)
    two.there.add(0.99, "production")
    with pytest.raises(GateFailedError, match="is no copy of a version here"):
        two.promoter().promote(request("1"))
    assert two.there.stages() == {"1": "production"}
    absolute = replace(POLICY, rules=rules(">= 0.5"))
    assert two.promoter().promote(request("1", absolute)).previous == "1"


def test_a_version_that_claims_to_be_the_copy_does_not_take_its_place() -> None:
    two = Two()
    two.add(0.9)
    forged = {Tag.COPY_OF: f"{ORIGIN}/models/digits/versions/1", Tag.JOB: "job-1", Tag.FILES: "0" * 64}
    tags = {**two.here.tags("1"), Tag.STAGE: "production"}
    two.there.service.registered.append(
        ModelView(name="digits", version="1", path="forged", tags=tags, properties=forged)
    )
    made = two.promoter().promote(request("1"))
    assert (made.status, made.model.version, made.previous) == ("changed", "2", "1")
    two.copies.models[made.model.path]["weights"] = b"other"
    with pytest.raises(GateFailedError, match="is not what was copied: files"):
        two.promoter().promote(request("1"))


def test_a_version_that_moves_meanwhile_is_not_promoted() -> None:
    two = Two()
    two.add(0.9)
    two.there.store.before_hold.append(
        lambda: two.here.catalogue.change_tags("digits", "1", {Tag.STAGE: "archived"}, guard=lambda: None)
    )
    with pytest.raises(GateFailedError, match="was in candidate when it was chosen, and is in archived by now"):
        two.promoter().promote(request("1"))
    assert two.there.stages() == {"1": None}


AZURE = TargetConfig(
    name="azure", kind="azure", subscription_id="s", resource_group="g", workspace="test", sign_in="oidc"
)


def test_where_the_other_workspace_is() -> None:
    host = Host(environ={"A": "b"})
    prod = TargetConfig(name="prod", kind="azure", workspace="ml-prod", registry="prod.azurecr.io")
    assert _other_workspace(host, AZURE, Path(), None) is None
    assert _other_workspace(host, AZURE, Path(), StagePlace(workspace="prod", target=prod)) == (host, prod)
    near = _other_workspace(host, AZURE, Path(), StagePlace(workspace="ml-prod"))
    assert near == (host, replace(AZURE, name="ml-prod", workspace="ml-prod"))
    # From this machine nothing is promoted to Azure.
    local = TargetConfig(name="local", kind="local")
    found = _other_workspace(host, local, Path(), StagePlace(workspace="prod", target=prod))
    assert found is not None
    assert found[0].environ == {"A": "b", "AML_TRAIN_EMULATOR_WORKSPACE": "prod"}
    assert found[1] == local


@pytest.mark.parametrize(
    ("stages", "told"),
    [
        ("{p: {to: {registry: shared}}}", r"aml-train\.yml:3: unknown key `promote\.p\.to\.registry`: a registry of"),
        ("{p: {to: {workspace: local}}}", r"aml-train\.yml:3: `promote\.p\.to` is the local AzureML"),
        (
            "{s: {to: {workspace: w1}}, p: {from: s}}",
            r"aml-train\.yml:3: `promote\.p\.from` is `s`, which is a stage of",
        ),
        ("{p: {to: w1}}", r"aml-train\.yml:3: `promote\.p\.to` must be a mapping with `workspace`"),
    ],
)
def test_what_is_no_place_of_a_stage(stages: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "aml-train.yml").write_text(f"job: job.yml\nmodel: {{name: m, path: outputs/m}}\npromote: {stages}\n")
    with pytest.raises(InvalidError, match=told):
        load_promotion(None, directory=tmp_path, target=None)
