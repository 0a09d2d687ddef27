"""``python -m scripts.recordings``: reduce recordings to facts."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from scripts.recordings.facts import Exchange, merge, read_facts, write_facts
from scripts.recordings.read import read_recording
from scripts.recordings.shapes import reduce_exchange


def main(arguments: Sequence[str] | None = None) -> int:
    """Reduce recordings; return the exit code."""
    parser = argparse.ArgumentParser(prog="scripts.recordings", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a recording, JSON or YAML")
    parser.add_argument("--into", required=True, type=Path, help="the file of facts; known ones are kept")
    parser.add_argument(
        "--only", default="", metavar="REGEX", help="only exchanges (METHOD PATH STATUS) that it is found in"
    )
    parser.add_argument("--without", default="(?!)", metavar="REGEX", help="no exchanges that it is found in")
    parser.add_argument("--no-bodies", action="store_true", help="keep operations and statuses, and no shapes")
    parser.add_argument("--root", type=Path, help="the folder that the recordings' names are relative to")
    options = parser.parse_args(arguments)
    known = read_facts(options.into) if options.into.exists() else []
    reduced = _reduced(options.files, options.root)
    chosen = (
        one for one in reduced if re.search(options.only, _named(one)) and not re.search(options.without, _named(one))
    )
    if options.no_bodies:
        chosen = (replace(one, sent=None, answer=None, headers=(), query={}) for one in chosen)
    facts = merge([*known, *chosen])
    write_facts(options.into, facts)
    print(f"{options.into}: {len(facts)} exchanges, {len(facts) - len(known)} of them new")
    return 0


def _named(one: Exchange) -> str:
    return f"{one.operation} {one.status}"


def _reduced(files: Sequence[Path], root: Path | None) -> Iterator[Exchange]:
    for file in files:
        source = file.stem if root is None else file.relative_to(root).with_suffix("").as_posix()
        try:
            entries = read_recording(file)
        except ValueError as error:
            print(f"{file}: left out, {error}", file=sys.stderr)
            continue
        for entry in entries:
            reduced = reduce_exchange(entry, source=source)
            if reduced is not None:
                yield reduced


if __name__ == "__main__":
    sys.exit(main())
