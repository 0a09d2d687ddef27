"""Pictures of a terminal of 80 columns, from what a command has printed.

docs/recordings/NAME.ansi is the output of a command with its colours; NAME.svg is drawn from it by rich. A test compares
both, so that no picture shows what no command has printed.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

_FOLDER: Final = Path("docs/recordings")
_COLUMNS: Final = 80
#: As many lines of one source are kept; of more, the first, the last two, and a mark between them.
_KEPT_LINES: Final = 4
_ESCAPES: Final = re.compile(r"\x1b\[[0-9;]*m")
#: Where rich begins and ends its lines of running stages; each leaves an empty line if nothing is interactive.
_CURSOR: Final = re.compile(r"\x1b\[\?25[lh]")


def record(root: Path, name: str, argv: Sequence[str]) -> int:
    """Run a command, keep and draw its output; return the command's exit code.

    The first line of the file is the command, as a user types it.
    """
    environ = {**os.environ, "COLUMNS": str(_COLUMNS), "FORCE_COLOR": "1", "TTY_INTERACTIVE": "0"}
    completed = subprocess.run(
        argv, cwd=root, env=environ, text=True, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    typed = shlex.join((Path(argv[0]).name, *argv[1:]))
    lines = [f"\x1b[1m$ {typed}\x1b[0m", *folded(settled(completed.stdout.replace(str(root), ".")))]
    (root / _FOLDER).mkdir(exist_ok=True)
    (root / _FOLDER / f"{name}.ansi").write_text("\n".join(lines) + "\n", encoding="utf-8")
    write(root)
    print(f"{name}: exit code {completed.returncode}, {len(lines)} lines", file=sys.stderr)
    return completed.returncode


def settled(output: str) -> list[str]:
    """Return the lines that stay on a terminal, without those of running stages."""
    lines = _CURSOR.sub("", output).splitlines()
    return [line for line in lines if line.strip()] if _CURSOR.search(output) else lines


def folded(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines, with the middle of long foreign output left out."""
    for source, group in groupby(lines, key=_source):
        block = list(group)
        if source is None or len(block) <= _KEPT_LINES:
            yield from block
        else:
            yield from (block[0], f"\x1b[2m{source} …\x1b[0m", *block[-2:])


def _source(line: str) -> str | None:
    """Return the beginning of a foreign line, such as ``│ build``, or None."""
    found = re.match(r"│ \w+ +", _ESCAPES.sub("", line))
    return found[0].rstrip().ljust(10) if found else None


def write(root: Path) -> None:
    """Draw every recording of docs/recordings."""
    for path in sorted((root / _FOLDER).glob("*.ansi")):
        path.with_suffix(".svg").write_text(drawn(path), encoding="utf-8")


def drawn(path: Path) -> str:
    """Return the picture of a recording as SVG."""
    console = Console(record=True, width=_COLUMNS, file=io.StringIO(), force_terminal=True, legacy_windows=False)
    for line in path.read_text(encoding="utf-8").splitlines():
        console.print(Text.from_ansi(line), soft_wrap=False)
    svg = console.export_svg(title="aml-train", unique_id=path.stem)
    # The font would be loaded from another site, and GitHub shows no picture that does so.
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"
