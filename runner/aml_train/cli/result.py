"""The option ``--json``: a command's result, alone on standard output. Events are written with ``--events``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import click

from aml_train.cli.masking import masker, print_exactly
from aml_train.core.answers import json_number
from aml_train.core.masked_events import masked

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
    """Print JSON whose texts are masked: a mask in its numbers would not be JSON."""
    mask = masker().mask
    shown = masked(json.loads(json.dumps(finite(document), default=str)), mask, mask)
    print_exactly(json.dumps(shown, ensure_ascii=False, indent=indent) + "\n")


def result_text(document: object) -> str:
    """Return a result as JSON; paths, dates, NaN and infinities become text."""
    return json.dumps(finite(document), ensure_ascii=False, indent=2, default=str)


def finite(value: Any) -> Any:
    """Return *value* as JSON can hold it: numbers that are not finite become text."""
    if isinstance(value, float):
        return json_number(value)
    if isinstance(value, Mapping):
        return {key: finite(one) for key, one in value.items()}
    return [finite(one) for one in value] if isinstance(value, list | tuple) else value
