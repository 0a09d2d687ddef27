"""Substitution of inputs and outputs in a job's command, as AzureML does it.

``${{inputs.x}}`` and ``${{outputs.x}}`` are replaced by text: a literal as the client sent it (azure-ai-ml sends
``str(value)``: ``True``, ``0.1``), anything else by its path; nothing is quoted or escaped. ``$[[...]]`` brackets a part
that is left out whole if an input in it was not given.
See https://learn.microsoft.com/azure/machine-learning/reference-yaml-core-syntax.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

REFERENCE = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
OPTIONAL = re.compile(r"\$\[\[(.*?)\]\]", re.DOTALL)
NAME = re.compile(r"(inputs|outputs)\.([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*)")


class ExpressionError(ValueError):
    """An expression that cannot be resolved; the message quotes it and says why."""


@dataclass(frozen=True, kw_only=True)
class Reference:
    """One ``${{...}}`` of a command.

    Attributes:
        group: which mapping it is looked up in.
        name: the key there.
        optional: whether it is in a ``$[[...]]``.
    """

    group: Literal["inputs", "outputs"]
    name: str
    optional: bool


def expression_references(command: str) -> tuple[Reference, ...]:
    """Return every reference of *command*, in order of appearance.

    Raises:
        ExpressionError: something other than ``inputs.NAME`` or ``outputs.NAME`` is in the braces.
    """
    brackets = [match.span() for match in OPTIONAL.finditer(command)]
    found = []
    for match in REFERENCE.finditer(command):
        group, name = _parse(match)
        optional = any(start < match.start() < end for start, end in brackets)
        found.append(Reference(group=group, name=name, optional=optional))
    return tuple(found)


def render(command: str, inputs: Mapping[str, str], outputs: Mapping[str, str]) -> str:
    """Return *command* with its expressions replaced.

    Args:
        inputs: by name, the literal's text or the path in the container. A name that is absent was not given.
        outputs: by name, the path in the container.

    Raises:
        ExpressionError: a reference to a name that is not there, outside of ``$[[...]]`` or to an output.
    """
    values = {"inputs": inputs, "outputs": outputs}

    def value(match: re.Match[str]) -> str:
        group, name = _parse(match)
        if name not in values[group]:
            known = ", ".join(sorted(values[group])) or "none"
            raise ExpressionError(f"{match.group(0)}: the job has no {group[:-1]} '{name}' (it has: {known})")
        return values[group][name]

    def optional(match: re.Match[str]) -> str:
        part = match.group(1)
        for reference in expression_references(part):
            if reference.group == "inputs" and reference.name not in inputs:
                return ""
        return part

    # The optional parts are decided before any value is put in: values are never read as expressions.
    return REFERENCE.sub(value, OPTIONAL.sub(optional, command))


def _parse(match: re.Match[str]) -> tuple[Literal["inputs", "outputs"], str]:
    name = NAME.fullmatch(match.group(1).strip())
    if name is None:
        raise ExpressionError(f"{match.group(0)}: only ${{{{inputs.NAME}}}} and ${{{{outputs.NAME}}}} can be used")
    return ("inputs" if name.group(1) == "inputs" else "outputs"), name.group(2)
