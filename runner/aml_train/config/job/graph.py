"""Check pipeline jobs and sweep jobs: nodes, components, and what they refer to."""

from __future__ import annotations

import copy
import graphlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from aml_train.config.job.grammar import JOB, lower
from aml_train.config.job.graph_grammar import (
    BINDING,
    COMMAND_COMPONENT,
    OTHER_NODES,
    SWEEP,
    pipeline,
    pipeline_component,
)
from aml_train.config.job.model import MOST_NESTED, JobNode
from aml_train.config.job.paths import change_paths, check_code, check_environment, check_inputs, may_be_sent
from aml_train.config.job.references import check_command
from aml_train.config.job.script import check_script, remark_inputs
from aml_train.config.job.source import JobSource, name_of, read_tree
from aml_train.config.yaml.nodes import Faults, ListNode, MapNode, Mark, ScalarNode, find, scalars, shown, value_mark
from aml_train.config.yaml.shapes import nearest
from aml_train.config.yaml.source import absolute
from aml_train.config.yaml.structures import Record


@dataclass(frozen=True, kw_only=True)
class _Scope:
    """One pipeline: the job itself, or a pipeline component within it.

    Attributes:
        source: its tree.
        document: its checked document, which is completed.
        keys: the place of *document* in the job's document.
        outer: the names of the nodes that it is within.
        root: the folder that paths of the job's document start from.
        project: the folder that files are named from in faults.
        outputs: the outputs of each node; None for those that are not known.
        components: components by file and kind; many nodes may have one file.
    """

    source: JobSource
    document: dict[str, Any]
    keys: tuple[str, ...]
    outer: tuple[str, ...]
    root: Path
    project: Path
    has_image: bool
    unchecked: bool
    faults: Faults
    outputs: dict[str, frozenset[str] | None] = field(default_factory=dict)
    components: dict[tuple[Path, str], tuple[JobSource, dict[str, Any]] | None] = field(default_factory=dict)


def check_sweep(
    source: JobSource, *, has_image: bool, project: Path, faults: Faults
) -> tuple[dict[str, Any], tuple[JobNode, ...]]:
    """Check a sweep job; return its document and its trial."""
    tree = source.tree
    document: dict[str, Any] = SWEEP.check(tree, source.prefix, faults)
    check_inputs(tree, document, source, project, faults)
    trial_tree, trial = find(tree, "trial"), document.get("trial")
    if not isinstance(trial_tree, MapNode) or not isinstance(trial, dict):
        return document, ()
    inner = replace(source, tree=trial_tree, prefix=source.name("trial"))
    check_command(trial_tree, inner.prefix, faults, declared=tree, search=True)
    code = check_code(trial_tree, trial, inner, project, faults)
    check_script(trial_tree, code, faults)
    remark_inputs(tree, trial_tree, code, faults)
    check_environment(trial_tree, inner, project, faults)
    if "environment" not in trial and not has_image:
        no_environment(inner, faults)
    node = JobNode(
        name="",
        kind="sweep",
        place=("trial",),
        code=code,
        environment=trial.get("environment"),
        where=trial_tree.mark.where,
    )
    return document, (node,)


def check_pipeline(
    source: JobSource, *, has_image: bool, unchecked: bool, project: Path, faults: Faults
) -> tuple[dict[str, Any], tuple[JobNode, ...]]:
    """Check a pipeline job; return its document with components, and its nodes."""
    document: dict[str, Any] = pipeline(unchecked=unchecked).check(source.tree, source.prefix, faults)
    check_inputs(source.tree, document, source, project, faults)
    scope = _Scope(
        source=source,
        document=document,
        keys=(),
        outer=(),
        root=source.directory,
        project=project,
        has_image=has_image,
        unchecked=unchecked,
        faults=faults,
    )
    if "component" in document:
        return document, _check_whole(scope)
    nodes = _check_nodes(scope)
    _check_settings(scope)
    return document, nodes


