"""Run benchmarks: ``python -m benchmarks [NAME …]``; all of them without a name.

Each runs in a separate process, one after the other. After one name,
options are that benchmark's: ``python -m benchmarks submit --latency 20``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

from benchmarks.measuring import ROOT

NAMES: Final = (
    "startup",
    "warm_run",
    "image_found",
    "submit",
)


def _run(name: str, options: Sequence[str] = ()) -> int:
    argv = [sys.executable, "-m", f"benchmarks.{name}", *options]
    return subprocess.run(argv, cwd=ROOT, check=False).returncode


def main() -> int:
    """Run them; return 1 if one failed, after the others."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=(__doc__ or "").partition(": ")[2])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    found, options = parser.parse_known_args()
    names = found.names or NAMES
    # Values of options look like names.
    if options and names[0] in NAMES:
        at = sys.argv.index(names[0])
        names, options = names[:1], sys.argv[at + 1 :]
    if unknown := set(names) - set(NAMES):
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    failed = [name for name in names if _run(name, options) != 0]
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
