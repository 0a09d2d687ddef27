"""The page of the Python names: signatures and docstrings, from the code."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any, Final

import aml_train
from aml_train import testing
from scripts.docs.markdown import docstring, page, paragraph

_SECTIONS: Final = {"Args:": "Arguments", "Raises:": "Errors", "Returns:": "Result", "Attributes:": "Attributes"}
#: Fields of results that are documented by their classes alone.
_DATA: Final = ("__version__",)
#: Their methods are those that the pipeline calls.
_ATTRIBUTES_ALONE: Final = ("MemoryService", "Config")
_SHORT: Final = 80


def python_page() -> str:
    """Return the page of every public name."""
    intro = (
        "The names of `aml_train` and `aml_train.testing`. [Python](../python.md) explains them with examples; the events are on "
        "[Events](events.md). The examples are run by the tests, with a workspace in memory."
    )
    parts = [paragraph(intro), "## aml_train"]
    for name in sorted(aml_train.__all__, key=lambda one: (one[0].isupper(), one.lower())):
        value = getattr(aml_train, name)
        if name not in _DATA and not inspect.ismodule(value):
            parts += _entry(name, value)
    parts.append("## aml_train.testing")
    for name in sorted(testing.__all__, key=lambda one: (one[0].isupper(), one.lower())):
        parts += _entry(name, getattr(testing, name))
    return page("Python reference", *parts)


def _entry(name: str, value: Any) -> Iterator[str]:
    """Yield the heading, the signature and the docstring of a name, and its methods."""
    if not (inspect.isclass(value) or inspect.isfunction(value)):
        yield f"### {name}"
        yield "A type: a function that takes a `MemoryJob`, and yields at each look at the job."
        return
    yield f"### {name}"
    if inspect.isfunction(value):
        yield _fenced(f"{name}{_signature(value)}")
    yield from _text(inspect.getdoc(value) or "")
    if inspect.isclass(value) and name not in _ATTRIBUTES_ALONE:
        ours = [kind for kind in reversed(value.__mro__) if kind.__module__.startswith("aml_train.")]
        members = {inner: one for kind in ours for inner, one in vars(kind).items()}
        for inner, method in members.items():
            function = method.__func__ if isinstance(method, classmethod) else method
            if inner.startswith("_") or not inspect.isfunction(function) or not function.__doc__:
                continue
            yield f"#### {name}.{inner}"
            yield _fenced(f"{name}.{inner}{_signature(function)}")
            yield from _text(inspect.getdoc(function) or "")


def _signature(function: Any) -> str:
    """Return the parameters, one a line if they are many; without ``self``."""
    signature = inspect.signature(function)
    shown, keyword = [], False
    for one in signature.parameters.values():
        if one.name in ("self", "cls"):
            continue
        if one.kind is one.KEYWORD_ONLY and not keyword:
            shown.append("*")
        keyword = keyword or one.kind in (one.KEYWORD_ONLY, one.VAR_POSITIONAL)
        annotation = f": {one.annotation}" if one.annotation is not one.empty else ""
        shown_default = getattr(one.default, "__name__", None) or repr(one.default)
        default = f" = {shown_default}" if one.default is not one.empty else ""
        shown.append(f"{'*' * (one.kind is one.VAR_POSITIONAL)}{one.name}{annotation}{default}")
    end = "" if signature.return_annotation is signature.empty else f" -> {signature.return_annotation}"
    short = f"({', '.join(shown)}){end}"
    if len(short) <= _SHORT:
        return short
    return "(\n" + "".join(f"    {one},\n" for one in shown) + f"){end}"


def _text(text: str) -> Iterator[str]:
    """Yield the blocks of a docstring as Markdown."""
    for block in re.split(r"\n\s*\n", text.strip()):
        lines = block.splitlines()
        if lines[0] in _SECTIONS:
            yield f"{_SECTIONS[lines[0]]}:"
            yield "\n".join(_items(lines[1:]))
        elif lines[0].startswith(">>> "):
            yield _fenced("\n".join(lines))
        elif all(line.startswith("    ") for line in lines):
            yield _fenced("\n".join(line[4:] for line in lines))
        else:
            yield paragraph(docstring(block.removesuffix(":") if block.endswith("::") else block))


def _items(lines: list[str]) -> Iterator[str]:
    """Yield a list item for each name of a section; its text may continue."""
    found: list[str] = []
    for line in lines:
        if re.match(r" {4}\S", line):
            found.append(line.strip())
        elif found:
            found[-1] += f" {line.strip()}"
    for one in found:
        name, sign, text = one.partition(": ")
        shown = f"`{name}`: {docstring(text)}" if sign and re.fullmatch(r"[\w, .*]+", name) else docstring(one)
        yield _wrapped(shown)


def _wrapped(text: str) -> str:
    lines = paragraph(f"- {text}").splitlines()
    return "\n".join([lines[0], *(f"  {line}" for line in lines[1:])])


def _fenced(text: str) -> str:
    return f"```python\n{text}\n```"
