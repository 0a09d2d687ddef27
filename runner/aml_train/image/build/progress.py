"""Read the output of a build with ``--progress=plain``.

Source: moby/buildkit, ``util/progress/progressui``.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from aml_train.core.errors import ImageError
from aml_train.core.events import Event, LogLine, Progress
from aml_train.core.text import Piece, lines_in, states
from aml_train.image.build.pip_output import PipOutput, fault_of

_VERTEX = re.compile(r"#(?P<number>\d+) (?P<rest>.*)", re.DOTALL)
_STEP = re.compile(r"\[(?:[\w.-]+ )?(?P<done>\d{1,9})/(?P<total>\d{1,9})\] (?P<instruction>.*)", re.DOTALL)
_NAMED: Final = "[internal] load metadata for "
_TIMED = re.compile(r"\d+\.\d+ ?(?P<text>.*)", re.DOTALL)
_ENDED = re.compile(r"(?:DONE \d|CACHED$|CANCELED)")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_TAIL: Final = 25
_QUOTED: Final = 15
_WIDEST: Final = 2000
_KEPT: Final = 65_536
"""Characters of a line that are kept: pip lists all versions of a package on one."""
_OUR_FILE: Final = re.compile(r"/tmp/aml-train/(?:requirements/)?([\w./-]+?)(?:-large)?\.txt(?: \(line \d+\))?")  # noqa: S108
"""A requirements file in the build, whose lines are in another order than the project's."""
_PROCESS: Final = re.compile(r'process ".{100,}" did not complete successfully|executor failed running \[.{100,}\]')
_OPTIONS: Final = re.compile(r"(?:--\w+=\S+ +)+")
_OUR_STEPS: Final = {
    " -m pip install --no-warn-script-location ": "packages",
    "/micromamba create ": "packages of the conda environment",
    "/protect.py ": "compare the packages with those of the base",
    " Dir::Cache::archives=/var/cache/aml-train-apt ": "system packages",
}
"""What is in an instruction of ours → what it does."""
_ERROR: Final = "aml-train: error: "
_REMEDY: Final = "aml-train: remedy: "
# The answer to a client of an older API (moby, api/server/middleware/version.go, ``versionUnsupportedError``).
_TOO_OLD: Final = re.compile(
    r"client version (?P<client>[\d.]+) is too old\. Minimum supported API version is (?P<engine>[\d.]+)"
)
_NO_SPACE: Final = ("no space left on device", "disk quota exceeded")


