"""The values of a sweep's trials, drawn from its search space. Pure.

Distributions are those of https://learn.microsoft.com/azure/machine-learning/how-to-tune-hyperparameters, in the form in which
azure-ai-ml 1.35 sends them: ``{"lr": ["uniform", [0.01, 0.1]]}``. The trial's number decides its values, so that a sweep that
is resumed has the same ones.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aml_emulator.domain.errors import InvalidError, NotSupportedError


def spread_point(number: int, dimensions: int, *, seed: str) -> list[float]:
    """Return a point of an evenly spread sequence; each coordinate is between 0 and 1, and neither of them.

    In each dimension it goes on by a power of the root of ``x^(dimensions + 1) = x + 1``, the golden ratio for one dimension, from
    a place that the seed decides (https://en.wikipedia.org/wiki/Low-discrepancy_sequence#Additive_recurrence).
    """
    root = 2.0
    for _ in range(64):
        root = (1 + root) ** (1 / (dimensions + 1))
    begin = random.Random(seed)  # noqa: S311 - not for secrets: the same seed is to give the same points
    return [(begin.random() + number / root ** (one + 1)) % 1 or 0.5 for one in range(dimensions)]


Value = str | float | int | bool

_BITS: Final = 52
"""Digits of a random share."""


_NORMAL: Final = statistics.NormalDist()


@dataclass(frozen=True, kw_only=True)
class _Distribution:
    """A distribution by its quantiles.

    Attributes:
        arguments: how many there are.
        value: the value at a share between 0 and 1, and neither of them, of those that are drawn.
        scaled: whether that is the exponent of a base.
        stepped: whether the last argument is the step between values.
    """

    arguments: int
    value: Callable[..., float]
    scaled: bool = False
    stepped: bool = False

    def draw(self, share: float, arguments: Sequence[float], base: float) -> float:
        """Return the value at a share."""
        own = arguments[:-1] if self.stepped else arguments
        value = self.value(share, *own)
        if self.scaled:
            value = base**value
        if self.stepped:
            value = round(value / arguments[-1]) * arguments[-1]
        if not math.isfinite(value):
            raise OverflowError
        return value


def _uniform(share: float, low: float, high: float) -> float:
    return low + share * (high - low)


def _normal(share: float, mu: float, sigma: float) -> float:
    return mu + sigma * _NORMAL.inv_cdf(share)


def _place(share: float, count: float) -> int:
    """Return one of so many places, from 0."""
    return min(int(share * count), int(count) - 1)


_DISTRIBUTIONS: Final[Mapping[str, _Distribution]] = {
    "randint": _Distribution(arguments=1, value=_place),
    "uniform": _Distribution(arguments=2, value=_uniform),
    "quniform": _Distribution(arguments=3, value=_uniform, stepped=True),
    "loguniform": _Distribution(arguments=2, value=_uniform, scaled=True),
    "qloguniform": _Distribution(arguments=3, value=_uniform, scaled=True, stepped=True),
    "normal": _Distribution(arguments=2, value=_normal),
    "qnormal": _Distribution(arguments=3, value=_normal, stepped=True),
    "lognormal": _Distribution(arguments=2, value=_normal, scaled=True),
    "qlognormal": _Distribution(arguments=3, value=_normal, scaled=True, stepped=True),
}


@dataclass(frozen=True, kw_only=True)
class Search:
    """The search of a sweep.

    Attributes:
        space: the choices of each parameter, or its distribution's name and arguments.
        choices: the parameters that have choices.
        seed: what the values are drawn with.
        sobol: whether they are spread more evenly than random ones; the sequence is not Azure's.
        base: that of logarithmic distributions.
        count: how many different combinations there are; None for no bound.
    """

    space: Mapping[str, Any]
    choices: frozenset[str]
    seed: str
    sobol: bool
    base: float
    count: int | None

    def values(self, number: int) -> dict[str, Value]:
        """Return the values of the trial of that number, from 0.

        Raises:
            InvalidError: one is too large.
        """
        if self.count is not None:
            return self._combination(number)
        try:
            return {
                name: self._value(name, share) for name, share in zip(self.space, self._shares(number), strict=True)
            }
        except OverflowError as error:
            raise InvalidError(f"searchSpace: a value of the trial {number} is too large.") from error

    def _shares(self, number: int) -> list[float]:
        """Return where the value of each parameter is among all that may be drawn."""
        if self.sobol:
            return spread_point(number, len(self.space), seed=self.seed)
        # Not for secrets: the same trial is to have the same values.
        chance = random.Random(f"{self.seed}/{number}")  # noqa: S311
        return [(chance.getrandbits(_BITS) + 0.5) / 2**_BITS for _ in self.space]

    def _value(self, name: str, share: float) -> Value:
        given = self.space[name]
        if name in self.choices:
            chosen: Value = given[_place(share, len(given))]
            return chosen
        kind, arguments = given
        return _DISTRIBUTIONS[kind].draw(share, arguments, self.base)

    def _combination(self, number: int) -> dict[str, Value]:
        found: dict[str, Value] = {}
        for name, given in self.space.items():
            number, place = divmod(number, len(given))
            found[name] = given[place]
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
    if kind == "bayesian":
        raise NotSupportedError(
            "samplingAlgorithm of type 'bayesian': the local AzureML draws no values from the results of earlier trials."
            " Use the type random, with the rule sobol for values that are spread evenly"
        )
    if kind not in ("random", "grid"):
        raise NotSupportedError(f"samplingAlgorithm of type '{kind}' (only Random and Grid)")
    rule = str(algorithm.get("rule") or "random").lower()
    if rule not in ("random", "sobol"):
        raise NotSupportedError(f"samplingAlgorithm.rule '{rule}' (only random and sobol)")
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
    given_seed = algorithm.get("seed")
    return Search(
        space=space,
        choices=frozenset(choices),
        seed=str(seed if given_seed is None else given_seed),
        sobol=rule == "sobol",
        base=_base(algorithm.get("logbase")),
        count=math.prod(len(values) for values in space.values()) if kind == "grid" else None,
    )


def _base(given: Any) -> float:
    """Return the base of logarithmic distributions: a positive number, or ``e``."""
    if given is None or str(given).lower() == "e":
        return math.e
    try:
        base = float(str(given))
    except ValueError:
        base = 0.0
    if not (math.isfinite(base) and base > 0):
        raise InvalidError(f"samplingAlgorithm.logbase is a positive number or 'e', not '{given}'.")
    return base


def _parameter(name: str, given: Any) -> tuple[str, tuple[Any, ...]]:
    """Return the distribution of a parameter, and its arguments or choices."""
    if not (isinstance(given, Sequence) and len(given) == 2 and isinstance(given[1], Sequence)):
        raise InvalidError(f"searchSpace.{name} is a distribution and its arguments, not {given!r}.")
    kind, arguments = str(given[0]), tuple(given[1])
    if kind == "choice":
        values = tuple(arguments[0]) if len(arguments) == 1 and isinstance(arguments[0], list) else arguments
        if not values:
            raise InvalidError(f"searchSpace.{name} has nothing to choose from.")
        if any(isinstance(value, Mapping) for value in values):
            raise NotSupportedError(f"searchSpace.{name}: a choice among groups of parameters")
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
