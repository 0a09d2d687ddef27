"""Jobs that code submits by azure-ai-ml: ``command(...)`` and classes. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Final

from aml_train.cli.scaffold.code_reader import (
    Reader,
    Submission,
    asset_of,
    code_of,
    compute_of,
    data_input,
    distribution_of,
    entries_of,
    registered_from,
    tidied,
)
from aml_train.cli.scaffold.draft import Item, Value
from aml_train.cli.scaffold.job_environment import Environment, named_environment
from aml_train.cli.scaffold.literals import UNKNOWN, Scope, calls, imported_names, keyword, last_name
from aml_train.cli.scaffold.packages import inline_conda
from aml_train.cli.scaffold.project import Project, TextFile

_COMMANDS: Final = frozenset({"command", "Command", "CommandJob"})
_INPUTS: Final = re.compile(r"\$\{\{\s*inputs\.(\w+)\s*\}\}")
_OUTPUTS: Final = re.compile(r"\$\{\{\s*outputs\.(\w+)\s*\}\}")
_LITERALS: Final = (str, int, float, bool)
_LITERAL_TYPES: Final[Mapping[str, Value]] = {"number": 1.0, "integer": 1, "string": "value", "boolean": False}
"""Types of inputs that are no data, each with the value for a missing default."""


def jobs_of_v2(project: Project, file: TextFile, tree: ast.Module) -> Iterator[Submission]:
    """Yield the command jobs of a file, except the steps of a pipeline."""
    names = imported_names(tree, "azure.ai.ml")
    scope = Scope(path=file.path, tree=tree)
    if "azure.ai" not in file.text:
        return
    swept = _swept(tree)
    for call in calls(tree):
        original = names.get(last_name(call.func), last_name(call.func))
        imported = isinstance(call.func, ast.Attribute) or last_name(call.func) in names
        if original not in _COMMANDS or not imported:
            continue
        reader = Reader(project=project, scope=scope)
        given = {one.arg: one.value for one in call.keywords if one.arg} | _assigned_later(tree, call)
        command = scope.text(given.get("command"))
        if command is None or call in swept:
            continue
        yield _submission(reader, call, given, tidied(command))


def _swept(tree: ast.Module) -> list[ast.expr]:
    """Return the calls whose result becomes a sweep job: ``job.sweep(...)``."""
    names = {
        node.func.value.id
        for node in calls(tree)
        if isinstance(node.func, ast.Attribute)
        and node.func.attr == "sweep"
        and isinstance(node.func.value, ast.Name)
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in names
    ]


def _assigned_later(tree: ast.Module, call: ast.Call) -> dict[str, ast.expr]:
    """Return attributes that are set on the call's variable later."""
    variable = next(
        (
            last_name(node.targets[0])
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign) and node.value is call
        ),
        "",
    )
    found: dict[str, ast.expr] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
            target = node.targets[0]
            if variable and isinstance(target.value, ast.Name) and target.value.id == variable:
                found[target.attr] = node.value
        elif isinstance(node, ast.Call) and last_name(node.func) == "set_resources":
            owner = node.func.value if isinstance(node.func, ast.Attribute) else None
            if variable and isinstance(owner, ast.Name) and owner.id == variable:
                found |= {one.arg: one.value for one in node.keywords if one.arg}
    return found


def _submission(reader: Reader, call: ast.Call, given: Mapping[str, ast.expr], command: str) -> Submission:
    scope = reader.scope
    code = code_of(reader, given.get("code"), command)
    items = [
        Item(
            key="command",
            value=command,
            why="the command that this file submits",
            origin=reader.mark(given["command"]),
        ),
        Item(key="code", value=code, origin=reader.mark(given["code"]) if "code" in given else None),
        compute_of(reader, given.get("compute")),
    ]
    inputs = _inputs(reader, given.get("inputs"), command)
    if inputs:
        items.append(Item(key="inputs", value=inputs))
    outputs = _outputs(reader, given.get("outputs"), command)
    if outputs:
        items.append(Item(key="outputs", value=outputs))
    variables = scope.value(given.get("environment_variables"))
    if isinstance(variables, dict):
        known = [Item(key=str(key), value=str(value)) for key, value in variables.items() if value is not UNKNOWN]
        items += [Item(key="environment_variables", value=known)] if known else []
    distribution = distribution_of(reader, given.get("distribution"))
    if distribution:
        items.append(Item(key="distribution", value=distribution))
    resources = [
        Item(key=key, value=value)
        for key in ("instance_count", "shm_size")
        if isinstance(value := scope.value(given.get(key)), int | str) and value
    ]
    if resources:
        items.append(Item(key="resources", value=resources))
    if (experiment := scope.text(given.get("experiment_name"))) is not None:
        items.append(Item(key="experiment_name", value=experiment))
    environment = _environment(reader, given.get("environment"))
    return Submission(
        path=scope.path,
        mark=reader.mark(call),
        command=command,
        code=code,
        items=items,
        environment=environment,
        notes=tuple(reader.notes),
    )


def _inputs(reader: Reader, node: ast.expr | None, command: str) -> list[Item]:
    expressions = entries_of(reader.scope, node)
    names = [*expressions, *(name for name in dict.fromkeys(_INPUTS.findall(command)) if name not in expressions)]
    found: list[Item] = []
    for name in names:
        expression = expressions.get(name)
        value = reader.scope.value(expression)
        if isinstance(value, _LITERALS):
            found.append(Item(key=name, value=value, origin=reader.mark(expression) if expression else None))
        else:
            found.append(_data(reader, name, expression))
    return found


