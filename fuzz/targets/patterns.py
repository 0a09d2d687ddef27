"""Regular expressions of the product: each reads hostile texts in bounded time.

Texts are made from the expressions themselves: what almost matches, repeated.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Mapping, Sequence
from functools import cache
from random import Random
from typing import Any, Final

import aml_emulator
import aml_train
import aml_train_action
from fuzz.mutation import Mutator
from fuzz.target import Target, require

#: What `re` compiles with; its types are nowhere.
_PARSER: Final[Any] = importlib.import_module("re._parser")
_LONGEST: Final = 4000
#: They import what is no dependency of every machine, or run in users' images by themselves.
_LEFT_OUT: Final = ("__main__", "run_flush_site")


@cache
def patterns() -> Mapping[str, re.Pattern[Any]]:
    """Return the compiled expressions of all modules, by module and name."""
    found: dict[str, re.Pattern[Any]] = {}
    for package in (aml_train, aml_emulator, aml_train_action):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if module.name.endswith(_LEFT_OUT):
                continue
            for name, value in vars(importlib.import_module(module.name)).items():
                if isinstance(value, re.Pattern):
                    found.setdefault(f"{module.name}.{name}", value)
    return found


def _sample(tree: Any, rng: Random, depth: int = 0) -> str:
    """Return a text that a parsed expression matches, apart from what is around it."""
    return "".join(_sample_of(str(operation), argument, rng, depth) for operation, argument in tree)


def _sample_of(operation: str, argument: Any, rng: Random, depth: int) -> str:
    match operation:
        case "LITERAL":
            return chr(argument)
        case "NOT_LITERAL":
            return "a" if argument != ord("a") else "b"
        case "ANY":
            return rng.choice("a0 .")
        case "IN":
            return _sample_in(argument, rng)
        case "BRANCH":
            return _sample(rng.choice(argument[1]), rng, depth + 1)
        case "SUBPATTERN":
            return _sample(argument[3], rng, depth + 1)
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            low, high, inner = argument
            times = min(high if isinstance(high, int) else 3, max(low, rng.choice((0, 1, 2, 3))))
            return "".join(_sample(inner, rng, depth + 1) for _ in range(min(times, 40)))
        case "ATOMIC_GROUP":
            return _sample(argument, rng, depth + 1)
        case "CATEGORY":
            return rng.choice(
                {"CATEGORY_DIGIT": "07", "CATEGORY_SPACE": " \n", "CATEGORY_WORD": "a_0"}.get(str(argument), "-x")
            )
        case _:
            return ""


def _sample_in(items: Any, rng: Random) -> str:
    if str(items[0][0]) == "NEGATE":
        taken = {chr(value) for kind, value in items[1:] if str(kind) == "LITERAL"}
        return next(sign for sign in "a0-~ \u00e9" if sign not in taken)
    kind, value = rng.choice(items)
    if str(kind) == "RANGE":
        return chr(rng.choice((value[0], value[1])))
    return chr(value) if str(kind) == "LITERAL" else _sample_of(str(kind), value, rng, 0)


def seeds() -> Sequence[Any]:
    """Return texts that each expression matches, or almost."""
    rng = Random(3)  # noqa: S311 - to be repeated
    found = []
    for name, pattern in patterns().items():
        flags = pattern.flags & ~re.UNICODE if isinstance(pattern.pattern, bytes) else pattern.flags
        tree = _PARSER.parse(pattern.pattern, flags & ~re.DEBUG)
        found += [{"pattern": name, "text": _sample(tree, rng)[:500]} for _ in range(2)]
    return found


def check(value: Any) -> None:
    """Apply the expression in each way."""
    given = value if isinstance(value, dict) else {}
    pattern, text = patterns().get(str(given.get("pattern"))), given.get("text")
    if pattern is None or not isinstance(text, str):
        return
    subject: Any = text[:_LONGEST]
    if isinstance(pattern.pattern, bytes):
        subject = subject.encode("utf-8", "surrogatepass")
    whole = pattern.fullmatch(subject)
    require(whole is None or pattern.match(subject) is not None, "a whole match is no match")
    found = pattern.search(subject)
    require(whole is None or found is not None, "a match is not found")
    for _ in zip(range(50), pattern.finditer(subject), strict=False):
        pass


def mutate(mutator: Mutator, value: Any) -> Any:
    """Repeat a piece of the text, or change it; the expression stays."""
    if not isinstance(value, dict) or not isinstance(value.get("text"), str):
        return value
    text, rng = value["text"], mutator.rng
    if rng.random() < 0.6 and text:
        start = rng.randrange(len(text))
        end = min(len(text), start + rng.randint(1, 6))
        times = rng.choice((3, 30, 300, 2000))
        text = (text[:start] + text[start:end] * times + rng.choice(("", "!", "\0", "\n", text[end:])))[:_LONGEST]
    else:
        text = mutator.text(text)[:_LONGEST]
    return {**value, "text": text}


TARGET = Target(
    kind="json",
    reads=(),
    seeds=seeds,
    check=check,
    mutate=mutate,
)
