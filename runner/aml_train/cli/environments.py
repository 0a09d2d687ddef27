"""The commands ``aml-train emulator environment …``: local images that play Azure's curated environments."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click

from aml_train.cli.emulator import asked


@click.group()
def environment() -> None:
    """Name images of this machine that play Azure's curated environments.

    \b
    aml-train emulator environment add 'AzureML-acpt-*' my-image:1
    aml-train emulator environment add 'sklearn-1.5:*' my-sklearn:1

    Patterns are compared with the environment's NAME and NAME:VERSION; the latest that fits counts.
    """


@environment.command("add")
@click.argument("pattern")
@click.argument("image")
def environment_add(pattern: str, image: str) -> None:
    """Let IMAGE play the curated environments that are like PATTERN."""
    found = asked("environments", {"pattern": pattern, "image": image}, method="POST")
    click.echo(json.dumps(found["environments"], indent=2))


@environment.command("list")
def environment_list() -> None:
    """Show which image plays which environments; the first that fits counts."""
    click.echo(json.dumps(asked("environments")["environments"], indent=2))


@environment.command("clear")
def environment_clear() -> None:
    """Forget the images that were named."""
    found = asked("environments", method="DELETE")
    click.echo(json.dumps(found["environments"], indent=2))


def pairs_of(texts: Sequence[str]) -> dict[str, str]:
    """Return images by pattern, of texts such as ``PATTERN=IMAGE``.

    Raises:
        InvalidError: a text is something else.
    """
    from aml_train.core.errors import InvalidError

    found = {}
    for text in texts:
        pattern, _, image = text.partition("=")
        if not pattern.strip() or not image.strip():
            raise InvalidError(
                f"--environment: {text!r} is not PATTERN=IMAGE.", hint="Such as 'AzureML-acpt-*=my-image:1'."
            )
        found[pattern.strip()] = image.strip()
    return found
