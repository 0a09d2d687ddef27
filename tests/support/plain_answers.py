"""Answers of services for tests that give them as plain values."""

from __future__ import annotations

from typing import Any, overload

from aml_train.core.answers import Answer
from aml_train.core.errors import ServiceError


@overload
def answered(value: None) -> None: ...
@overload
def answered(value: Any) -> Any: ...
def answered(value: Any) -> Answer | None:
    """Return what a client of ours makes of the JSON *value*; None, as for 404, of none."""
    return None if value is None else Answer(value, ServiceError)
