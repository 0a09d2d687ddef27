"""Run a target guided by coverage: ``python -m fuzz.guided NAME``. Needs atheris.

libFuzzer chooses which inputs to change, and the target's mutations change them. Inputs that reach code for the first time are
left in the folder for `python -m fuzz minimize`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

from fuzz.loop import Result, attempt, keep, pool_of
from fuzz.mutation import LONGEST, Mutator, change
from fuzz.storage import EXAMPLES, FOUND, decode, encode, write
from fuzz.target import Target, load

try:
    import atheris  # type: ignore[import-not-found,import-untyped,unused-ignore]
except ImportError:
    atheris = None


def available() -> bool:
    """Return whether the library is installed."""
    return atheris is not None


def main() -> int:
    """Run one target in this process, which libFuzzer ends."""
    parser = argparse.ArgumentParser(prog="fuzz.guided")
    parser.add_argument("name")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--inputs", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--examples", type=Path, default=EXAMPLES)
    options = parser.parse_args()
    if atheris is None:
        print("atheris is not installed: run without --guided", file=sys.stderr)
        return 2
    name: str = options.name
    # Modules that are loaded in functions are loaded by the seeds, so that they are instrumented as well.
    with atheris.instrument_imports(include=["aml_train", "aml_emulator", "aml_train_action"]):
        target = load(name)
        pool = pool_of(name, target)
        for value in pool:
            attempt(target, value)
    _start(name, target, pool, options)
    return 0


def _start(name: str, target: Target, pool: list[Any], options: argparse.Namespace) -> None:
    found = FOUND / name
    for value in pool:
        write(found, value, target.kind)
    result, began, used = Result(name=name), time.monotonic(), time.process_time()

    def one(data: bytes) -> None:
        try:
            value = decode(data, target.kind)
        except (ValueError, RecursionError):
            return
        result.inputs += 1
        failed = attempt(target, value)
        if failed is not None and failed[0] not in result.failures:
            failure = keep(target, name, value, failed, options.examples)
            result.failures[failure.key] = failure
        if options.seconds is not None and time.monotonic() - began >= options.seconds:
            end()
        if options.inputs is not None and result.inputs >= options.inputs:
            end()

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        rng = Random(seed)  # noqa: S311 - to be repeated
        try:
            value = decode(data, target.kind)
        except (ValueError, RecursionError):
            value = rng.choice(pool)
        changed = encode(change(target.mutate, Mutator(rng, target.words, pool), value), target.kind)
        return changed if len(changed) <= most else encode(rng.choice(pool), target.kind)[:most]

    def end() -> None:
        failures = [[one.key, one.text, str(one.file)] for one in result.failures.values()]
        seconds = time.process_time() - used
        print(json.dumps({"inputs": result.inputs, "seconds": seconds, "failures": failures}), flush=True)
        # libFuzzer's own end would call its handlers of exits.
        sys.stdout.flush()
        import os

        os._exit(0)

    arguments = [
        "fuzz",
        f"-seed={options.seed + 1}",
        f"-max_len={4 * LONGEST}",
        "-verbosity=0",
        "-timeout=60",
        str(found),
    ]
    atheris.Setup(arguments, one, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
