"""Run a target: mutate, read, keep what failed.

Input number *i* of a seed depends on the seed, on *i* and on the corpus alone: two runs of the same seed try the same inputs,
whatever the number of workers.
"""

from __future__ import annotations

import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from fuzz.limits import bounded
from fuzz.mutation import Mutator, change
from fuzz.shrink import shrink
from fuzz.storage import CORPUS, EXAMPLES, ROOT, read, write
from fuzz.target import Target, load

MOST_FAILURES: Final = 20
"""Different failures after which a run ends."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A way in which a target failed.

    Attributes:
        key: the error's class and the place in the product; further failures of the same key are not reported.
        text: the end of the traceback.
        file: the input, made as small as possible.
    """

    key: str
    text: str
    file: Path


@dataclass(kw_only=True)
class Result:
    """The work of a run until now.

    Attributes:
        seconds: processor time, which does not depend on what else the machine does.
    """

    name: str
    inputs: int = 0
    seconds: float = 0.0
    failures: dict[str, Failure] = field(default_factory=dict)


def failure_key(error: BaseException) -> str:
    """Return a failure's key: its class, and the innermost place of ours."""
    frames = traceback.extract_tb(error.__traceback__)
    inner = [frame for frame in frames if "/runner/" in frame.filename or "/action/" in frame.filename]
    own = [frame for frame in frames if "/fuzz/targets/" in frame.filename]
    frame = (inner or own or frames)[-1]
    name = Path(frame.filename)
    place = name.relative_to(ROOT) if name.is_relative_to(ROOT) else name.name
    line = f":{frame.lineno}" if not inner else ""
    return f"{type(error).__name__} in {place}:{frame.name}{line}"


def attempt(target: Target, value: Any) -> tuple[str, str] | None:
    """Read an input; return its failure's key and traceback, None without one."""
    try:
        bounded(target.check, value)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - whatever comes out is what is looked for
        return failure_key(error), "".join(traceback.format_exception(error, limit=-6))[-1500:]
    return None


def pool_of(name: str, target: Target) -> list[Any]:
    """Return the inputs that mutations start from."""
    return [*target.seeds(), *read(CORPUS / name, target.kind)]


def input_number(name: str, target: Target, pool: list[Any], seed: int, number: int) -> Any:
    """Return an input of a seed."""
    rng = Random(f"{name}/{seed}/{number}")  # noqa: S311 - to be repeated
    return change(target.mutate, Mutator(rng, target.words, pool), rng.choice(pool))


def run(
    name: str,
    *,
    seed: int,
    inputs: int | None = None,
    seconds: float | None = None,
    first: int = 0,
    step: int = 1,
    examples: Path = EXAMPLES,
) -> Result:
    """Run a target.

    Args:
        inputs: how many inputs the run has in all; None for as many as the time allows.
        seconds: when to end, the target's start included; None for no limit. Seeds take at most half of it.
        first: which of *step* equal shares of the inputs this process tries.
        examples: where failing inputs are written.
    """
    began = time.monotonic()
    target = load(name)
    pool = pool_of(name, target)
    result, used = Result(name=name), time.process_time()
    for value in pool if first == 0 else ():
        if seconds is not None and time.monotonic() - began >= seconds / 2:
            break
        _try(target, name, value, result, examples)
    number = first
    while (inputs is None or number < inputs) and len(result.failures) < MOST_FAILURES:
        if seconds is not None and time.monotonic() - began >= seconds:
            break
        _try(target, name, input_number(name, target, pool, seed, number), result, examples)
        result.inputs += 1
        number += step
    result.seconds = time.process_time() - used
    return result


def _try(target: Target, name: str, value: Any, result: Result, examples: Path) -> None:
    failed = attempt(target, value)
    if failed is None or failed[0] in result.failures:
        return
    result.failures[failed[0]] = keep(target, name, value, failed, examples)


def keep(target: Target, name: str, value: Any, failed: tuple[str, str], examples: Path) -> Failure:
    """Write a failing input, as small as it becomes within some seconds."""

    def same(candidate: Any) -> bool:
        again = attempt(target, candidate)
        return again is not None and again[0] == failed[0]

    small = shrink(value, same) if same(value) else value
    return Failure(key=failed[0], text=failed[1], file=write(examples / name, small, target.kind))
