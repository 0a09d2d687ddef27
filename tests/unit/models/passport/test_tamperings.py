"""Each of many tamperings is refused with its reason: by `verify`, and by a stage that demands a passport."""

from __future__ import annotations

import pytest

from aml_train.config.sections.passport import Requirement
from aml_train.core.errors import GateFailedError
from tests.support.passport_world import PassportWorld
from tests.support.tamperings import TAMPERINGS

ALL: tuple[Requirement, ...] = ("signature", "provenance", "tests")


@pytest.mark.parametrize("name", TAMPERINGS)
def test_verify_refuses_it_with_its_reason(name: str) -> None:
    world = PassportWorld()
    tamper, reason = TAMPERINGS[name]
    tamper(world)
    found = world.verify()
    assert reason in "\n".join(f"{claim.name}: {claim.detail}" for claim in found.refused)
    assert found.faults()


@pytest.mark.parametrize("name", ["a byte of a file", "another image", "another key", "facts left out"])
def test_a_demanding_stage_refuses_it_with_its_reason_and_changes_nothing(name: str) -> None:
    world = PassportWorld()
    tamper, reason = TAMPERINGS[name]
    tamper(world)
    before = world.current().tags
    with pytest.raises(GateFailedError, match=r"passport of digits version 7 does not show|The lineage of") as error:
        world.promote()
    assert error.value.exit_code == 6
    assert "Nothing was changed." in (error.value.hint or "")
    assert world.current().tags == before
    if error.value.message.startswith("The passport"):
        assert reason in error.value.message
    else:
        # The lineage is looked up first; its reason is in the verification, too.
        (why,) = [claim.detail for claim in world.verify().refused if claim.name == "lineage"]
        assert why in error.value.message


def test_without_a_policy_only_a_matching_statement_passes() -> None:
    """Without a policy, only what needs a signer's key to be found out passes as it is."""
    passed = set()
    for name, (tamper, _) in TAMPERINGS.items():
        world = PassportWorld()
        world.trust = None
        tamper(world)
        if not world.verify().faults():
            passed.add(name)
    assert passed == {
        "another key",
        "a signature of nothing",
        "the name of another key",
        "a certificate in place of the key",
        "files signed by another",
    }
