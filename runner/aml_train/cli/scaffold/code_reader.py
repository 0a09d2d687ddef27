"""Reads the jobs that Python code submits: values that both SDKs share. Pure."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from aml_train.cli.scaffold.draft import Item
from aml_train.cli.scaffold.imports import parse_source
from aml_train.cli.scaffold.job_environment import Environment, joined
from aml_train.cli.scaffold.literals import Scope, calls, keyword, last_name, place
from aml_train.cli.scaffold.project import Project
from aml_train.config import Mark


@dataclass(frozen=True, kw_only=True)
class Submission:
    """A job that a Python file submits.

    Attributes:
        path, mark: the file and the line of the call.
        command, code: its command, and the folder of its code in the project.
        items: the job's keys, with their reasons.
        environment: its environment.
        notes: values that are computed when the file runs.
    """

    path: str
    mark: Mark
    command: str
    code: str
    items: Sequence[Item]
    environment: Environment
    notes: tuple[str, ...] = ()


@dataclass(kw_only=True)
class Reader:
    """Reads the calls of one file."""

    project: Project
    scope: Scope
    notes: list[str] = field(default_factory=list)

    def mark(self, node: ast.AST) -> Mark:
        return Mark(file=self.scope.path, line=getattr(node, "lineno", 1))

    @property
    def folder(self) -> str:
        return posixpath.dirname(self.scope.path)

    def local(self, text: str, inside: str = "") -> str | None:
        """Return a path of the project, at best one that has *inside* below it."""
        return place(text.removeprefix("file:"), self.folder, self.project.has, inside)

    def note(self, node: ast.AST, text: str) -> None:
        self.notes.append(f"{self.mark(node).where}: {text}")


def tidied(command: str) -> str:
    """Return a command without indentation and blank lines; a line of options continues the one before."""
    lines = "\n".join(" ".join(line.split()) for line in command.splitlines() if line.strip())
    return re.sub(r"\n(?=-|\$\{\{)", " ", lines)


def code_of(reader: Reader, node: ast.expr | None, command: str) -> str:
    """Return the folder of the job's code; the file's own if it is not known."""
    text = reader.scope.text(node)
    script = next((word for word in command.split() if word.endswith(".py")), "")
    found = reader.local(text or ".", script) if text is not None else None
    if found is None:
        if node is not None:
            what = (
                f"the folder {text} is not here" if text else "the folder of the code is not known before this runs"
            )
            reader.note(node, f"{what}: check `code`")
        found = reader.folder or "."
    elif script and "$" not in script and not reader.project.has(joined(found, script)):
        reader.notes.append(
            f"{reader.scope.path}: {script}, which the command runs, is not in {found}: add it to the project"
        )
    return found


def compute_of(reader: Reader, node: ast.expr | None) -> Item:
    """Return the key ``compute``; a marked guess if the name is not known."""
    name = reader.scope.text(node)
    if not name:
        for call in reader.scope.calls(node):
            name = reader.scope.text(keyword(call, "name", 1)) or name
    named = reader.scope.names.get(node.id, []) if isinstance(node, ast.Name) else [node]
    for one in named:
        if not name and isinstance(one, ast.Subscript):
            name = reader.scope.text(one.slice)
    if not name or not re.fullmatch(r"(azureml:)?[\w-]+", name):
        why = "a guess: the name of your cluster; `local` needs none"
        return Item(key="compute", value="azureml:cpu-cluster", why=why, origin=reader.mark(node) if node else None)
    value = name if name in ("local", "serverless") or name.startswith("azureml:") else f"azureml:{name}"
    return Item(key="compute", value=value, origin=reader.mark(node) if node else None)


def entries_of(scope: Scope, node: ast.expr | None) -> dict[str, ast.expr]:
    """Return the expressions of a mapping, in a variable or ``dict(...)``."""
    if isinstance(node, ast.Name):
        node = next(
            (one for one in reversed(scope.names.get(node.id, [])) if isinstance(one, ast.Dict | ast.Call)), node
        )
    if isinstance(node, ast.Dict):
        return {
            key.value: value
            for key, value in zip(node.keys, node.values, strict=True)
            if isinstance(key, ast.Constant) and isinstance(key.value, str)
        }
    if isinstance(node, ast.Call) and last_name(node.func) == "dict":
        return {one.arg: one.value for one in node.keywords if one.arg}
    return {}


def data_input(name: str, kind: str, path: str, why: str, origin: Mark | None) -> Item:
    """Return an input of the job that is data."""
    keys = [Item(key="type", value=kind), Item(key="path", value=path, why=why, origin=origin if why else None)]
    return Item(key=name, value=keys, origin=None if why else origin)


def asset_of(scope: Scope, node: ast.expr | None) -> str | None:
    """Return the address of ``ml_client.data.get(name=…)``, or of a ``Data(name=…)``."""
    if isinstance(node, ast.Attribute) and node.attr in ("id", "path"):
        node = node.value
    for call in scope.calls(node):
        kind = last_name(call.func)
        if kind in ("create_or_update", "as_named_input", "as_mount", "as_download"):
            inner = call.args[0] if kind == "create_or_update" and call.args else None
            owner = call.func.value if isinstance(call.func, ast.Attribute) else None
            return asset_of(scope, inner if inner is not None else owner)
        position = 1 if kind == "get_by_name" else 0
        name = scope.text(keyword(call, "name", position if kind in ("get", "get_by_name") else None))
        if name is not None and kind in ("get", "Data", "get_by_name"):
            version = scope.value(keyword(call, "version", position + 1 if kind != "Data" else None))
            pinned = isinstance(version, str | int) and str(version) not in ("", "latest")
            return f"azureml:{name}:{version}" if pinned else f"azureml:{name}@latest"
    return None


def registered_from(reader: Reader, asset: str) -> str | None:
    """Return the local path that a file of the project registers as a data asset."""
    name = re.sub(r"[:@][^:@]*$", "", asset.removeprefix("azureml:"))
    for file in (*reader.project.scripts, *reader.project.notebook_code):
        if "Data(" not in file.text or name not in file.text:
            continue
        tree = parse_source(file.text)
        scope = Scope(path=file.path, tree=tree) if tree is not None else None
        for call in calls(scope.tree) if scope is not None else ():
            if scope is None or last_name(call.func) != "Data" or scope.text(keyword(call, "name")) != name:
                continue
            path = scope.text(keyword(call, "path"))
            found = place(path, posixpath.dirname(file.path), reader.project.has) if path else None
            if found is not None:
                return found
    return None


def distribution_of(reader: Reader, node: ast.expr | None) -> list[Item]:
    """Return a distribution of either SDK, without its number of nodes."""
    scope = reader.scope
    given = scope.value(node)
    call = next(iter(scope.calls(node)), None)
    if isinstance(given, dict) and isinstance(given.get("type"), str):
        values = {str(key): value for key, value in given.items()}
    elif call is not None:
        values = {one.arg: scope.value(one.value) for one in call.keywords if one.arg}
        values["type"] = re.sub(r"Distribution|Configuration", "", last_name(call.func)).lower()
    else:
        return []
    kind = str(values["type"]).lower()
    if kind not in ("mpi", "pytorch", "tensorflow"):
        return []
    found = [Item(key="type", value=kind, origin=reader.mark(node) if node else None)]
    nodes = values.get("node_count", 1)
    count = values.get(
        "process_count_per_instance", values.get("process_count_per_node", values.get("process_count"))
    )
    if (
        "process_count" in values
        and isinstance(count, int)
        and isinstance(nodes, int)
        and "process_count_per_instance" not in values
    ):
        count = max(count // max(nodes, 1), 1)
    if isinstance(count, int) and kind != "tensorflow":
        found.append(Item(key="process_count_per_instance", value=count))
    counts = ("worker_count", "parameter_server_count") if kind == "tensorflow" else ()
    return [*found, *(Item(key=key, value=values[key]) for key in counts if isinstance(values.get(key), int))]
