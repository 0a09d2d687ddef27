"""The option ``--json``: a command's result, alone on standard output. Events are written with ``--events``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import click

from aml_train.cli.masking import masker, print_exactly
from aml_train.core.answers import json_number

_HELP: Final = "Print the result as JSON, and nothing else on standard output."
_LINES_HELP: Final = "Print each result as a line of JSON, and nothing else on standard output."

_Option = Callable[[Callable[..., Any]], Callable[..., Any]]


def json_option(*, lines: bool = False) -> _Option:
    """Return the option ``--json``, whose parameter is ``as_json``.

    Args:
        lines: the result is a list, printed as one line for each.
    """
    return click.option("--json", "as_json", is_flag=True, help=_LINES_HELP if lines else _HELP)


def print_result(document: object) -> None:
    """Print a result as JSON, in lines for people."""
    _print(document, indent=2)


def print_result_line(document: object) -> None:
    """Print one of several results as a line of JSON."""
    _print(document, indent=None)


def _print(document: object, *, indent: int | None) -> None:
    print_exactly(json.dumps(_as_json(document, masker().mask), ensure_ascii=False, indent=indent) + "\n")


def result_text(document: object) -> str:
    """Return a result as JSON; paths, dates, NaN and infinities become text."""
    return json.dumps(_as_json(document, str), ensure_ascii=False, indent=2)


def _as_json(value: Any, mask: Callable[[str], str]) -> Any:
    """Return *value* as JSON can hold it, its texts masked; numbers are not: a mask in them would not be JSON."""
    if isinstance(value, Mapping):
        return {mask(str(key)): _as_json(one, mask) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(one, mask) for one in value]
    if isinstance(value, float):
        return json_number(value)
    return value if value is None or isinstance(value, int) else mask(str(value))