def _data(reader: Reader, name: str, node: ast.expr | None) -> Item:
    """Return an input that is data: a local path if it is registered from one."""
    scope = reader.scope
    call = next(iter(scope.calls(node)), None)
    entries = {one.arg: one.value for one in call.keywords if one.arg} if call else entries_of(scope, node)
    if call is not None and last_name(call.func) == "Input" and call.args and "type" not in entries:
        entries["type"] = call.args[0]
    origin = reader.mark(node) if node is not None else None
    kind = scope.text(entries.get("type")) or ""
    if kind in _LITERAL_TYPES:
        value = scope.value(entries.get("default"))
        if isinstance(value, _LITERALS):
            return Item(key=name, value=value, why="its default", origin=origin)
        return Item(key=name, value=_LITERAL_TYPES[kind], why="a guess: it has no default", origin=origin)
    path = scope.text(entries.get("path"))
    asset = (
        path
        if path and path.startswith("azureml:")
        else asset_of(scope, entries.get("path") if call else None) or asset_of(scope, node)
    )
    local = registered_from(reader, asset) if asset else (reader.local(path) if path else None)
    if local is not None:
        kind = kind if kind in ("mltable",) else ("uri_file" if local in reader.project.files else "uri_folder")
        why = f"{asset} is registered from it" if asset else "a local path: uploaded with the job"
        return data_input(name, kind, local, why, origin)
    if asset is None and path and "://" in path:
        return data_input(name, kind or "uri_file", path, "", origin)
    if asset is None:
        return data_input(
            name, kind or "uri_folder", "azureml:NAME@latest", "a guess: name the data that the job reads", origin
        )
    return data_input(name, kind or "uri_file", asset, "", origin)


def _outputs(reader: Reader, node: ast.expr | None, command: str) -> list[Item]:
    scope, found = reader.scope, []
    entries = entries_of(scope, node)
    for name in dict.fromkeys([*entries, *_OUTPUTS.findall(command)]):
        call = next(iter(scope.calls(entries.get(name))), None)
        kind = (
            scope.text(keyword(call, "type", 0))
            if call is not None
            else scope.text(entries_of(scope, entries.get(name)).get("type"))
        )
        found.append(Item(key=name, value=[Item(key="type", value=kind or "uri_folder")]))
    return found


def _environment(reader: Reader, node: ast.expr | None) -> Environment:
    """Return a job's environment: its name, or the file's ``Environment(...)``."""
    scope = reader.scope
    if node is None:
        return Environment()
    # The version of an environment that is registered here is known only then: `f"{env.name}:{env.version}"`.
    first = node.values[0] if isinstance(node, ast.JoinedStr) and node.values else None
    text = scope.text(node) or scope.text(first)
    if text:
        name = re.match(r"(?:azureml:)?([^:@/]+)", text)
        made = _made(scope, name[1]) if name else None
        if made is not None:
            return _described(reader, made)
        return named_environment(reader.project, text, reader.mark(node))
    for call in scope.calls(node):
        inner = call
        if last_name(call.func) in ("create_or_update", "begin_create_or_update") and call.args:
            inner = next(iter(scope.calls(call.args[0])), call)
        if last_name(inner.func) == "Environment":
            return _described(reader, inner)
    for call in scope.calls(node):
        name_text = scope.text(keyword(call, "name", 0))
        if last_name(call.func) == "get" and name_text:
            made = _made(scope, name_text)
            if made is not None:
                return _described(reader, made)
            version = scope.value(keyword(call, "version", 1))
            full = f"{name_text}:{version}" if isinstance(version, str | int) else f"{name_text}@latest"
            return named_environment(reader.project, full, reader.mark(node))
    reader.note(node, "the environment is not known before this runs: check `image`")
    return Environment()


def _made(scope: Scope, name: str) -> ast.Call | None:
    """Return the file's ``Environment(name=…)`` of this name."""
    found = (call for call in calls(scope.tree) if last_name(call.func) == "Environment")
    return next((call for call in found if scope.text(keyword(call, "name")) == name), None)


def _described(reader: Reader, call: ast.Call) -> Environment:
    scope = reader.scope
    base, conda = scope.text(keyword(call, "image")), scope.value(keyword(call, "conda_file"))
    build = next(iter(scope.calls(keyword(call, "build"))), None)
    if build is not None:
        context = reader.local(scope.text(keyword(build, "path", 0)) or ".") or "."
        inner = scope.text(keyword(build, "dockerfile_path")) or "Dockerfile"
        path = inner if context == "." else f"{context}/{inner}"
        return Environment(dockerfile=(reader.mark(call), path, context))
    file = reader.local(conda) if isinstance(conda, str) else None
    if isinstance(conda, str) and file is None:
        reader.note(call, f"the environment's conda file {conda} is not here: check `image`")
        return Environment()
    names, python = inline_conda(conda.get("dependencies")) if isinstance(conda, dict) else ((), None)
    return Environment(
        base=(reader.mark(call), base) if base else None,
        conda=(reader.mark(call), file) if file else None,
        inline_conda=reader.mark(call) if isinstance(conda, dict) else None,
        pip=(reader.mark(call), names) if names else None,
        python=(reader.mark(call), python) if python else None,
    )
