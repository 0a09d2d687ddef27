"""``python -m scripts.docs``: the reference, the site, terminals, screenshots."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out one of the commands; return its exit code."""
    parser = argparse.ArgumentParser(
        prog="scripts.docs", description="Write, build and illustrate the documentation."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser(
        "write", help="write the generated pages of docs/reference and the pictures of docs/recordings"
    )
    build = commands.add_parser("build", help="build the site from docs/; a warning fails")
    build.add_argument("--output", type=Path, default=ROOT / ".aml-train/site", help="the folder of the site")
    record = commands.add_parser("record", help="run commands and keep their output as docs/recordings/NAME.ansi")
    record.add_argument("name")
    record.add_argument("--folder", type=Path, help="where they run; by default here")
    record.add_argument("commands", nargs="+", metavar="COMMAND", help="a command, in quotes")
    commands.add_parser(
        "screenshots",
        help="take the pictures of docs/screenshots from the page of a local AzureML with generated runs",
    )
    options = parser.parse_args(arguments)
    if options.command == "build":
        from scripts.docs.site import build_site

        return build_site(ROOT, options.output)
    if options.command == "screenshots":
        from scripts.docs.screenshots import take

        return take(ROOT)
    from scripts.docs import noise, recording, reference

    if options.command == "record":
        recording.record(ROOT, options.name, [shlex.split(one) for one in options.commands], options.folder)
        return 0
    reference.write(ROOT)
    recording.write(ROOT)
    noise.write(ROOT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
