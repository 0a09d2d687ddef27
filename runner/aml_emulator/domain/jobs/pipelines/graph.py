"""The graph of a pipeline job: its nodes, and where their inputs come from. Pure.

Nodes have the form in which azure-ai-ml 1.35 sends them (``entities/_builders/base_node.py``, ``_to_rest_object``): keys in
snake case but for ``componentId`` and ``computeId``, and each binding as the value of a literal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final

from aml_emulator.domain.errors import InvalidError, NotSupportedError

COMMAND: Final = "command"
PIPELINE: Final = "pipeline"
SWEEP: Final = "sweep"
PARALLEL: Final = "parallel"
KINDS: Final = (COMMAND, PARALLEL, PIPELINE, SWEEP)

_FIELDS: Final = frozenset(
    {
        "_source",
        "comment",
        "componentId",
        "computeId",
        "description",
        "display_name",
        "distribution",
        "environment",
        "environment_variables",
        "identity",
        "inputs",
        "limits",
        "name",
        "outputs",
        "properties",
        "queue_settings",
        "resources",
        "services",
        "settings",
        "tags",
        "type",
    }
)

PARALLEL_SETTINGS: Final = (
    "error_threshold",
    "mini_batch_error_threshold",
    "mini_batch_size",
    "partition_keys",
    "retry_settings",
)
_OF_KINDS: Final[Mapping[str, frozenset[str]]] = {
    SWEEP: frozenset({"early_termination", "objective", "sampling_algorithm", "search_space", "trial"}),
    PARALLEL: frozenset({*PARALLEL_SETTINGS, "input_data", "logging_level", "max_concurrency_per_instance", "task"}),
}

EXPRESSION: Final = re.compile(r"\$\{\{([^{}]*)\}\}")
PARENT_NAME: Final = "parent.name"
_PARENT: Final = re.compile(r"parent\.(inputs|outputs)\.([A-Za-z_][\w.]*)")
_OUTPUT: Final = re.compile(r"parent\.jobs\.(\w+)\.outputs\.(\w+)")
_NAME: Final = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, kw_only=True)
class Source:
    """The source of a node's input.

    Attributes:
        node: the node whose output it is; None for another source.
        name: that output, or the pipeline's input; empty for a value that the node itself has.
        given: the input as it was sent.
        mode: how it is mounted, if the node says so.
    """

    node: str | None = None
    name: str = ""
    given: Mapping[str, Any]
    mode: str | None = None


@dataclass(frozen=True, kw_only=True)
class Node:
    """One node.

    Attributes:
        fields: all that was sent of it.
        outputs: the fields of each output that the node names.
        promoted: the pipeline's output that an output of the node is.
    """

    name: str
    kind: str
    component_id: str
    fields: Mapping[str, Any]
    inputs: Mapping[str, Source]
    outputs: Mapping[str, Mapping[str, Any]]
    promoted: Mapping[str, str]

    @property
    def needs(self) -> frozenset[str]:
        """The nodes whose outputs it reads."""
        return frozenset(source.node for source in self.inputs.values() if source.node is not None)


@dataclass(frozen=True, kw_only=True)
class Graph:
    """The nodes of a pipeline, each after those that it needs."""

    nodes: Mapping[str, Node]


def read_graph(jobs: Mapping[str, Any], *, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> Graph:
    """Return the graph of a pipeline's ``jobs``.

    Args:
        inputs, outputs: those of the pipeline.

    Raises:
        NotSupportedError: a kind of node, naming it.
        InvalidError: a binding that leads nowhere, or nodes that wait for each other.
    """
    if not jobs:
        raise InvalidError("The pipeline has no nodes.")
    nodes = {name: _node(name, fields or {}) for name, fields in jobs.items()}
    for node in nodes.values():
        _check_sources(node, nodes, inputs, outputs)
    try:
        order = tuple(TopologicalSorter({name: sorted(node.needs) for name, node in nodes.items()}).static_order())
    except CycleError as error:
        raise InvalidError(f"The nodes wait for each other: {' → '.join(error.args[1])}.") from error
    return Graph(nodes={name: nodes[name] for name in order})


def _node(name: str, fields: Mapping[str, Any]) -> Node:
    if not _NAME.fullmatch(name):
        raise InvalidError(f"The name of the node '{name}' consists of letters, digits and '_' only.")
    kind = str(fields.get("type") or COMMAND).lower()
    if kind not in KINDS:
        raise NotSupportedError(f"the node '{name}' of type '{kind}' (only {', '.join(KINDS)})")
    known = _FIELDS | _OF_KINDS.get(kind, frozenset())
    for key, value in fields.items():
        if key not in known and value not in (None, {}, [], ""):
            raise NotSupportedError(f"the field '{key}' of the node '{name}'")
    outputs, promoted = {}, {}
    for output, value in (fields.get("outputs") or {}).items():
        reference = _binding(value)
        parent = None if reference is None else _PARENT.fullmatch(reference)
        if reference is not None and (parent is None or parent.group(1) != "outputs"):
            raise InvalidError(
                f"The output '{output}' of the node '{name}' is no output of the pipeline: {reference}"
            )
        if parent is not None:
            promoted[output] = parent.group(2)
        outputs[output] = dict(value) if isinstance(value, Mapping) else {}
    return Node(
        name=name,
        kind=kind,
        component_id=str((fields.get("trial") or {}).get("componentId") or fields.get("componentId") or ""),
        fields=fields,
        inputs={key: _source(name, key, value) for key, value in (fields.get("inputs") or {}).items()},
        outputs=outputs,
        promoted=promoted,
    )


def _source(node: str, name: str, value: Any) -> Source:
    given = dict(value) if isinstance(value, Mapping) else {"job_input_type": "literal", "value": value}
    mode = str(given["mode"]) if given.get("mode") else None
    reference = _binding(given)
    if reference in (None, PARENT_NAME):
        return Source(given=given, mode=mode)
    if parent := _PARENT.fullmatch(reference):
        if parent.group(1) == "inputs":
            return Source(name=parent.group(2), given=given, mode=mode)
    elif output := _OUTPUT.fullmatch(reference):
        return Source(node=output.group(1), name=output.group(2), given=given, mode=mode)
    raise InvalidError(
        f"The input '{name}' of the node '{node}' is neither an input of the pipeline nor an output of a node: "
        f"${{{{{reference}}}}}"
    )


def bound_input(value: Any) -> str | None:
    """Return the pipeline's input that a field is bound to, None for another value."""
    match = _PARENT.fullmatch(_binding(value) or "")
    return match.group(2) if match is not None and match.group(1) == "inputs" else None


