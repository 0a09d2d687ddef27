"""A job of the command line: its tree, completed from the project's own job."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from aml_train.config.job.source import JobSource
from aml_train.config.yaml.nodes import Entry, Faults, MapNode, Mark, Node, ScalarNode, shown

MARK: Final = Mark(file="command line")
_TAKEN_OVER: Final = ("environment", "compute", "experiment_name", "identity", "queue_settings")
"""Keys of the project's job that apply to a command, too."""
_TITLE: Final = 80


@dataclass(frozen=True, kw_only=True)
class CommandLine:
    """The arguments and options of ``aml-train submit``.

    Attributes:
        arguments: the program and its arguments; the job gets exactly these.
        image, environment: where it runs, instead of the configured place; at most one of them.
        compute: instead of the target's and the job's.
        gate: whether the configured gate decides.
        variables: environment variables of the job.
    """

    arguments: tuple[str, ...]
    image: str | None = None
    environment: str | None = None
    compute: str | None = None
    name: str | None = None
    experiment: str | None = None
    display_name: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    instance_type: str | None = None
    instance_count: int | None = None
    shm_size: str | None = None
    gate: bool = False


def quoted(arguments: Sequence[str]) -> str:
    """Quote *arguments* for a shell; each reaches the program unchanged.

    AzureML replaces ``${{…}}`` and ``$[[…]]`` before a shell sees them, and has no escape: a pair of quotes splits them.
    """
    text = shlex.join(arguments)
    return text.replace("${{", "$''{{").replace("$[[", "$''[[")


def command_source(given: CommandLine, configured: JobSource | None, project: Path, faults: Faults) -> JobSource:
    """Return the tree of the job.

    Args:
        given: the command line.
        configured: the project's own job, if there is one.
        project: the folder that is sent as code.
        faults: takes the complaints.
    """
    entries: dict[str, Entry] = {}
    if configured is not None:
        entries = {key: value for key, value in configured.tree.entries.items() if key in _TAKEN_OVER}
    for argument in given.arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            faults.add(MARK, f"the argument `{shown(argument)}` is not UTF-8", remedy="write it in UTF-8")
            return JobSource(tree=MapNode(mark=MARK, entries=entries), file=project, directory=project)
    resources: dict[str, Any] = {
        "instance_type": given.instance_type,
        "instance_count": given.instance_count,
        "shm_size": given.shm_size,
    }
    said = {
        "command": quoted(given.arguments),
        "code": str(project),
        "environment": {"image": given.image} if given.image else given.environment,
        "compute": f"azureml:{given.compute.removeprefix('azureml:')}" if given.compute else None,
        "name": given.name,
        "experiment_name": given.experiment,
        "display_name": given.display_name or _title(given.arguments),
        "tags": dict(given.tags),
        "environment_variables": dict(given.variables),
        "resources": {key: value for key, value in resources.items() if value is not None},
    }
    for key, value in said.items():
        if value is not None and value != {}:
            entries[key] = Entry(mark=MARK, node=_node(value))
    tree = MapNode(mark=MARK, entries=entries)
    if configured is None:
        return JobSource(tree=tree, file=project, directory=project)
    return replace(configured, tree=tree, prefix="")


def _title(arguments: Sequence[str]) -> str:
    """Return the job's name in lists."""
    text = " ".join(shlex.join(arguments).split())
    return text if len(text) <= _TITLE else f"{text[: _TITLE - 1]}…"


def _node(value: Any) -> Node:
    if isinstance(value, Mapping):
        return MapNode(mark=MARK, entries={str(k): Entry(mark=MARK, node=_node(v)) for k, v in value.items()})
    return ScalarNode(mark=MARK, text=str(value), kind="int" if isinstance(value, int) else "text", value=value)
