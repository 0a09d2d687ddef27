"""Numbers that JSON has no words for."""

from __future__ import annotations

import json
import math

import pytest

from aml_train.core.answers import Answer, json_number


@pytest.mark.parametrize("value", [0.0, -1.5, 1e300, math.nan, math.inf, -math.inf])
def test_a_number_is_read_as_it_was_written(value: float) -> None:
    text = json.dumps({"value": json_number(value)}, allow_nan=False)
    found = Answer(json.loads(text), ValueError).number("value")
    assert found == value or (math.isnan(found) and math.isnan(value))
