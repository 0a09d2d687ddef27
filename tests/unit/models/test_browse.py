"""Lists of models, one version whole, and how a version is named."""

from __future__ import annotations

import json

import pytest

from aml_train.config.sections.model import StagePolicy
from aml_train.core.errors import InvalidError
from aml_train.jobs.workspace import ModelView
from aml_train.models.browse import ModelFilter, describe_model, find_model, list_models
from aml_train.models.promotion.change import PromotionRequest
from tests.support.fake_promotion import Place


def filled() -> Place:
    place = Place()
    for acc in (0.1, 0.2, 0.3):
        version = place.add(acc, "candidate")
        place.catalogue.change_tags(
            "digits", version, {"aml-train.metric.acc": repr(acc), "team": version}, guard=lambda: None
        )
    for version in ("1", "2"):
        request = PromotionRequest(
            model="digits", stage="production", actor="ann", version=version, policy=StagePolicy(), reason="r"
        )
        place.promoter().promote(request)
    place.service.registered.append(ModelView(name="letters", version="1", path="p", stage="Production"))
    return place


def test_models_with_their_stages() -> None:
    place = filled()
    rows = [row.facts() for row in list_models(place.service, place.catalogue, None, ModelFilter())]
    assert rows == [
        {"name": "digits", "versions": 3, "latest": "3", "stages": {"candidate": ["3"], "production": ["2"]}},
        {"name": "letters", "versions": 1, "latest": "1", "stages": {"production": ["1"]}},
    ]


@pytest.mark.parametrize(
    ("pattern", "wanted", "found"),
    [
        (None, ModelFilter(stage="production"), ["digits:2", "letters:1"]),
        ("DIG*", ModelFilter(), ["digits:3", "digits:2", "digits:1"]),
        (None, ModelFilter(tags={"team": None}), ["digits:3", "digits:2", "digits:1"]),
        (None, ModelFilter(tags={"team": "1", "aml-train.gate": "passed"}), ["digits:1"]),
        ("x", ModelFilter(), []),
    ],
)
def test_what_is_wanted(pattern: str | None, wanted: ModelFilter, found: list[str]) -> None:
    place = filled()
    rows = list_models(place.service, place.catalogue, pattern, wanted)
    assert [f"{one.name}:{one.version}" for row in rows for one in row.versions] == found


@pytest.mark.parametrize(
    ("address", "version"), [("digits", "3"), ("digits:1", "1"), ("digits@Production", "2"), ("digits@archived", "1")]
)
def test_how_a_version_is_named(address: str, version: str) -> None:
    place = filled()
    assert find_model(place.service, place.catalogue, address).version == version


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("digits:9", "has no version 9"),
        ("digits@staging", "has no version in staging"),
        ("other", r"There is no model other in the workspace.\nSee: aml-train model list"),
        ("digit", r"There is no model digit in the workspace.\nDid you mean digits\?"),
        ("a:b:c", "names no model"),
    ],
)
def test_a_version_that_is_not_there(address: str, reason: str) -> None:
    place = filled()
    with pytest.raises(InvalidError, match=reason):
        find_model(place.service, place.catalogue, address)


def test_a_version_whole_with_its_promotions() -> None:
    place = filled()
    told = describe_model(find_model(place.service, place.catalogue, "digits:1"), place.promoter().record("digits"))
    assert (told["stage"], told["metrics"], told["job"]) == ("archived", {"acc": 0.1}, "job-1")
    assert [(one["what"], one.get("after"), one.get("replaced by")) for one in told["promotions"]] == [
        ("promote to production", None, None),
        ("archived from production", None, "2"),
    ]
    assert "aml-train.metric.acc" not in told["tags"]
    facts = json.loads(json.dumps(describe_model(find_model(place.service, place.catalogue, "digits@production"))))
    assert (facts["version"], facts["gate"], facts["metrics"]) == ("2", "passed", {"acc": 0.2})
