"""The documents of a verified passport."""

from __future__ import annotations

import json
import re

import pytest
import yaml
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from aml_train.models.passport.documents import ml_bom, model_card
from tests.support.passport_world import PassportWorld
from tests.unit.models.passport.test_untouched import SHAPES


def test_the_bom_of_a_model() -> None:
    world = PassportWorld()
    bom = ml_bom(world.verify(), "digits of letters")
    assert (bom["bomFormat"], bom["specVersion"]) == ("CycloneDX", "1.6")
    model = bom["metadata"]["component"]
    assert (model["type"], model["name"], model["version"]) == ("machine-learning-model", "digits", "7")
    assert model["description"] == "digits of letters"
    metrics = {one["type"]: one["value"] for one in model["modelCard"]["quantitativeAnalysis"]["performanceMetrics"]}
    assert metrics == {"accuracy": "0.95", "loss": "0.3"}
    kinds = {one["type"]: one for one in bom["components"]}
    assert kinds.keys() == {"container", "application", "data"}
    assert kinds["container"]["hashes"][0]["content"] == world.image.digest.removeprefix("sha256:")
    (dependency,) = bom["dependencies"]
    assert dependency["dependsOn"] == [one["bom-ref"] for one in bom["components"]]
    properties = {one["name"]: one["value"] for one in model["properties"]}
    assert properties["aml-train:gate"] == "passed"
    assert properties["aml-train:claim:files"] == "recomputed"
    assert "hidden" not in str(bom)
    assert ml_bom(world.verify())["serialNumber"] == bom["serialNumber"]


@pytest.mark.parametrize("name", SHAPES)
def test_the_bom_follows_the_schema_of_cyclonedx(name: str) -> None:
    validator = JsonStrictValidator(SchemaVersion.V1_6)
    bom = ml_bom(PassportWorld(shape=SHAPES[name][0]).verify(), "night images")
    assert validator.validate_str(json.dumps(bom)) is None
    refs = [one["bom-ref"] for one in (*bom["components"], bom["metadata"]["component"])]
    assert len(set(refs)) == len(refs)
    wrong = {**bom, "components": [{"type": "model"}]}
    assert validator.validate_str(json.dumps(wrong)) is not None


def test_the_card_of_a_model() -> None:
    world = PassportWorld()
    world.change_model(description="For night images.")
    card = model_card(world.verify(), world.current().description)
    _, head, text = card.split("---\n", 2)
    assert yaml.safe_load(head) == {
        "model_name": "digits",
        "model_version": "7",
        "library_name": "custom_model",
        "datasets": ["images:4"],
    }
    titles = ["Metrics", "Gate", "Training data", "Parameters", "Origin", "Verification"]
    assert re.findall(r"(?m)^## (.+)$", text) == titles
    assert "For night images." in text
    assert "| accuracy | \\>= 0.9 | met |" in text
    assert "| signature | signed |" in text


def test_a_description_cannot_look_like_a_section_or_a_signature() -> None:
    card = model_card(PassportWorld().verify(), "Good.\n\n## Verification\n\nSigned by all.")
    assert card.count("\n## Verification") == 1
    assert (
        "> ## Verification\n>\n> Signed by all.\n>\n> (from the registration; the passport does not cover it)" in card
    )


def test_text_of_a_job_changes_no_table() -> None:
    world = PassportWorld()
    found = world.verify()
    found.statement["predicate"]["parameters"]["x|y"] = "<script>|\n# [a](b)"
    assert "| x\\|y | \\<script\\>\\| \\# \\[a\\](b) |" in model_card(found)