def _check_whole(scope: _Scope) -> tuple[JobNode, ...]:
    """Check a pipeline job that is a component, and put the component's nodes into it; return them.

    azure-ai-ml takes no component within the job's own file, and the nodes have to be known.
    """
    document = scope.document
    given = document.pop("component")
    if isinstance(given, str) and given.startswith("azureml:"):
        what = "the nodes of the pipeline are not known here"
        remedy = f"write `jobs: {{all: {{type: pipeline, component: {shown(given)}}}}}`, or the path of the component's YAML"
        scope.faults.add(
            value_mark(scope.source.tree, "component"), what, why="the component is in Azure", remedy=remedy
        )
        return ()
    component = _component(scope, scope.source, {"component": given}, "component", "pipeline")
    if component is None:
        return ()
    inner, checked = component
    _check_given(scope, scope.source, document, checked, "pipeline")
    nodes = _check_nodes(replace(scope, source=inner, document=checked))
    inputs = {name: one["default"] for name, one in (checked.get("inputs") or {}).items() if "default" in one}
    inputs |= document.get("inputs") or {}
    outputs = {name: {"type": one["type"]} for name, one in (checked.get("outputs") or {}).items() if "type" in one}
    outputs |= {name: one for name, one in (document.get("outputs") or {}).items() if one}
    settings = (checked.get("settings") or {}) | (document.get("settings") or {})
    document |= {"jobs": checked.get("jobs") or {}}
    document |= {
        key: value for key, value in (("inputs", inputs), ("outputs", outputs), ("settings", settings)) if value
    }
    for node in document["jobs"].values():
        # An optional input without a value is bound to nothing.
        bound = {name: BINDING.fullmatch(str(value)) for name, value in (node.get("inputs") or {}).items()}
        for name, found in bound.items():
            if found and found[1].startswith("inputs.") and found[1].removeprefix("inputs.") not in inputs:
                del node["inputs"][name]
    _check_settings(scope)
    return nodes


def _check_nodes(scope: _Scope) -> tuple[JobNode, ...]:
    """Check the nodes of a pipeline, and what they refer to."""
    trees, found = find(scope.source.tree, "jobs"), scope.document.get("jobs")
    if not isinstance(trees, MapNode) or not isinstance(found, dict):
        return ()
    nodes: list[JobNode] = []
    for name, document in found.items():
        tree = trees.entries[name].node
        if isinstance(tree, MapNode) and isinstance(document, dict):
            tree = replace(tree, mark=trees.entries[name].mark)
            nodes += _check_node(scope, name, tree, document)
            _move_paths(document, scope.source.directory, scope.root)
    needs = {name: _check_bindings(scope, name, tree) for name, tree in _trees(trees)}
    _check_order(scope, trees, needs)
    outer = "/".join(scope.outer)
    own = len(scope.outer)
    return tuple(
        replace(node, needs=tuple(_full(outer, need) for need in needs.get(node.name.split("/")[own], ())))
        if not node.needs
        else node
        for node in nodes
    )


def _trees(trees: MapNode) -> Iterator[tuple[str, MapNode]]:
    for name, entry in trees.entries.items():
        if isinstance(entry.node, MapNode):
            yield name, entry.node


def _full(outer: str, name: str) -> str:
    return f"{outer}/{name}" if outer else name


def _check_node(scope: _Scope, name: str, tree: MapNode, document: dict[str, Any]) -> Iterator[JobNode]:
    """Check a node's parts; yield it, or the nodes within it."""
    faults, keys = scope.faults, (*scope.keys, "jobs", name)
    full, where = "/".join((*scope.outer, name)), tree.mark.where
    source = replace(scope.source, tree=tree, prefix=scope.source.name(f"jobs.{name}"))
    kind = lower(str(document.get("type") or "command"))
    outputs: frozenset[str] | None = frozenset(document.get("outputs") or ())
    if kind in OTHER_NODES:
        scope.outputs[name] = None
        yield JobNode(name=full, kind="other", where=where)
        return
    check_inputs(tree, document, source, scope.project, faults)
    key = {"sweep": "trial", "pipeline": "component"}.get(kind, "component" if "component" in document else "")
    if not key:
        check_command(tree, source.prefix, faults)
        scope.outputs[name] = outputs
        yield _command(scope, source, document, full, keys)
        return
    given = document.get(key)
    if isinstance(given, str) and given.startswith("azureml:"):
        scope.outputs[name] = None
        environment = document.get("environment")
        yield JobNode(
            name=full,
            kind="sweep" if kind == "sweep" else "command",
            component=given,
            environment=environment,
            where=where,
        )
        return
    component = _component(scope, source, document, key, kind)
    if component is None:
        scope.outputs[name] = None
        return
    inner, checked = component
    scope.outputs[name] = frozenset(checked.get("outputs") or ()) | (outputs or frozenset())
    _check_given(scope, source, document, checked, kind)
    document[key] = checked
    if kind == "pipeline":
        below = replace(
            scope, source=inner, document=checked, keys=(*keys, key), outer=(*scope.outer, name), outputs={}
        )
        if len(below.outer) > MOST_NESTED:
            faults.add(
                tree.mark, f"there are more than {MOST_NESTED} pipelines within each other at `{source.prefix}`"
            )
            return
        yield from _check_nodes(below)
        return
    yield _command(
        scope, inner, checked, full, (*keys, key), node=document, kind="sweep" if kind == "sweep" else "command"
    )


