"""A target: one parser, or a family of them, and what must hold for every input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from fuzz.mutation import Mutator

Kind = Literal["text", "json"]
"""An input is a text, or a value that JSON can hold."""

NAMES: Final = (
    "addresses",
    "answers",
    "arguments",
    "artifacts",
    "bodies",
    "bundles",
    "comments",
    "configuration",
    "decisions",
    "devcontainers",
    "dockerfiles",
    "events",
    "filters",
    "globs",
    "ignore_files",
    "images",
    "inputs",
    "jobs",
    "junit",
    "lineage",
    "logs",
    "masks",
    "overrides",
    "patterns",
    "projects",
    "promotions",
    "references",
    "reports",
    "requirements",
    "rules",
    "runconfigs",
    "specs",
    "text",
    "tokens",
)


class BrokenError(Exception):
    """A property that must hold for every input does not hold."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """A fuzzer.

    Attributes:
        kind: the type of its inputs.
        reads: the modules with the parsers in question. Each of them is entered by the seeds, which a test checks.
        seeds: returns valid inputs, from this repository as far as possible.
        check: reads one input; raises for anything that must not happen, `BrokenError` for a property.
        words: pieces of the grammar, which mutations put into texts and keys.
        mutate: changes an input; None for the usual changes of its kind.
    """

    kind: Kind
    reads: tuple[str, ...]
    seeds: Callable[[], Sequence[Any]]
    check: Callable[[Any], None]
    words: Sequence[str] = ()
    mutate: Callable[[Mutator, Any], Any] | None = None


def load(name: str) -> Target:
    """Return the target of this name, which is ``TARGET`` of its module."""
    target = import_module(f"fuzz.targets.{name}").TARGET
    if not isinstance(target, Target):
        raise TypeError(f"fuzz.targets.{name}.TARGET is no target")
    return target


def require(holds: object, what: str) -> None:
    """Raise `BrokenError` if a property does not hold."""
    if not holds:
        raise BrokenError(what)


def as_bytes(text: str) -> bytes:
    """Return a text as bytes: UTF-8, in which U+DC80 to U+DCFF are bytes that are not."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
