"""Jobs that code submits by azureml-core: ScriptRunConfig, estimators. Pure."""

from __future__ import annotations

import ast
import posixpath
import re
import shlex
from collections.abc import Iterator
from typing import Final

from aml_train.cli.scaffold.code_reader import (
    Reader,
    Submission,
    asset_of,
    code_of,
    compute_of,
    data_input,
    distribution_of,
    registered_from,
    tidied,
)
from aml_train.cli.scaffold.draft import Item
from aml_train.cli.scaffold.job_environment import Environment, named_environment
from aml_train.cli.scaffold.literals import UNKNOWN, Scope, calls, imported_names, keyword, last_name
from aml_train.cli.scaffold.project import Project, TextFile
from aml_train.config import Mark

ESTIMATORS: Final = frozenset({"Estimator", "PyTorch", "TensorFlow", "SKLearn", "Chainer", "MMLBaseEstimator"})
"""Classes of azureml-train-core, which ScriptRunConfig replaced."""

_MOST_ARGUMENTS: Final = 100


def jobs_of_v1(project: Project, file: TextFile, tree: ast.Module) -> Iterator[Submission]:
    """Yield the runs that a file submits."""
    names = imported_names(tree, "azureml")
    scope = Scope(path=file.path, tree=tree)
    for call in calls(tree):
        kind = names.get(last_name(call.func), "")
        if kind == "ScriptRunConfig" or kind in ESTIMATORS:
            found = _submission(Reader(project=project, scope=scope), call, estimator=kind != "ScriptRunConfig")
            if found is not None:
                yield found


def _submission(reader: Reader, call: ast.Call, *, estimator: bool) -> Submission | None:
    scope = reader.scope
    source = keyword(call, "source_directory", 0)
    script_node = keyword(call, "entry_script") if estimator else keyword(call, "script", 1)
    script = scope.text(script_node)
    inputs: list[Item] = []
    command = _command(reader, keyword(call, "command"), inputs)
    if script is not None:
        path = posixpath.normpath(script) if script.endswith(".py") else script
        given = keyword(call, "script_params") if estimator else keyword(call, "arguments", 2)
        words = _arguments(reader, given, inputs)
        command = " ".join(["python", shlex.quote(path), *words])
    if not command:
        return None
    code = code_of(reader, source, command)
    compute = keyword(call, "compute_target", None if estimator else 3) or _run_config(scope, call, "target")
    items = [
        Item(
            key="command",
            value=command,
            why="the script that this file submits",
            origin=reader.mark(script_node or call),
        ),
        Item(key="code", value=code, origin=reader.mark(source) if source else None),
        compute_of(reader, compute),
    ]
    if inputs:
        items.append(Item(key="inputs", value=inputs))
    items += _nodes(reader, call)
    environment = keyword(call, "environment", None if estimator else 4) or keyword(call, "environment_definition")
    environment = environment or _run_config(scope, call, "environment")
    return Submission(
        path=scope.path,
        mark=reader.mark(call),
        command=command,
        code=code,
        items=items,
        environment=_estimator_packages(reader, call)
        if estimator and environment is None
        else _environment(reader, environment),
        notes=tuple(reader.notes),
    )


def _command(reader: Reader, node: ast.expr | None, inputs: list[Item]) -> str:
    text = reader.scope.value(node)
    if isinstance(text, str):
        return tidied(text)
    return " ".join(_arguments(reader, node, inputs)) if isinstance(text, list) else ""


def _arguments(reader: Reader, node: ast.expr | None, inputs: list[Item]) -> list[str]:
    """Return arguments as words of a shell; data become inputs."""
    scope = reader.scope
    if isinstance(node, ast.Name):
        node = next(
            (one for one in reversed(scope.names.get(node.id, [])) if isinstance(one, ast.List | ast.Dict)), None
        )
    elements: list[ast.expr] = []
    if isinstance(node, ast.List | ast.Tuple):
        elements = list(node.elts)
    elif isinstance(node, ast.Dict):
        elements = [one for pair in zip(node.keys, node.values, strict=True) for one in pair if one is not None]
    words: list[str] = []
    for element in elements[:_MOST_ARGUMENTS]:
        value = scope.value(element)
        if isinstance(value, str | int | float) and value != "":
            words.append(shlex.quote(str(value)))
            continue
        asset = asset_of(scope, element)
        if asset is not None:
            words.append(_data(reader, element, asset, inputs))
            continue
        dropped = words.pop() if words and words[-1].startswith("-") else ""
        reader.note(
            element,
            f"the argument {dropped or 'here'} is not known before this runs: add it to the command".replace(
                "  ", " "
            ),
        )
    return words


def _data(reader: Reader, node: ast.expr, asset: str, inputs: list[Item]) -> str:
    """Add an input for a dataset, and return the expression for its path."""
    named = next(
        (call for call in ast.walk(node) if isinstance(call, ast.Call) and last_name(call.func) == "as_named_input"),
        None,
    )
    text = reader.scope.text(keyword(named, "name", 0)) if named is not None else None
    name = re.sub(r"\W", "_", text or f"data_{len(inputs) + 1}")
    local = registered_from(reader, asset)
    if local is not None:
        kind = "uri_file" if local in reader.project.files else "uri_folder"
        inputs.append(data_input(name, kind, local, f"{asset} is registered from it", reader.mark(node)))
    else:
        inputs.append(data_input(name, "uri_folder", asset, "", reader.mark(node)))
    return f"${{{{inputs.{name}}}}}"


