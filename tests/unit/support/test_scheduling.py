"""What runs together, in which order, and alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.scheduling import (
    ALONE,
    APART,
    GROUPS,
    LONG,
)

ROOT = Path(__file__).parents[3]


def test_the_modules_that_are_named_are_there() -> None:
    assert [module for module in (*APART, *LONG) if not (ROOT / module.partition("::")[0]).is_file()] == []


@pytest.mark.parametrize(
    ("mark", "named"), [("alone", named) for named in ALONE] + [("kills", named) for named in GROUPS["kills"]]
)
def test_what_cannot_run_beside_others_is_marked(mark: str, named: str) -> None:
    module, _, function = named.partition("::")
    text = (ROOT / module).read_text()
    before, _, _ = text.partition(f"def {function}(")
    assert function or f"pytestmark = pytest.mark.{mark}" in text
    assert not function or f"@pytest.mark.{mark}" in before[before.rindex("\n\n\n") :]
