"""``code:``, ``setup:`` and ``data:``: what is sent with a job."""

from __future__ import annotations

import posixpath
from typing import Final, Literal

from aml_train.config.job.grammar import REMOTE_SCHEMES
from aml_train.config.section import PATTERN, CheckedTree, key, keys_of, make, record, section, size
from aml_train.config.yaml.nodes import ListNode, ScalarNode, find, shown
from aml_train.config.yaml.shapes import Choice, Number, Text
from aml_train.config.yaml.structures import Either, Items, Table


def _no_expression(text: str) -> None:
    """Raise ValueError for an expression: AzureML replaces it even inside quotes."""
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


@section
class CodeConfig:
    """``code:``. The default bounds are AzureML's own for snapshots.

    https://learn.microsoft.com/azure/machine-learning/how-to-save-write-experiment-files
    """

    max_size: int = key(
        size("a size such as `1g`"),
        "Most bytes of the code snapshot, such as `1g`; 300 MB by default.",
        default=300_000_000,
    )
    max_files: int = key(
        Number(noun="a whole number of files", minimum=1),
        "Most files of the code snapshot; 2000 by default.",
        default=2000,
    )
    include: tuple[str, ...] = key(
        Items(item=PATTERN, noun="a list of gitignore patterns", least=1),
        "Files that belong to the snapshot although they are left out by default, as gitignore patterns.",
        default=(),
    )


@section
class SetupCommand:
    """One item of ``setup:``, and its place ``file:line``."""

    command: str
    where: str


@section
class DataLink:
    """One entry of ``data:``: the job finds at *local* what this machine has there.

    *local* is relative to the code folder and normalised; *where* is ``file:line``.
    """

    local: str
    path: str = key(_ADDRESS, "Address of the data.")
    type: Literal["uri_folder", "uri_file", "mltable"] = key(
        Choice(words=("uri_folder", "uri_file", "mltable")),
        "`uri_folder` (the default), `uri_file` or `mltable`.",
        default="uri_folder",
    )
    mode: str = key(
        Choice(words=("ro_mount", "download")),
        "`ro_mount` (the default) or `download`: a copy on disk.",
        default="ro_mount",
    )
    where: str


@section
class DataConfig:
    """The keys of ``data:`` that are no paths: effects of changed and unknown data.

    Attributes:
        where: ``file:line`` of the section.
    """

    pin: Literal["warn", "strict"] = key(
        Choice(words=("warn", "strict")),
        "Effect of data that change between the submission and the end of the job: `warn` (the default), or `strict`: the run fails.",
        default="warn",
    )
    unidentified: Literal["allow", "retrain", "fail"] | None = key(
        Choice(words=("allow", "retrain", "fail")),
        "Effect of data whose files cannot be listed: `allow` compares their address alone, `retrain` attaches to no completed "
        "job, and `fail` submits nothing; `retrain` by default for a run that may register, and `allow` for a proposed commit.",
        default=None,
    )
    where: str = "data"


CODE: Final = record(CodeConfig, noun="a mapping with such keys as `max-size`")
SETUP: Final = Items(
    item=Text(noun="a shell command without `${{`", rule=_no_expression), noun="a list of shell commands", least=1
)
DATA: Final = Table(
    noun="a mapping of paths to addresses",
    key=Text(noun="a path below the code folder", rule=_local),
    value=Either(
        noun="an address, or a mapping with `path`",
        scalar=_ADDRESS,
        keys=record(DataLink, noun="a mapping with `path`"),
        short="path",
    ),
    special=keys_of(DataConfig),
)


def setup_commands(checked: CheckedTree) -> tuple[SetupCommand, ...]:
    """Make ``setup``."""
    node = find(checked.tree, "setup")
    items = node.items if isinstance(node, ListNode) else ()
    return tuple(
        SetupCommand(command=item.text, where=item.mark.where) for item in items if isinstance(item, ScalarNode)
    )


def data_links(checked: CheckedTree) -> tuple[DataLink, ...]:
    """Make ``data``; no path may be inside another."""
    given_links = {name: value for name, value in checked.section("data").items() if name not in keys_of(DataConfig)}
    if checked.values.get("sdk") == "v1" and given_links:
        why, remedy = "the SDK v1 takes data from the run configuration", "write `dataReferences` there, or `sdk: v2`"
        what = "paths in `data` and `sdk: v1` exclude each other"
        checked.fault(what, "data", next(iter(given_links)), why=why, remedy=remedy)
    links: dict[str, DataLink] = {}
    for given, value in given_links.items():
        mark, local = checked.place("data", given), posixpath.normpath(given)
        for other in links:
            if f"{local}/".startswith(f"{other}/") or f"{other}/".startswith(f"{local}/"):
                what = f"`data` has `{shown(given)}` and `{shown(other)}`"
                checked.faults.add(mark, what, why="one is inside the other", remedy="keep one of them")
        links[local] = make(DataLink, value, local=local, where=mark.where)
    return tuple(links.values())


def data_config(checked: CheckedTree) -> DataConfig:
    """Make the keys of ``data`` that are no paths."""
    where = checked.place("data").where if checked.has("data") else DataConfig.where
    return make(DataConfig, checked.section("data"), where=where)
