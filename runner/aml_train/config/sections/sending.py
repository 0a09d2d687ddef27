"""What goes with a job: ``code:``, ``setup:`` and ``data:`` of aml-train.yml. docs/configuration.md has the same keys."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any, Final

from aml_train.config.job.grammar import REMOTE_SCHEMES
from aml_train.config.model import CodeConfig, DataLink, SetupCommand
from aml_train.config.sections.tests import PATTERN, size_shape
from aml_train.config.yaml.nodes import Faults, ListNode, MapNode, ScalarNode, find, shown
from aml_train.config.yaml.shapes import Choice, Number, Text
from aml_train.config.yaml.structures import Either, Items, Key, Record, Table


def _no_expression(text: str) -> None:
    """Raise where AzureML would put something else in: it knows nothing of quotes."""
    for sign in ("${{", "$[["):
        if sign in text:
            raise ValueError(f"`{sign}` belongs into the job's command")


def _local(text: str) -> None:
    if text.startswith("/") or posixpath.normpath(text).split("/")[0] in ("..", "."):
        raise ValueError(f"`{shown(text)}` is no path below the code folder")
    if "\n" in text or "\r" in text:
        raise ValueError("it has a line break")
    _no_expression(text)


def _address(text: str) -> None:
    if text.split(":", 1)[0].lower() not in REMOTE_SCHEMES or ":" not in text:
        raise ValueError(f"`{shown(text)}` is no address")


_ADDRESS: Final = Text(
    noun="an address such as `azureml://datastores/NAME/paths/…` or `azureml:NAME:VERSION`", rule=_address
)
CODE: Final = Record(
    noun="a mapping with such keys as `max-size`",
    keys={
        "max-size": Key(
            size_shape("a size such as `1g`"), "Most bytes of the code snapshot, such as `1g`; 300 MB by default."
        ),
        "max-files": Key(
            Number(noun="a whole number of files", minimum=1), "Most files of the code snapshot; 2000 by default."
        ),
        "include": Key(
            Items(item=PATTERN, noun="a list of gitignore patterns", least=1),
            "Files that belong to the snapshot although they are left out by default, as gitignore patterns.",
        ),
    },
)
SETUP: Final = Items(
    item=Text(noun="a shell command without `${{`", rule=_no_expression), noun="a list of shell commands", least=1
)
DATA: Final = Table(
    noun="a mapping of paths to addresses",
    key=Text(noun="a path below the code folder", rule=_local),
    value=Either(
        noun="an address, or a mapping with `path`",
        scalar=_ADDRESS,
        keys=Record(
            noun="a mapping with `path`",
            keys={
                "path": Key(_ADDRESS, "Address of the data.", required=True),
                "type": Key(
                    Choice(words=("uri_folder", "uri_file", "mltable")),
                    "`uri_folder` (the default), `uri_file` or `mltable`.",
                ),
                "mode": Key(
                    Choice(words=("ro_mount", "download")), "`ro_mount` (the default) or `download`: a copy on disk."
                ),
            },
        ),
    ),
)


def code_config(found: Mapping[str, Any]) -> CodeConfig:
    """Make ``code``."""
    return CodeConfig(
        max_size=found.get("max-size", CodeConfig.max_size),
        max_files=found.get("max-files", CodeConfig.max_files),
        include=tuple(found.get("include", ())),
    )


def setup_commands(tree: MapNode) -> tuple[SetupCommand, ...]:
    """Make ``setup``, which has been checked."""
    node = find(tree, "setup")
    items = node.items if isinstance(node, ListNode) else ()
    return tuple(
        SetupCommand(command=item.text, where=item.mark.where) for item in items if isinstance(item, ScalarNode)
    )


def data_links(tree: MapNode, found: Mapping[str, Any], faults: Faults) -> tuple[DataLink, ...]:
    """Make ``data``; no entry may lie within another."""
    node = find(tree, "data")
    links: dict[str, DataLink] = {}
    for key, value in found.items():
        mark = node.entries[key].mark if isinstance(node, MapNode) else tree.mark
        local = posixpath.normpath(key)
        for other in links:
            if f"{local}/".startswith(f"{other}/") or f"{other}/".startswith(f"{local}/"):
                faults.add(
                    mark,
                    f"`data` has `{shown(key)}` and `{shown(other)}`",
                    why="one lies within the other",
                    remedy="keep one of them",
                )
        settings = {"path": value} if isinstance(value, str) else dict(value)
        if "path" in settings:
            links[local] = DataLink(local=local, where=mark.where, **settings)
    return tuple(links.values())