def _binding(value: Any) -> str | None:
    """Return the expression that a value is, None for another value."""
    match = EXPRESSION.fullmatch(text_of(value).strip())
    return None if match is None else match.group(1).strip()


def text_of(value: Any) -> str:
    """Return the text of a field, or of an input's value or address; empty for what is no text."""
    text = value.get("value", value.get("uri")) if isinstance(value, Mapping) else value
    return text if isinstance(text, str) else ""


def _check_sources(
    node: Node, nodes: Mapping[str, Node], inputs: Mapping[str, Any], outputs: Mapping[str, Any]
) -> None:
    for name, source in node.inputs.items():
        embedded = [bound_input(match[0]) for match in EXPRESSION.finditer(text_of(source.given))]
        for missing in sorted({one for one in embedded if one is not None and one not in inputs}):
            raise InvalidError(
                f"The input '{name}' of the node '{node.name}': the pipeline has no input '{missing}'."
            )
        if source.node is not None and source.node not in nodes:
            raise InvalidError(f"The input '{name}' of the node '{node.name}': there is no node '{source.node}'.")
    for name, promoted in node.promoted.items():
        if promoted not in outputs:
            raise InvalidError(
                f"The output '{name}' of the node '{node.name}': the pipeline has no output '{promoted}'."
            )
