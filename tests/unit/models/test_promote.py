"""Who gets into a stage, who leaves it, and what a run that was killed leaves behind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from aml_train.config.sections.model import StagePolicy
from aml_train.core.errors import AmlTrainError, CancelledError, GateFailedError, InvalidError, ServiceError
from aml_train.core.events import ModelPromoted, Notice, PromotionDecided, RuleVerdict
from aml_train.core.tags import Tag
from aml_train.jobs.workspace import ModelView
from aml_train.models.promotion.change import PromotionRequest
from tests.support.fake_promotion import KilledError, Place, rules

POLICY = StagePolicy(rules=rules(">= baseline"), bootstrap=True, where="aml-train.yml:8")


def request(version: str | None = None, **more: Any) -> PromotionRequest:
    return PromotionRequest(
        **{"model": "digits", "stage": "production", "actor": "ann", "version": version, "policy": POLICY, **more}
    )


def production(place: Place) -> list[str]:
    return [version for version, stage in place.stages().items() if stage == "production"]


def test_the_decision_is_reported_before_anyone_is_asked() -> None:
    place = Place()
    place.add(0.5, "production")
    place.add(0.6, "candidate")
    asked: list[str] = []

    def refuse(question: str) -> bool:
        asked.append(question)
        assert [one for one in place.events if isinstance(one, RuleVerdict)], "the rules are known"
        assert isinstance(place.events[-1], PromotionDecided)
        return False

    with pytest.raises(CancelledError, match="Not confirmed: nothing was changed"):
        place.promoter().promote(request("2"), refuse)
    assert asked == ["Promote digits version 2 to production (gate: passed), and archive version 1?"]
    assert place.stages() == {"1": "production", "2": "candidate"}
    assert not place.store.contents
    decided = place.events[-1]
    assert isinstance(decided, PromotionDecided)
    stages = {one.version: (one.before, one.after) for one in decided.changes if one.tag == "aml-train.stage"}
    assert stages == {"2": ("candidate", "production"), "1": ("production", "archived")}
    assert place.promoter().promote(request("2"), lambda _: True).status == "changed"
    with pytest.raises(CancelledError):
        place.promoter().rollback(request(), refuse_quietly)
    assert place.promoter().rollback(request(), lambda _: True).model.version == "1"


def refuse_quietly(question: str) -> bool:
    assert question == "Roll digits in production back to version 1, and archive version 2?"
    return False


def test_what_was_decided_before_the_answer_must_hold_after_it() -> None:
    place = Place()
    place.add(0.5, "production")
    place.add(0.6, "candidate")
    place.add(0.7, "candidate")

    def meanwhile(_question: str) -> bool:
        place.promoter().promote(request("3", actor="bob"))
        return True

    with pytest.raises(GateFailedError, match="version 3 is in production by now"):
        place.promoter().promote(request("2"), meanwhile)
    assert production(place) == ["3"]


def test_finishing_what_another_run_began_is_asked_for() -> None:
    place = Place()
    place.add(0.5, "production")
    place.add(0.6, "candidate")
    place.catalogue.death = 2
    with pytest.raises(KilledError):
        place.promoter().promote(request("2"))
    place.catalogue.death = None
    asked: list[str] = []

    def note(question: str) -> bool:
        asked.append(question)
        return len(asked) > 1

    with pytest.raises(CancelledError):
        place.promoter().promote(request("2"), note)
    assert asked[0].startswith("Finish the promote of version 2 to production, which ann began ")
    assert place.promoter().promote(request("2"), note).status == "unchanged"


def test_the_first_model_goes_into_an_empty_stage() -> None:
    place = Place()
    place.add(0.5)
    made = place.promoter().promote(request("1", reason="first", run_url="https://ci/1"))
    assert (made.status, made.previous) == ("changed", None)
    assert made.message == "digits version 1 is in production, the first one."
    assert place.stages() == {"1": "production"}
    tags = place.tags("1")
    assert (tags["aml-train.promoted-by"], tags["aml-train.promotion-reason"]) == ("ann", "first")
    assert tags["aml-train.promotion-run"] == "https://ci/1"
    assert tags["aml-train.promotion"] == made.change


def test_a_better_one_takes_the_place_and_the_other_is_archived() -> None:
    place = Place()
    place.add(0.5, "production")
    place.add(0.6, "candidate")
    made = place.promoter().promote(request("2", actor="bob"))
    assert place.stages() == {"1": "archived", "2": "production"}
    assert made.message == "digits version 2 is in production after version 1."
    assert place.tags("1")["aml-train.replaced-by"] == "2"
    assert place.tags("1")["aml-train.promotion"] == place.tags("2")["aml-train.promotion"] == made.change
    assert place.tags("1")["aml-train.archived-by"] == "bob"
    (event,) = [one for one in place.events if isinstance(one, ModelPromoted)]
    assert (event.version, event.previous, event.actor) == ("2", "1", "bob")
    (change,) = place.promoter().record("digits").history
    assert (change.version, change.previous, change.came_from, change.path) == ("2", ("1",), "candidate", "path/2")
    assert change.gate == "passed"
    assert "wanted >= 0.5" in change.rules[0]


def test_a_worse_one_is_refused_and_nothing_changes() -> None:
    place = Place()
    place.add(0.5, "production")
    place.add(0.4, "candidate")
    with pytest.raises(
        GateFailedError, match=r"version 2 does not meet the gate of production: acc = 0.4, wanted >= 0.5"
    ):
        place.promoter().promote(request("2"))
    assert place.stages() == {"1": "production", "2": "candidate"}
    assert not place.store.contents


def test_a_first_model_needs_bootstrap_where_rules_compare() -> None:
    place = Place()
    place.add(0.5)
    strict = replace(POLICY, bootstrap=False)
    with pytest.raises(GateFailedError, match="the model digits with stage production is missing"):
        place.promoter().promote(request("1", policy=strict))


def test_the_newest_candidate_that_passed_is_chosen_and_said() -> None:
    place = Place()
    place.add(0.5, "production")
    place.add(0.6, "candidate")
    place.add(0.9, "candidate", gate="none")
    place.add(0.95, "archived")
    made = place.promoter().promote(request())
    assert made.model.version == "2"
    assert any(
        "candidate that passed its gate is version 2" in one.text for one in place.events if isinstance(one, Notice)
    )


def test_only_from_the_stages_that_are_allowed() -> None:
    place = Place()
    place.add(0.5)
    policy = replace(POLICY, sources=("candidate", "staging"))
    with pytest.raises(
        GateFailedError, match=r"is in no stage, .* from candidate or staging only \(aml-train.yml:8\)"
    ):
        place.promoter().promote(request("1", policy=policy))


def test_a_dry_run_decides_and_changes_nothing() -> None:
    place = Place()
    place.add(0.5, "production")
    place.add(0.6)
    made = place.promoter().promote(request("2", dry_run=True))
    assert made.message == "digits version 2 would be in production, and version 1 archived. Nothing was changed."
    assert (place.catalogue.writes, place.store.contents) == ([], {})
    place.add(0.1)
    with pytest.raises(GateFailedError, match="does not meet"):
        place.promoter().promote(request("3", dry_run=True))


@pytest.mark.parametrize("expect", ["1", "NONE"])
def test_another_one_than_expected_is_in_the_stage(expect: str) -> None:
    place = Place()
    place.add(0.1)
    place.add(0.2, "production")
    place.add(0.9)
    before = "version 1" if expect == "1" else "nothing"
    with pytest.raises(
        GateFailedError, match=f"version 2 is in production by now, and not {before}, as was expected"
    ):
        place.promoter().promote(request("3", expect=expect))
    assert place.promoter().promote(request("3", expect="2")).status == "changed"


def test_whoever_decided_against_another_one_is_refused() -> None:
    place = Place()
    place.add(0.1, "production")
    place.add(0.2)
    place.add(0.3)
    other = place.promoter()

    def meanwhile() -> None:
        other.promote(request("2", actor="eve"))

    place.store.before_hold.append(meanwhile)
    with pytest.raises(
        GateFailedError,
        match=r"version 2 is in production by now \(promote by eve, .*\), and not version 1, as was decided against",
    ):
        place.promoter().promote(request("3"))
    assert place.stages() == {"1": "archived", "2": "production", "3": None}


def test_a_lineage_that_is_broken_is_refused() -> None:
    place = Place()
    place.add(0.5)
    del place.service.history_of["job-1"]
    with pytest.raises(
        GateFailedError, match="The lineage of digits version 1 is broken: job job-1: there is no such job"
    ):
        place.promoter().promote(request("1"))


@pytest.mark.parametrize("death", [1, 2])
def test_what_a_killed_run_began_the_next_one_finishes(death: int) -> None:
    place = Place()
    place.add(0.1, "production")
    place.add(0.2)
    place.add(0.3)
    place.catalogue.death = death
    with pytest.raises(KilledError):
        place.promoter().promote(request("2"))
    assert len(production(place)) == death
    place.catalogue.death = None
    # The next request is judged against the finished change: 2 is in production, and not 1.
    with pytest.raises(GateFailedError, match="version 2 is in production by now"):
        place.promoter().promote(request("3", actor="bob", expect="1"))
    assert place.stages() == {"1": "archived", "2": "production", "3": None}
    record = place.promoter().record("digits")
    assert (record.pending, record.history[-1].finished_by, record.history[-1].actor) == (None, "bob", "ann")
    assert any("Finished the promote of version 2" in one.text for one in place.events if isinstance(one, Notice))


def test_what_was_begun_is_struck_out_where_somebody_changed_the_stage_since() -> None:
    place = Place()
    place.add(0.1, "production")
    place.add(0.2)
    place.add(0.3)
    place.catalogue.death = 1
    with pytest.raises(KilledError):
        place.promoter().promote(request("2"))
    place.catalogue.death = None
    place.catalogue.change_tags("digits", "1", {"aml-train.stage": None}, guard=lambda: None)
    place.catalogue.change_tags("digits", "3", {"aml-train.stage": "production"}, guard=lambda: None)
    place.promoter().promote(request("1", policy=StagePolicy()))
    assert place.stages() == {"1": "production", "2": None, "3": "archived"}
    assert [change.version for change in place.promoter().record("digits").history] == ["1"]
    assert any("Struck out the promote of version 2" in one.text for one in place.events if isinstance(one, Notice))


def test_a_lost_lock_ends_it_before_the_next_write() -> None:
    place = Place()
    place.add(0.1, "production")
    place.add(0.2)
    original = place.catalogue.change_tags

    def once(*args: Any, **more: Any) -> None:
        original(*args, **more)
        place.store.lost = True

    place.catalogue.change_tags = once  # type: ignore[method-assign]
    with pytest.raises(ServiceError, match="the lock was lost"):
        place.promoter().promote(request("2"))
    assert [version for version, _ in place.catalogue.writes] == ["2"]
    assert place.promoter().record("digits").pending is not None


def test_rollbacks_go_back_step_by_step() -> None:
    place = Place()
    for acc in (0.1, 0.2, 0.3):
        version = place.add(acc)
        place.promoter().promote(request(version))
    made = place.promoter().rollback(request(reason="bad"))
    assert made.message == "digits version 2 is in production again; version 3 is archived."
    assert place.promoter().rollback(request()).model.version == "1"
    with pytest.raises(GateFailedError, match="nothing was in production before version 1"):
        place.promoter().rollback(request())
    assert place.stages() == {"1": "production", "2": "archived", "3": "archived"}
    assert "aml-train.replaced-by" not in place.tags("1")
    # Forward again, and back to what was there before.
    place.promoter().promote(request("3"))
    assert place.promoter().rollback(request()).model.version == "1"


def test_a_rollback_does_not_guess() -> None:
    place = Place()
    place.add(0.1, "production")
    place.add(0.2)
    with pytest.raises(GateFailedError, match="by the record of promotions it should be none"):
        place.promoter().rollback(request())
    place.promoter().promote(request("2"))
    place.catalogue.change_tags("digits", "2", {"aml-train.stage": None}, guard=lambda: None)
    with pytest.raises(GateFailedError, match="nothing is in production: there is no saying"):
        place.promoter().rollback(request())
    place.catalogue.change_tags("digits", "1", {"aml-train.stage": "production"}, guard=lambda: None)
    with pytest.raises(
        GateFailedError, match="by the record of promotions it should be version 2: something else changed"
    ):
        place.promoter().rollback(request())


@pytest.mark.parametrize(
    ("more", "error", "reason"),
    [
        ({"stage": "Archived"}, InvalidError, "Nothing is promoted to `archived`"),
        ({"reason": "x" * 501}, InvalidError, "The reason has 501 characters"),
        ({"model": "other"}, InvalidError, "There is no model other"),
        ({"version": "9"}, InvalidError, "There is no version 9 of the model digits"),
    ],
)
def test_what_cannot_be_asked(more: dict[str, Any], error: type[AmlTrainError], reason: str) -> None:
    place = Place()
    place.add(0.1)
    with pytest.raises(error, match=reason):
        place.promoter().promote(request(**more))


@pytest.mark.parametrize(
    ("tag", "field", "staged"),
    [
        (None, "Development", None),  # Azure's own answer for a version for which nobody has set a stage
        (None, None, None),
        (None, "Production", "production"),
        ("candidate", "Development", "candidate"),
        ("development", None, "development"),  # a stage of the user's own that is called so
    ],
)
def test_the_stage_that_azureml_gives_each_version_is_none(
    tag: str | None, field: str | None, staged: str | None
) -> None:
    tags = {} if tag is None else {Tag.STAGE: tag}
    assert ModelView(name="digits", version="1", path="p", stage=field, tags=tags).staged == staged
