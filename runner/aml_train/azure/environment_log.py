"""The log of an environment's build, as lines of BuildKit's.

AzureML builds by ``docker build`` with Docker's earlier builder, on its own compute or as ACR Tasks. The log of the former begins each
line with the time (a log in whole: github.com/recommenders-team/recommenders/pull/2098). The steps are named as by moby,
``builder/dockerfile/dispatchers.go`` and ``builder/dockerfile/internals.go``.
"""

from __future__ import annotations

import re
from typing import Final

from aml_train.core.text import Piece

_STAMP: Final = re.compile(r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?Z?:? ")
_STEP: Final = re.compile(r"Step (?P<number>\d+)/(?P<total>\d+) : (?P<instruction>.*)", re.DOTALL)
_FAILED: Final = re.compile(r"(?:The command .* returned a non-zero code: \d+|(?:COPY|ADD) failed: .*)", re.DOTALL)


class ClassicLog:
    """Turns the lines of one log into lines of ``--progress=plain``."""

    def __init__(self) -> None:
        self._step = ""
        self._total = ""
        self._continued = False

    def translate(self, piece: Piece) -> list[Piece]:
        """Return the lines for a line of the log, or for a part of one."""
        continued, self._continued = self._continued, piece.more
        if continued:
            return [piece]
        text = _STAMP.sub("", piece.text, count=1) if _STAMP.match(piece.text) else piece.text
        if step := _STEP.fullmatch(text):
            self._step, self._total = step["number"], step["total"]
            line = f"#{self._step} [{self._step}/{self._total}] {step['instruction']}"
        elif self._step and _FAILED.fullmatch(text):
            return [
                Piece(f"#{self._step} 0.0 {text}", more=False),
                Piece(f"#{self._step} ERROR: {text}", more=piece.more),
            ]
        else:
            line = f"#{self._step} 0.0 {text}" if self._step else text
        return [Piece(line, more=piece.more)]
