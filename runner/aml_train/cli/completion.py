"""Completion in a shell: the scripts, and the names in a configuration.

click completes commands, options, choices and files. The functions here complete names in aml-train.yml. No service is queried: a key
press must start nothing and sign in nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import click
from click.shell_completion import get_completion_class

from aml_train.config.load import load_targets
from aml_train.core.errors import AmlTrainError

SHELLS: Final = ("bash", "zsh", "fish")
#: click takes this name from that of the program.
_VARIABLE: Final = "_AML_TRAIN_COMPLETE"

_Complete = Callable[[click.Context, click.Parameter, str], list[str]]


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes aml-train's commands in a shell.

    Commands, options, files, states of jobs, and the targets and stages of aml-train.yml are completed. Bash needs version 4.4.

    \b
    bash, in ~/.bashrc:                 eval "$(aml-train completion bash)"
    zsh, in ~/.zshrc after compinit:    eval "$(aml-train completion zsh)"
    fish:                               aml-train completion fish > ~/.config/fish/completions/aml-train.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101 - click has all of SHELLS
    script = kind(context.find_root().command, {}, "aml-train", _VARIABLE)
    # BashComplete.source() runs bash to check its version, which may be another than the one in use.
    click.echo(script.source_template % script.source_vars())


def complete_keys(key: str, *more: str) -> _Complete:
    """Return a completion with the names below *key* of aml-train.yml, and *more*."""

    def complete(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
        return _beginning([*_names(context, key), *more], incomplete)

    return complete


def complete_words(words: Sequence[str]) -> _Complete:
    """Return a completion with *words*."""

    def complete(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
        return _beginning(words, incomplete)

    return complete


def _beginning(words: Sequence[str], incomplete: str) -> list[str]:
    found = dict.fromkeys(words)
    return [word for word in found if word.lower().startswith(incomplete.lower())]


def _names(context: click.Context, key: str) -> tuple[str, ...]:
    """Return the names below *key* in the configuration; none if it cannot be read."""
    directory = context.params.get("directory") or Path()
    try:
        return load_targets(context.params.get("config"), directory=directory).names(key)
    except (AmlTrainError, OSError):
        return ()  # a message would land in the middle of the line that is being edited