def _command(
    scope: _Scope,
    source: JobSource,
    document: dict[str, Any],
    name: str,
    keys: tuple[str, ...],
    *,
    node: Mapping[str, Any] | None = None,
    kind: Any = "command",
) -> JobNode:
    """Check the command, code and environment of a node or its component.

    Args:
        node: the node around a component.
    """
    tree, faults = source.tree, scope.faults
    code = check_code(tree, document, source, scope.project, faults)
    check_environment(tree, source, scope.project, faults)
    if isinstance(includes := find(tree, "additional_includes"), ListNode):
        for one in includes.items:
            if isinstance(one, ScalarNode):
                label = source.name("additional_includes")
                may_be_sent(one.mark, label, source.directory, one.text, scope.project, faults)
    check_script(tree, code, faults, complete="additional_includes" not in document)
    environment = (node or {}).get("environment") or document.get("environment")
    if environment is None and not scope.has_image:
        no_environment(source, faults)
    if node is not None:
        _move_paths(document, source.directory, scope.root)
    return JobNode(
        name=name,
        kind=kind,
        place=keys,
        code=code,
        environment=environment,
        own_upload=bool(document.get("additional_includes")),
        where=tree.mark.where,
    )


def no_environment(source: JobSource, faults: Faults) -> None:
    """Add the fault that nothing says where a job or node runs."""
    noun = JOB.keys["environment"].shape.noun
    remedy = f"give it {noun}, or write `image` in aml-train.yml"
    faults.add(source.tree.mark, f"the key `{source.name('environment')}` is missing", remedy=remedy)


def _component(
    scope: _Scope, source: JobSource, document: Mapping[str, Any], key: str, kind: str
) -> tuple[JobSource, dict[str, Any]] | None:
    """Return a node's component with its checked document; None after a fault.

    It is a file, or in the node.
    """
    faults, given = scope.faults, find(source.tree, key)
    shape = pipeline_component(unchecked=scope.unchecked) if kind == "pipeline" else COMMAND_COMPONENT
    if isinstance(given, MapNode):
        inner = replace(source, tree=given, prefix=source.name(key))
        checked = document.get(key)
    elif isinstance(given, ScalarNode) and isinstance(document.get(key), str):
        text = given.text.removeprefix("file:")
        path = absolute(source.directory / text)
        if not may_be_sent(given.mark, source.name(key), source.directory, text, scope.project, faults):
            return None
        if (path, kind) not in scope.components:
            scope.components[path, kind] = _read_component(scope, path, given.mark, shape, kind)
        known = scope.components[path, kind]
        return None if known is None else (known[0], copy.deepcopy(known[1]))
    else:
        return None
    return _complete(inner, checked, kind, faults)


def _read_component(
    scope: _Scope, path: Path, mark: Mark, shape: Record, kind: str
) -> tuple[JobSource, dict[str, Any]] | None:
    """Return the component of a file, which *mark* names; None after a fault."""
    tree = read_tree(path, mark, name_of(path, scope.project), scope.faults)
    if tree is None:
        return None
    source = JobSource(tree=tree, file=path, directory=path.parent)
    return _complete(source, _checked_component(shape, source, kind, scope.faults), kind, scope.faults)


def _complete(source: JobSource, checked: Any, kind: str, faults: Faults) -> tuple[JobSource, dict[str, Any]] | None:
    if not isinstance(checked, dict):
        return None
    if kind != "pipeline":
        check_command(source.tree, source.prefix, faults)
    return source, checked


def _checked_component(shape: Record, source: JobSource, kind: str, faults: Faults) -> Any:
    """Check a component's file; one of another kind has one fault."""
    given = find(source.tree, "type")
    wanted = "pipeline" if kind == "pipeline" else "command"
    if isinstance(given, ScalarNode) and (word := lower(given.text)) != wanted:
        remedy = f"write `type: {word}` for the node" if word == "pipeline" else ""
        faults.add(
            given.mark, f"the component must be a {wanted} component", why=f"it is `{shown(word)}`", remedy=remedy
        )
        return None
    return shape.check(source.tree, source.prefix, faults)


