"""The parts of a run's page that show its parent and its children."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from aml_emulator.api import Call
from aml_emulator.context import Context
from aml_emulator.domain import NODE_ID, PIPELINE, REUSED_RUN, SWEEP, composed_kind, graph_of
from aml_emulator.page.graphs import Drawing, Step, draw_graph
from aml_emulator.page.trials import hyperparameters_of, shown_value, trials_of
from aml_emulator.page.view import Paging
from aml_emulator.store import Run

CHILDREN: Final = 200
"""Children on one page of a run."""

_KINDS: Final = {PIPELINE: "Pipeline", SWEEP: "Sweep"}


def composed_values(context: Context, run: Run, call: Call) -> dict[str, Any]:
    """Return what the template of a run's page shows of its parent and its children."""
    kind = composed_kind(run.job)
    children = context.store.runs.children(run.id)
    listed, paging = _paged_children(call, children)
    return {
        "kind": kind or "",
        "parent": _parent(context, run),
        "reuses": run.properties.get(REUSED_RUN, ""),
        "hyperparameters": [(name, shown_value(value)) for name, value in hyperparameters_of(run).items()],
        "graph": _graph(run, children) if kind == PIPELINE else None,
        "trials": trials_of(context, run, call) if kind == SWEEP else None,
        "children": listed,
        "children_paging": paging,
        "reused_run": REUSED_RUN,
        "node_id": NODE_ID,
    }


def _paged_children(call: Call, children: Sequence[Run]) -> tuple[Sequence[Run], Paging]:
    number = call.integer("children", 1, low=1)
    paging = Paging(page=number, size=CHILDREN, total=len(children))
    return children[paging.offset : paging.offset + paging.size], paging


def _parent(context: Context, run: Run) -> dict[str, str] | None:
    """Return the parent of a run: what it is, its name and its id."""
    above = None if run.parent_id is None else context.store.runs.get(run.parent_id)
    if above is None:
        return None
    return {
        "kind": _KINDS.get(composed_kind(above.job) or "", "Parent"),
        "name": above.display_name or above.id,
        "id": above.id,
    }


def _graph(run: Run, children: Sequence[Run]) -> Drawing:
    """Return the drawing of a pipeline."""
    begun = {child.properties.get(NODE_ID): child for child in children}
    waiting = "never began" if run.terminal else "not begun"
    steps = []
    for node in graph_of(run.job or {}).nodes.values():
        child = begun.get(node.name)
        steps.append(
            Step(
                name=node.name,
                kind=node.kind,
                links=tuple(
                    (source.node, source.name, given)
                    for given, source in node.inputs.items()
                    if source.node is not None
                ),
                status=waiting if child is None else child.status,
                run="" if child is None else child.id,
                reused=child is not None and REUSED_RUN in child.properties,
            )
        )
    return draw_graph(steps)
