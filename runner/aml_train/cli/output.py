"""What commands print: masked, without control sequences; results as JSON, facts as YAML or JSON."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from aml_train.core import text as plain
from aml_train.core.answers import json_number
from aml_train.core.errors import InvalidError
from aml_train.core.masking import Masker
from aml_train.core.secrets import known_secrets
from aml_train.core.streams import unmasked


def masker() -> Masker:
    """Return the one masker of the running command.

    It knows the secrets of the environment, of the configuration once it is loaded, and of each job that is read. Standard output
    and error pass it; what is cut, or written into a file, is masked before.
    """
    context = click.get_current_context().find_root()
    if not isinstance(context.obj, Masker):
        context.obj = Masker(known_secrets(os.environ, identifiers=False))
    return context.obj


def print_exactly(text: str) -> None:
    """Print a file for another program, secrets included."""
    click.echo(text, nl=False, file=unmasked(sys.stdout))


def json_option(*, lines: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option ``--json``, whose parameter is ``as_json``.

    Args:
        lines: the result is a list, printed as one line for each.
    """
    what = "each result as a line of JSON" if lines else "the result as JSON"
    help_ = f"Print {what}, and nothing else on standard output."
    return click.option("--json", "as_json", is_flag=True, help=help_)


def print_result(document: object, *, indent: int | None = 2) -> None:
    """Print a result as JSON, in lines for people."""
    print_exactly(json.dumps(_as_json(document, masker().mask), ensure_ascii=False, indent=indent) + "\n")


def print_result_line(document: object) -> None:
    """Print one of several results as a line of JSON."""
    print_result(document, indent=None)


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


def printable_line(text: str) -> str:
    """Return *text* masked and made printable, on one line, which may be cut."""
    shown = plain.printable_line(text)
    return masker().mask(shown) if click.get_current_context(silent=True) is not None else shown


def print_lines(lines: Iterable[str], *, err: bool = False) -> None:
    """Print lines of text from outside, made printable."""
    for line in lines:
        click.echo(plain.printable(line), err=err)


def write_file(path: Path, content: bytes) -> None:
    """Write a file, with its folder.

    Raises:
        InvalidError: it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise InvalidError(
            f"{path} cannot be written: {error.strerror}.", hint="Allow it: ls -ld shows its folder's permissions."
        ) from error


def terminal_width() -> int | None:
    """Return the width of the terminal that standard output is; None if it is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def print_facts(facts: Mapping[str, Any], *, as_json: bool) -> None:
    """Print nested values as YAML, which reads well, or as JSON."""
    if as_json:
        print_result(facts)
        return

    click.echo(plain.printable_lines(plain.readable_yaml(dict(facts)).rstrip("\n")))
