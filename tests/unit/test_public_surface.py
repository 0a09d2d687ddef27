"""The names that users write down: commands, options, keys, inputs, outputs, status words and exit codes stay as they are in a file.

A change of them is a change of the interface: make it in tests/unit/public_surface.json too, with a line in CHANGELOG.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import yaml

import aml_train
import aml_train.testing
from aml_train.cli.main import cli
from aml_train.config.document import json_schema
from aml_train.core.errors import AmlTrainError

ROOT = Path(__file__).parents[2]
MODULES = {
    "aml_train": aml_train,
    "aml_train.errors": aml_train.errors,
    "aml_train.events": aml_train.events,
    "aml_train.testing": aml_train.testing,
}
WRITTEN = Path(__file__).with_name("public_surface.json")


def commands(command: click.Command, name: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each command's name with its options and arguments."""
    yield name, sorted(spelled(parameter) for parameter in command.params)
    if isinstance(command, click.Group):
        context = click.Context(command)
        for below in sorted(command.list_commands(context)):
            each = command.get_command(context, below)
            assert each is not None
            yield from commands(each, f"{name} {below}")


def spelled(parameter: click.Parameter) -> str:
    spellings = " ".join(sorted((*parameter.opts, *parameter.secondary_opts)))
    return spellings if isinstance(parameter, click.Option) else f"argument {spellings}"


def keys(schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield the paths of all keys of a JSON schema: ``a.b``, ``a[].b`` for items of a list, ``a.*`` for names that users choose."""
    for name, below in schema.get("properties", {}).items():
        yield f"{path}{name}"
        yield from keys(below, f"{path}{name}.")
    for other, sign in (("items", "[]."), ("additionalProperties", "*.")):
        if isinstance(below := schema.get(other), dict):
            yield from keys(below, f"{path.removesuffix('.') if sign[0] == '[' else path}{sign}")
    for choice in ("anyOf", "oneOf", "allOf"):
        for below in schema.get(choice, ()):
            yield from keys(below, path)


def endings(error: type[AmlTrainError]) -> Iterator[tuple[str, int]]:
    if error.__module__.partition(".")[0] == "aml_train":
        yield error.status, error.exit_code
    for below in error.__subclasses__():
        yield from endings(below)


def test_the_interface_is_the_one_that_is_written_down() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    surface = {
        "commands": dict(commands(cli, "aml-train")),
        "configuration keys": sorted(set(keys(json_schema()))),
        "action inputs": sorted(action["inputs"]),
        "action outputs": sorted(action["outputs"]),
        "python names": {name: sorted(module.__all__) for name, module in MODULES.items()},
        "status words and exit codes": dict(sorted({"passed": 0, "submitted": 0, **dict(endings(AmlTrainError))}.items())),
    }  # fmt: skip
    assert surface == json.loads(WRITTEN.read_text())
