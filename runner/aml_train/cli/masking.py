"""The masker of a command, and what is printed without it."""

from __future__ import annotations

import os
import sys

import click

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