def _run_config(scope: Scope, call: ast.Call, attribute: str) -> ast.expr | None:
    """Return what is set on the run configuration: ``config.run_config.target = …``."""
    for node in ast.walk(scope.tree):
        if not (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute)):
            continue
        target = node.targets[0]
        if target.attr == attribute and last_name(target.value) in (
            "run_config",
            last_name(keyword(call, "run_config") or call),
        ):
            return node.value
    return None


def _nodes(reader: Reader, call: ast.Call) -> list[Item]:
    """Return ``distribution`` and ``resources`` of MpiConfiguration and its like."""
    scope = reader.scope
    node = keyword(call, "distributed_job_config") or keyword(call, "distributed_training")
    distribution = distribution_of(reader, node)
    made = next(iter(scope.calls(node)), None)
    count = scope.value(keyword(made, "node_count", 1)) if made is not None else UNKNOWN
    if not isinstance(count, int):
        count = scope.value(keyword(call, "node_count"))
    found = [Item(key="distribution", value=distribution)] if distribution else []
    if isinstance(count, int) and count > 1:
        found.append(Item(key="resources", value=[Item(key="instance_count", value=count)]))
    return found


def _environment(reader: Reader, node: ast.expr | None) -> Environment:
    """Return the environment of a run, by the ways that azureml-core makes one."""
    scope = reader.scope
    if node is None:
        return Environment()
    if isinstance(node, ast.Name):
        changed = _changed(reader, node.id)
        if changed is not None:
            return changed
        subscripts = [one for one in scope.names.get(node.id, ()) if isinstance(one, ast.Subscript)]
        node = subscripts[0] if subscripts else node
    if isinstance(node, ast.Subscript) and (name := scope.text(node.slice)):  # ws.environments["…"]
        return named_environment(reader.project, name, reader.mark(node))
    for call in scope.calls(node):
        kind = last_name(call.func)
        path = scope.text(keyword(call, "file_path", 1))
        file = reader.local(path) if path else None
        if kind == "from_conda_specification" and file:
            return Environment(conda=(reader.mark(call), file))
        if kind == "from_pip_requirements" and file:
            return Environment(requirements=(reader.mark(call), file))
        if kind == "get" and (name := scope.text(keyword(call, "name", 1))):
            return named_environment(reader.project, name, reader.mark(call))
    return Environment()


def _changed(reader: Reader, variable: str) -> Environment | None:
    """Return an environment that is changed in place: ``env.docker.base_image = …``."""
    scope = reader.scope
    found = _environment_of_calls(reader, variable)
    base, conda, pip = found.base, found.conda, found.pip
    for node in ast.walk(scope.tree):
        if not (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute)):
            continue
        target = node.targets[0]
        if _root(target) != variable:
            continue
        if target.attr == "base_image" and (text := scope.text(node.value)):
            base = (reader.mark(node), text)
        if target.attr == "conda_dependencies":
            conda, pip = _dependencies(reader, node.value)
    if (base, conda, pip) == (None, None, None):
        return None
    return Environment(base=base, conda=conda, pip=pip, requirements=found.requirements)


def _environment_of_calls(reader: Reader, variable: str) -> Environment:
    for value in reader.scope.names.get(variable, ()):
        if isinstance(value, ast.Call):
            return _environment(reader, value)
    return Environment()


def _dependencies(
    reader: Reader, node: ast.expr
) -> tuple[tuple[Mark, str] | None, tuple[Mark, tuple[str, ...]] | None]:
    """Return the file or the pip packages of ``CondaDependencies(...)``."""
    scope = reader.scope
    for call in scope.calls(node):
        path = scope.text(keyword(call, "conda_dependencies_file_path"))
        file = reader.local(path) if path else None
        if file:
            return (reader.mark(call), file), None
        packages = [one for name in ("pip_packages", "conda_packages") for one in _texts(scope, keyword(call, name))]
        if packages:
            return None, (reader.mark(call), tuple(packages))
    return None, None


def _estimator_packages(reader: Reader, call: ast.Call) -> Environment:
    scope = reader.scope
    for name, field in (("conda_dependencies_file", "conda"), ("pip_requirements_file", "requirements")):
        path = scope.text(keyword(call, name))
        file = reader.local(path) if path else None
        if file:
            found = (reader.mark(call), file)
            return Environment(conda=found) if field == "conda" else Environment(requirements=found)
    packages = [one for name in ("pip_packages", "conda_packages") for one in _texts(scope, keyword(call, name))]
    return Environment(pip=(reader.mark(call), tuple(packages))) if packages else Environment()


def _texts(scope: Scope, node: ast.expr | None) -> list[str]:
    value = scope.value(node)
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
