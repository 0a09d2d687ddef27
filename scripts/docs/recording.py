"""Pictures of a terminal of 80 columns, from what a command has printed.

docs/recordings/NAME.ansi is the output of a command with its colours; NAME.svg is drawn from it by rich. A test compares
both, so that no picture shows what no command has printed.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import termios
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
#: What moves rich's lines of running stages: they are written again and again below everything else.
_CURSOR: Final = re.compile(r"\x1b\[(?:\?25[lh]|\d*[ABKJ])")


def record(root: Path, name: str, commands: Sequence[Sequence[str]], folder: Path | None = None) -> None:
    """Run commands in *folder*, on a terminal; keep and draw their output.

    Above the output of each is the command, as a user types it. Of the lines of running stages, those of packages stay.
    """
    lines: list[str] = []
    for argv in commands:
        output = _on_terminal(argv, folder or root).replace(str(folder or root), ".")
        lines += [*([""] if lines else []), f"\x1b[1m$ {shlex.join((Path(argv[0]).name, *argv[1:]))}\x1b[0m"]
        lines += folded(settled(output))
    (root / _FOLDER / f"{name}.ansi").write_text("\n".join(lines) + "\n", encoding="utf-8")
    write(root)


def _on_terminal(argv: Sequence[str], folder: Path) -> str:
    """Return what a command writes on a terminal of 80 columns."""
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (50, _COLUMNS))
    environ = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(_COLUMNS)}
    process = subprocess.Popen(argv, cwd=folder, env=environ, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    written = bytearray()
    with contextlib.suppress(OSError):  # a terminal whose other side is closed
        while read := os.read(ours, 65536):
            written += read
    os.close(ours)
    process.wait()
    return written.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")


def settled(output: str) -> list[str]:
    """Return the lines that stay on a terminal, and those of running stages that say how far packages are, once each."""
    lines: dict[str, str] = {}
    for number, line in enumerate(_CURSOR.sub("", output).splitlines()):
        plain = _ESCAPES.sub("", line)
        if not plain.startswith("▸ "):
            lines[str(number)] = line
        elif "packages: " in plain:
            lines.setdefault(plain.partition("━")[0].partition("╸")[0], line)
    return [line for line in lines.values() if line.strip()]


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
    found = re.match(r"[│▸] \w+ +", _ESCAPES.sub("", line))
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