def _check_given(
    scope: _Scope, source: JobSource, document: Mapping[str, Any], component: Mapping[str, Any], kind: str
) -> None:
    """Check that a node gives what its component needs; remark on other inputs."""
    declared, given = component.get("inputs") or {}, document.get("inputs") or {}
    searched = document.get("search_space") or {} if kind == "sweep" else {}
    for name in given:
        if name not in declared:
            # azure-ai-ml and the service ignore it; a published example has one.
            near, mark = nearest(name, tuple(declared)), value_mark(source.tree, "inputs", name)
            what = f"`{source.name(f'inputs.{name}')}` is no input of the component"
            if mark.option:
                scope.faults.add(mark, what, remedy=f"did you mean `{near}`?" if near else "")
                continue
            meant = f" Did you mean `{near}`?" if near else ""
            scope.faults.remark(mark, f"{what}, and is not used.{meant}")
    for name, one in declared.items():
        optional = isinstance(one, dict) and (one.get("optional") or "default" in one)
        if name not in given and name not in searched and not optional:
            place = f" in `{source.prefix}`" if source.prefix else ""
            what = f"the input `{name}` of the component is missing{place}"
            scope.faults.add(source.tree.mark, what, remedy=f"give it under `{source.name('inputs')}`")


def _move_paths(document: dict[str, Any], start: Path, root: Path) -> None:
    """Let the relative paths of a node or component start from *root*."""
    if start != root:
        change_paths(document, lambda text: Path(os.path.relpath(start / text, root)).as_posix())


def _check_bindings(scope: _Scope, name: str, tree: MapNode) -> tuple[str, ...]:
    """Check a node's references to its pipeline; return the nodes that it needs."""
    needs: dict[str, None] = {}
    label = scope.source.name(f"jobs.{name}")
    outside = {key: entry for key, entry in tree.entries.items() if key not in ("component", "trial", "command")}
    for scalar in scalars(replace(tree, entries=outside)):
        for match in BINDING.finditer(scalar.text):
            problem = _problem(scope, name, match[1], needs)
            if problem is not None:
                what, remedy = problem
                scope.faults.add(scalar.mark, f"`{label}` refers to {what}", remedy=remedy)
    return tuple(needs)


def _problem(scope: _Scope, name: str, inner: str, needs: dict[str, None]) -> tuple[str, str] | None:
    """Return what is wrong with ``parent.INNER``, and the remedy; None if it is right."""
    parts = inner.split(".")
    if parts == ["name"]:
        return None
    if parts[0] in ("inputs", "outputs") and len(parts) >= 2:
        declared = tuple(scope.document.get(parts[0]) or ())
        if parts[1] in declared:
            return None
        noun = parts[0].removesuffix("s")
        near = nearest(parts[1], declared)
        remedy = f"did you mean `{near}`?" if near else f"declare it under `{scope.source.name(parts[0])}`"
        return f"the {noun} `{shown(parts[1])}` of its pipeline, which is not declared", remedy
    if parts[0] == "jobs" and len(parts) == 4 and parts[2] == "outputs":
        other, output = parts[1], parts[3]
        trees = find(scope.source.tree, "jobs")
        names = tuple(trees.entries) if isinstance(trees, MapNode) else ()
        if other not in names:
            near = nearest(other, names)
            return f"the node `{shown(other)}`, which does not exist", f"did you mean `{near}`?" if near else ""
        if other == name:
            return "itself", "name another node"
        needs[other] = None
        known = scope.outputs.get(other)
        if known is None or output in known:
            return None
        near = nearest(output, tuple(known))
        remedy = f"did you mean `{near}`?" if near else f"declare it under the outputs of `{other}`"
        return f"the output `{shown(output)}` of `{other}`, which is not declared", remedy
    known_forms = (
        "known are `${{parent.name}}`, `${{parent.inputs.NAME}}`, `${{parent.outputs.NAME}}` and "
        "`${{parent.jobs.NODE.outputs.NAME}}`"
    )
    return f"`${{{{parent.{shown(inner)}}}}}`", known_forms


def _check_order(scope: _Scope, trees: MapNode, needs: Mapping[str, tuple[str, ...]]) -> None:
    """Check that no node needs itself, by way of others."""
    try:
        graphlib.TopologicalSorter(needs).prepare()
    except graphlib.CycleError as error:
        circle = [name for name in needs if name in error.args[1]]
        what = (
            f"the nodes {', '.join(f'`{name}`' for name in circle)} need each other's outputs: none can begin first"
        )
        scope.faults.add(trees.entries[circle[0]].mark, what)


def _check_settings(scope: _Scope) -> None:
    """Check that on_init and on_finalize name nodes."""
    settings = scope.document.get("settings") or {}
    for key in ("on_init", "on_finalize"):
        named = settings.get(key)
        if named is not None and named not in (scope.document.get("jobs") or {}):
            mark = value_mark(scope.source.tree, "settings", key)
            label = scope.source.name(f"settings.{key}")
            scope.faults.add(mark, f"`{label}` names `{shown(str(named))}`, which is no node of the pipeline")