class PlainProgress:
    """Turns the lines of a build into events, and keeps lines for an error message.

    Args:
        places: normalised name of a package → ``file:line`` that requires it; the place of others under the empty name.

    Attributes:
        named: the images whose manifests were read: each that a FROM, COPY or mount of a stage names.
    """

    def __init__(self, places: Mapping[str, str] = {}) -> None:
        self.named: dict[str, None] = {}
        self._places = places
        self._pips: defaultdict[str, PipOutput] = defaultdict(PipOutput)
        self._steps: dict[str, Progress] = {}
        self._tails: dict[str, deque[str]] = defaultdict(lambda: deque(maxlen=_TAIL))
        self._all: deque[str] = deque(maxlen=_TAIL)
        self._failed: str | None = None
        self._full = False
        self._too_old: re.Match[str] | None = None
        self._going_on = False
        self._origin = ""
        self._own: defaultdict[str, dict[str, list[str]]] = defaultdict(lambda: {_ERROR: [], _REMEDY: []})

    def feed(self, line: str, *, more: bool = False) -> Iterator[Event]:
        """Yield the events of a line, and the line; *more* if the next call continues it."""
        going_on, self._going_on = self._going_on, more
        if going_on:
            yield from _shown(line if more else line.rstrip(), self._origin, more=more)
            return
        text = _OUR_FILE.sub(r"\1.txt", _COLOUR.sub("", line if more else line.rstrip()))
        text = _PROCESS.sub("the step failed", text)
        if not text or text.startswith(" > ["):  # the instruction again
            return
        self._all.append(text[:_WIDEST])
        self._full = self._full or any(words in text.lower() for words in _NO_SPACE)
        match = _VERTEX.fullmatch(text)
        if match is None:  # a step may print what another engine said
            self._too_old = self._too_old or _TOO_OLD.search(text)
        origin = ""
        if match is not None:
            number, rest = match["number"], match["rest"]
            if rest.startswith(_NAMED):
                self.named[rest.removeprefix(_NAMED)] = None
            if step := _STEP.fullmatch(rest):
                label, done, total = _label(step["instruction"]), int(step["done"]) - 1, int(step["total"])
                text = f"[{step['done']}/{step['total']}] {label}"
                known = Progress(stage="image", label=label, done=done, total=total, unit="steps")
                self._steps[number] = known
                yield known
            elif timed := _TIMED.fullmatch(rest):
                last = states(timed["text"])[-1][:_KEPT]
                self._tails[number].append(last)
                text = timed["text"]
                if (packages := self._pips[number].feed(last)) is not None:
                    yield packages
                for word, lines in self._own[number].items():
                    if last.startswith(word):
                        lines.append(last.removeprefix(word))
            elif rest.startswith("ERROR"):
                self._failed = number
            elif number in self._steps and _ENDED.match(rest):
                yield replace(self._steps[number], done=self._steps[number].done + 1)
            if number in self._steps:
                origin = self._steps[number].label
        self._origin = origin
        yield from _shown(text, origin, more=more)

    def error(self, exit_code: int) -> ImageError:
        """Return the error for a build that ended with *exit_code*.

        It is what the step that failed says of itself, where the step is one of ours that does; otherwise the instruction
        and its last lines.
        """
        own = self._own.get(self._failed or "", {_ERROR: [], _REMEDY: []})
        if own[_ERROR]:
            return ImageError("\n".join(own[_ERROR]), hint=" ".join(own[_REMEDY]) or None)
        failed = self._steps.get(self._failed or "")
        tail = list(self._tails.get(self._failed or "", ()))
        quoted = [line[:_WIDEST] for line in tail[-_QUOTED:]] or list(self._all)
        what = (
            f"the image's step {failed.label!r} failed" if failed else f"the build failed with exit code {exit_code}"
        )
        message = what + (":\n" + "\n".join(f"  {line}" for line in quoted) if quoted else "")
        if self._too_old is not None:
            return ImageError(
                f"the docker command is too old for the engine: it speaks API {self._too_old['client']}, "
                f"and the engine none below {self._too_old['engine']}",
                hint="Install a current docker command with the buildx plugin (docker-cli and docker-buildx of Debian 13, or "
                "docker-ce-cli and docker-buildx-plugin of Docker's repository), and unset DOCKER_API_VERSION.",
            )
        if self._full:
            return ImageError(
                message,
                hint="The disk is full. See what Docker keeps (docker system df) and free some of it (docker builder prune, "
                "docker image prune); a hosted runner needs fewer or smaller images.",
            )
        if failed and re.search(r"\bpip\b|^packages", failed.label) and (fault := fault_of(tail, self._places)):
            return ImageError(fault, hint="Correct the requirement; the build's output above has all that pip said.")
        return ImageError(
            message, hint="Check the packages under image: in the configuration; the lines above say why."
        )


def _label(instruction: str) -> str:
    """Return what a step does: in words if it is ours, else its instruction without BuildKit's options."""
    ours = next((words for part, words in _OUR_STEPS.items() if part in instruction), None)
    if ours == "packages" and "--requirement=" in instruction:
        return "packages of the requirements"
    return ours or _OPTIONS.sub("", instruction, count=1)[:200]


def _shown(text: str, origin: str, *, more: bool) -> Iterator[LogLine]:
    for piece in lines_in(Piece(text, more=more)):
        yield LogLine(source="build", text=piece.text, origin=origin, more=piece.more)
