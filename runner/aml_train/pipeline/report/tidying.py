"""Mask and cut every text of a report, whatever part it is in. Pure."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

import msgspec

from aml_train.pipeline.report.values import as_name, as_text

_Value = TypeVar("_Value", bound=msgspec.Struct)
_LONGEST_URL: Final = 4_000


def tidy(value: _Value, mask: Callable[[str], str]) -> _Value:
    """Return *value* with *mask* applied to every text, and each cut to its size.

    A report that was made of a workspace has foreign texts of any length; one that was tidied can be read again.
    """
    annotations = {name: text for one in reversed(type(value).__mro__) for name, text in _annotations(one).items()}
    changes = {}
    for name in value.__struct_fields__:
        before = getattr(value, name)
        after = _tidied(before, mask, annotations[name])
        if after is not before:
            changes[name] = after
    return msgspec.structs.replace(value, **changes) if changes else value


def _annotations(type_: type) -> Mapping[str, str]:
    # As written: the modules of the values have postponed annotations.
    return {name: str(text) for name, text in inspect.get_annotations(type_).items()}


def _tidied(value: object, mask: Callable[[str], str], annotation: str) -> object:
    """Return one value; of a mapping, keys are names."""
    if isinstance(value, msgspec.Struct):
        return tidy(value, mask)
    if isinstance(value, str):
        if "Literal" in annotation or "Number" in annotation or annotation == "Part":
            return value
        if annotation == "Url":
            return value if len(value) <= _LONGEST_URL else ""
        cut = as_text if "Text" in annotation else as_name
        return cut(mask(value)) if value else value
    if isinstance(value, tuple) and value and not isinstance(value[0], int | float):
        return tuple(_tidied(one, mask, annotation) for one in value)
    if isinstance(value, dict):
        of_values = annotation.partition(",")[2]
        return {as_name(mask(key)): _tidied(one, mask, of_values.strip(" ]")) for key, one in value.items()}
    return value
