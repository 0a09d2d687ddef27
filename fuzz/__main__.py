"""Run fuzzers: ``python -m fuzz NAME``, ``all``, ``replay FILE``, ``minimize``.

The same seed tries the same inputs. docs/fuzzing.md describes the targets and what to do with a failure.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from fuzz.coverage import fewest
from fuzz.guided import available
from fuzz.loop import Result, attempt, input_number
from fuzz.plan import share
from fuzz.storage import CORPUS, EXAMPLES, FOUND, SUFFIX, decode, encode, read, write
from fuzz.target import NAMES, load
from fuzz.tasks import Task, carry_out

MOST_BYTES = 7000
"""How much the corpus of one target may be: all together stay below 300 kB."""
_LONGEST_KEPT = 2000
_MOST_TRACED = 4000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return 1 if a target failed."""
    options = _parser().parse_args(arguments)
    if options.what == "replay":
        return _replay(options.files)
    if options.what == "minimize":
        return _minimize(options.names or NAMES, options.inputs, options.seed)
    if options.what == "list":
        print("\n".join(NAMES))
        return 0
    names = NAMES if options.what == "all" else (options.what,)
    return _run(names, options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=(__doc__ or "").partition(".")[0])
    commands = parser.add_subparsers(dest="what", required=True, metavar="NAME|all|list|replay|minimize")
    for name in ("all", *NAMES):
        one = commands.add_parser(name, help="every target" if name == "all" else f"fuzz.targets.{name}")
        one.add_argument("--seed", type=int, default=0, help="decides every input (0)")
        one.add_argument("--inputs", type=int, help="how many, over all targets")
        one.add_argument("--minutes", type=float, help="how long, over all targets")
        one.add_argument("--workers", type=int, default=1, help="processes in parallel (1)")
        one.add_argument("--guided", action="store_true", help="by coverage; needs atheris")
        one.add_argument("--examples", type=Path, default=EXAMPLES, help="where failing inputs are written")
    commands.add_parser("list", help="the targets' names")
    replay = commands.add_parser("replay", help="read inputs again; the folder names the target")
    replay.add_argument("files", nargs="+", type=Path)
    minimize = commands.add_parser("minimize", help="write the corpus again: one input for each new set of edges")
    minimize.add_argument("names", nargs="*", metavar="NAME")
    minimize.add_argument(
        "--inputs", type=int, default=1000, help="how many mutations of each target to look at as well (1000)"
    )
    minimize.add_argument("--seed", type=int, default=0)
    return parser


def _run(names: Sequence[str], options: argparse.Namespace) -> int:
    if options.guided and not available():
        print("--guided needs atheris: pip install atheris, or leave --guided out", file=sys.stderr)
        return 2
    inputs: int | None = options.inputs
    if inputs is None and options.minutes is None:
        inputs = 20_000 * len(names)
    seconds = None if options.minutes is None else options.minutes * 60 * options.workers / len(names)
    # One target alone is divided among the workers, several are not.
    parts = options.workers if len(names) == 1 else 1
    if parts > 1 and seconds is not None:
        seconds /= parts
    tasks = [
        Task(
            name=name,
            seed=options.seed,
            inputs=None if inputs is None else share_of(name, names, inputs),
            seconds=seconds,
            part=part,
            parts=parts,
            guided=options.guided,
            examples=options.examples,
        )
        for name in names
        for part in range(parts)
    ]
    began = time.monotonic()
    results: dict[str, Result] = {}
    with multiprocessing.get_context("spawn").Pool(options.workers, maxtasksperchild=1) as pool:
        for result in pool.imap_unordered(carry_out, tasks):
            known = results.setdefault(result.name, Result(name=result.name))
            known.inputs += result.inputs
            known.seconds += result.seconds
            known.failures.update(result.failures)
            if parts == 1:
                print(_line(known), flush=True)
    if parts > 1:
        print("\n".join(map(_line, results.values())))
    failures = [failure for result in results.values() for failure in result.failures.values()]
    total = sum(result.inputs for result in results.values())
    print(f"{total} inputs in {time.monotonic() - began:.0f} s, {len(failures)} failures")
    for failure in failures:
        print(f"\n{failure.key}\n{failure.text.rstrip()}\n  python -m fuzz replay {failure.file}")
    return 1 if failures else 0


def share_of(name: str, names: Sequence[str], inputs: int) -> int:
    """Return how many inputs a target gets."""
    return inputs if len(names) == 1 else share(name, inputs)


def _line(result: Result) -> str:
    rate = result.inputs / result.seconds if result.seconds else 0.0
    return f"{result.name:16} {result.inputs:9} inputs {result.seconds:7.1f} s {rate:8.0f}/s  {len(result.failures)} failures"


def _replay(files: Iterable[Path]) -> int:
    bad = 0
    for file in files:
        target = load(file.parent.name)
        failed = attempt(target, decode(file.read_bytes(), target.kind))
        print(f"{file}: {'ok' if failed is None else failed[0]}")
        if failed is not None:
            bad += 1
            print(failed[1])
    return 1 if bad else 0


def _minimize(names: Sequence[str], inputs: int, seed: int) -> int:
    for name in names:
        target = load(name)
        seeds, before = list(target.seeds()), read(CORPUS / name, target.kind)
        pool = [*seeds, *before]
        made = [input_number(name, target, pool, seed, number) for number in range(inputs)]
        found = read(FOUND / name, target.kind)
        Random(seed).shuffle(found)  # noqa: S311 - to be repeated
        usual = {encode(one, target.kind) for one in seeds}
        candidates: dict[bytes, Any] = {}
        for one in (*before, *found[:_MOST_TRACED], *made):
            data = encode(one, target.kind)
            if len(data) <= _LONGEST_KEPT and data not in usual:
                candidates[data] = one
        kept = fewest(target.check, seeds, candidates.values(), target.kind, most_bytes=MOST_BYTES)
        for path in (CORPUS / name).glob(f"*{SUFFIX[target.kind]}"):
            path.unlink()
        for one in kept:
            write(CORPUS / name, one, target.kind)
        size = sum(len(encode(one, target.kind)) for one in kept)
        print(f"{name:16} {len(candidates):6} candidates, {len(kept):4} kept, {size:6} bytes", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
