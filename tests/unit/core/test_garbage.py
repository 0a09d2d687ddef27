from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from aml_train.core.garbage import collect_later


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    usual, callbacks = gc.get_threshold(), list(gc.callbacks)
    yield
    gc.set_threshold(*usual)
    gc.callbacks[:] = callbacks


def test_the_first_collection_is_late_and_the_others_are_as_usual() -> None:
    usual = gc.get_threshold()
    collect_later()
    assert gc.get_threshold()[0] > 10 * usual[0]
    gc.collect()
    assert gc.get_threshold() == usual
