"""Every global variable of aml_train that can change is listed: for each process, or shared with a reason."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import aml_train
from simulation.kernel.state import PRODUCT, PYTHON, SHARED

_ROOT = Path(aml_train.__file__).parent
_CHANGES = re.compile(
    "add|append|appendleft|clear|discard|extend|insert|pop|popitem|remove|set|setdefault|update|acquire"
)
#: Calls whose results keep state; calls of other modules make values.
_STATEFUL = re.compile(
    "Barrier|Condition|ContextVar|Event|R?Lock|Semaphore|(Simple)?Queue|deque|local|count|defaultdict|Counter|OrderedDict"
    "|Weak(Key|Value)Dictionary|Random|Session|ThreadPoolExecutor|SafeConstructor|Environment"
)


def _stateful(source: str) -> set[str]:
    """Return the names of a module's variables that its code, or whoever calls it, can change."""
    tree = ast.parse(source)
    names: dict[str, ast.expr] = {}
    found: set[str] = set()
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            names |= {target.id: statement.value for target in statement.targets if isinstance(target, ast.Name)}
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value:
            names[statement.target.id] = statement.value
        elif isinstance(statement, ast.FunctionDef) and any(
            "cache" in ast.unparse(each) for each in statement.decorator_list
        ):
            found.add(statement.name)
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            found.update(node.names)
        found.update(name for name in _changed(node) if name in names)
    changing = {each.name for each in tree.body if isinstance(each, ast.ClassDef) and _changes_itself(each)}
    for name, value in names.items():
        if isinstance(value, ast.Call):
            made = ast.unparse(value.func).rpartition(".")[2].partition("[")[0]
            if made in changing or _STATEFUL.fullmatch(made):
                found.add(name)
    return found


def _changes_itself(made: ast.ClassDef) -> bool:
    """Return whether a method besides ``__init__`` changes an attribute of its object."""
    methods = [each for each in made.body if isinstance(each, ast.FunctionDef) and each.name != "__init__"]
    return any("self" in set(_changed(node)) for method in methods for node in ast.walk(method))


def _changed(node: ast.AST) -> Iterator[str]:
    """Yield the name that this node changes in place."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attribute)) if _CHANGES.fullmatch(attribute):
            yield name
        case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
            yield name
        case ast.Attribute(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
            yield name
        case ast.AugAssign(target=ast.Name(id=name)):
            yield name


def test_every_changing_variable_of_the_product_is_listed() -> None:
    found = set()
    for path in sorted(_ROOT.rglob("*.py")):
        module = ".".join(("aml_train", *path.relative_to(_ROOT).with_suffix("").parts)).removesuffix(".__init__")
        if "in_build" not in path.parts and path.name != "probe.py":  # these run in images
            found |= {(module, name) for name in _stateful(path.read_text(encoding="utf-8"))}
    listed = {(slot.module, slot.name) for slot in PRODUCT} | set(SHARED)
    assert found - listed == set(), (
        "list it in simulation/kernel/state.py: PRODUCT if each process has its own, else SHARED"
    )
    assert listed - found == set(), "it is gone: take it from simulation/kernel/state.py"


def test_the_listed_variables_exist() -> None:
    for slot in (*PRODUCT, *PYTHON):
        import_module(slot.module)
        value: object = sys.modules[slot.module]
        for name in slot.name.split("."):
            assert hasattr(value, name), f"{slot.module}.{slot.name}"
            value = getattr(value, name)
        slot.fresh(value)
