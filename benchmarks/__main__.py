"""Run benchmarks: ``python -m benchmarks [NAME …]``; all of them without a name.

Each runs in a separate process, one after the other.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from typing import Final

from benchmarks.measuring import ROOT

NAMES: Final = (
    "startup",
    "warm_run",
    "image_found",
    "image_changed",
    "action_image",
    "emulator_load",
    "workspaces",
    "page_list",
    "submit",
    "graph_plan",
    "graph_run",
    "log_follow",
    "prune",
)


def _run(name: str) -> int:
    return subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], cwd=ROOT, check=False).returncode


def main() -> int:
    """Run them; return 1 if one failed, after the others."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=(__doc__ or "").partition(": ")[2])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    names = parser.parse_args().names or NAMES
    if unknown := set(names) - set(NAMES):
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    failed = [name for name in names if _run(name) != 0]
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
