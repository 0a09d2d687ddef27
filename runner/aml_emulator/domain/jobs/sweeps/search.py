"""The values of a sweep's trials, drawn from its search space. Pure.

Distributions are those of https://learn.microsoft.com/azure/machine-learning/how-to-tune-hyperparameters, in the form in which
azure-ai-ml 1.35 sends them: ``{"lr": ["uniform", [0.01, 0.1]]}``. The trial's number decides its values, so that a sweep that
is resumed has the same ones.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aml_emulator.domain.errors import InvalidError, NotSupportedError

Value = str | float | int | bool


@dataclass(frozen=True, kw_only=True)
class _Distribution:
    """How many arguments a distribution has, and how a value is drawn of them."""

    arguments: int
    draw: Callable[..., float]


def _steps(value: float, q: float) -> float:
    return round(value / q) * q


_DISTRIBUTIONS: Final[Mapping[str, _Distribution]] = {
    "randint": _Distribution(arguments=1, draw=lambda chance, upper: chance.randrange(int(upper))),
    "uniform": _Distribution(arguments=2, draw=lambda chance, low, high: chance.uniform(low, high)),
    "quniform": _Distribution(arguments=3, draw=lambda chance, low, high, q: _steps(chance.uniform(low, high), q)),
    "loguniform": _Distribution(arguments=2, draw=lambda chance, low, high: math.exp(chance.uniform(low, high))),
    "qloguniform": _Distribution(
        arguments=3, draw=lambda chance, low, high, q: _steps(math.exp(chance.uniform(low, high)), q)
    ),
    "normal": _Distribution(arguments=2, draw=lambda chance, mu, sigma: chance.gauss(mu, sigma)),
    "qnormal": _Distribution(arguments=3, draw=lambda chance, mu, sigma, q: _steps(chance.gauss(mu, sigma), q)),
    "lognormal": _Distribution(arguments=2, draw=lambda chance, mu, sigma: math.exp(chance.gauss(mu, sigma))),
    "qlognormal": _Distribution(
        arguments=3, draw=lambda chance, mu, sigma, q: _steps(math.exp(chance.gauss(mu, sigma)), q)
    ),
}


@dataclass(frozen=True, kw_only=True)
class Search:
    """The search of a sweep.

    Attributes:
        space: the choices of each parameter, or its distribution's name and arguments.
        seed: what the values are drawn with.
        count: how many different combinations there are; None for no bound.
    """

    space: Mapping[str, tuple[Value, ...] | tuple[str, tuple[float, ...]]]
    choices: frozenset[str]
    seed: str
    count: int | None

    def values(self, number: int) -> dict[str, Value]:
        """Return the values of the trial of that number, from 0."""
        if self.count is not None:
            return self._combination(number)
        # Not for secrets: the same trial is to have the same values.
        chance = random.Random(f"{self.seed}/{number}")  # noqa: S311
        found: dict[str, Value] = {}
        for name, given in self.space.items():
            if name in self.choices:
                found[name] = chance.choice(given)  # type: ignore[assignment]
            else:
                kind, arguments = str(given[0]), given[1]
                found[name] = _DISTRIBUTIONS[kind].draw(chance, *arguments)  # type: ignore[misc]
        return found

    def _combination(self, number: int) -> dict[str, Value]:
        found: dict[str, Value] = {}
        for name, given in self.space.items():
            number, place = divmod(number, len(given))
            found[name] = given[place]  # type: ignore[assignment]
        return found


def read_search(job: Mapping[str, Any], *, seed: str) -> Search:
    """Return the search of a sweep job's properties.

    Args:
        seed: what values are drawn with if the job names no seed.

    Raises:
        NotSupportedError: an algorithm or rule, by its name.
        InvalidError: a space that is none.
    """
    algorithm = job.get("samplingAlgorithm") or {}
    kind = str(algorithm.get("samplingAlgorithmType") or "Random").lower()
    if kind not in ("random", "grid"):
        raise NotSupportedError(f"samplingAlgorithm of type '{kind}' (only Random and Grid)")
    rule = str(algorithm.get("rule") or "random").lower()
    if rule != "random":
        raise NotSupportedError(f"samplingAlgorithm.rule '{rule}' (only random)")
    space: dict[str, Any] = {}
    choices = set()
    for name, given in (job.get("searchSpace") or {}).items():
        kind_of, values = _parameter(name, given)
        if kind_of == "choice":
            choices.add(name)
            space[name] = values
        elif kind == "grid":
            raise InvalidError(f"searchSpace.{name}: a grid takes `choice` only, not `{kind_of}`.")
        else:
            space[name] = (kind_of, values)
    if not space:
        raise InvalidError("The sweep has no search space.")
    count = math.prod(len(values) for values in space.values()) if kind == "grid" else None
    return Search(space=space, choices=frozenset(choices), seed=str(algorithm.get("seed") or seed), count=count)


def _parameter(name: str, given: Any) -> tuple[str, tuple[Any, ...]]:
    """Return the distribution of a parameter, and its arguments or choices."""
    if not (isinstance(given, Sequence) and len(given) == 2 and isinstance(given[1], Sequence)):
        raise InvalidError(f"searchSpace.{name} is a distribution and its arguments, not {given!r}.")
    kind, arguments = str(given[0]), tuple(given[1])
    if kind == "choice":
        values = tuple(arguments[0]) if len(arguments) == 1 and isinstance(arguments[0], list) else arguments
        if not values:
            raise InvalidError(f"searchSpace.{name} has nothing to choose from.")
        return kind, values
    known = _DISTRIBUTIONS.get(kind)
    if known is None:
        raise NotSupportedError(f"searchSpace.{name}: the distribution '{kind}'")
    if len(arguments) != known.arguments or not all(_is_number(one) for one in arguments):
        raise InvalidError(f"searchSpace.{name}: `{kind}` has {known.arguments} numbers, not {list(arguments)}.")
    if kind == "randint" and int(arguments[0]) < 1:
        raise InvalidError(f"searchSpace.{name}: the upper bound of `randint` is a number from 1.")
    if kind.startswith("q") and arguments[-1] <= 0:
        raise InvalidError(f"searchSpace.{name}: the step of `{kind}` is more than 0.")
    return kind, arguments


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
