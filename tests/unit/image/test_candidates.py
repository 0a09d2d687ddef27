"""What becomes of the candidate's tag after a release."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from aml_train.core.events import Event, Notice
from aml_train.image.builder import Candidate
from aml_train.image.builders.engine import EngineBuilder
from aml_train.image.context import ImageContext
from aml_train.image.registry.client import Registry
from tests.support.image_configs import plan
from tests.unit.image.registry.test_http import Script, answer


def notices(url: str, status: int) -> tuple[list[str], list[str]]:
    """Return what is said, and what was asked, where the registry at *url* answers the removal with *status*."""
    events: list[Event] = []
    script = Script(lambda *_: answer(status))
    ctx = ImageContext(
        spec=plan(),
        tests=None,
        engine=cast("Any", SimpleNamespace(images=SimpleNamespace(remove=lambda *_args, **_options: None))),
        location=cast("Any", SimpleNamespace(push_name="r.test")),
        listener=events.append,
        registry=Registry(url, transport=script, attempts=1),
    )
    candidate = Candidate(ctx, "c-1")
    candidate.pushed = True
    EngineBuilder(cast("Any", None)).discard(ctx, candidate)
    candidate.untag()
    return [event.text for event in events if isinstance(event, Notice)], script.log


@pytest.mark.parametrize("status", [401, 403, 405])
def test_a_candidate_that_stays_in_azures_registry_is_named_once_with_the_role(status: int) -> None:
    said, asked = notices("https://my.azurecr.io", status)
    assert len(said) == len(asked) == 1
    assert said[0].startswith(
        "The candidate digits-candidate:c-1 stays in the registry, as those of other runs do, because "
    )
    for word in (
        "AcrPush",
        "AcrDelete",
        "Container Registry Repository Contributor",
        "--filter 'digits-candidate:.*'",
    ):
        assert word in said[0]
