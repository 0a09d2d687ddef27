"""Text for people: foreign output as lines, durations and sizes; numbers in text from outside. Pure.

Memory is bounded, nothing is lost, and what a progress bar rewrites is shown once.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import yaml

#: A line longer than this, in characters, comes in pieces.
LONGEST_LINE: Final = 64 * 1024
_NO_LETTERS: Final = re.compile(r"[\W\d_]+")
#: Colours and other styles (ECMA-48 "select graphic rendition"): they carry no text.
_STYLE: Final = re.compile(r"\x1b\[[0-9;:]*m")
#: Control characters but the tab, line separators of Unicode, characters that turn or hide text, lone surrogates.
_UNSAFE: Final = re.compile(
    r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)
#: The line ends of GitHub's runner: .NET's StreamReader.ReadLine knows \r, \n and \r\n.
_LINE_END: Final = re.compile(r"\r\n|\n|\r")


class Piece(NamedTuple):
    """A line, or a part of one. *more* says that it continues in the next piece."""

    text: str
    more: bool = False


class LinePieces:
    """Turns bytes into lines that end at line feeds; invalid UTF-8 becomes U+FFFD."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._rest = ""

    def feed(self, data: bytes, *, final: bool = False) -> list[Piece]:
        """Return what *data* completes; with *final* also the last line without an end."""
        text = self._decoder.decode(data, final)
        *ended, rest = text.split("\n")
        if ended:
            ended[0] = self._rest + ended[0]
        else:
            rest = self._rest + rest
        found = [piece for line in ended for piece in _cut(line, ended=True)]
        *pieces, self._rest = (piece.text for piece in _cut(rest, ended=False))
        found += [Piece(piece, more=True) for piece in pieces]
        if final and self._rest:
            found.append(Piece(self._rest))
            self._rest = ""
        return found


def _cut(line: str, *, ended: bool) -> list[Piece]:
    starts = range(0, max(len(line), 1), LONGEST_LINE)
    last = starts[-1]
    return [Piece(line[at : at + LONGEST_LINE], more=at != last or not ended) for at in starts]


class LineBlocks:
    """Turns bytes into lines for people, many at a time: carriage returns end lines, a progress bar is one.

    The text of a piece is lines that line feeds join, and only the last may continue.
    """

    def __init__(self) -> None:
        self._pieces = LinePieces()

    def feed(self, data: bytes, *, final: bool = False) -> list[Piece]:
        """See :meth:`LinePieces.feed`."""
        found: list[Piece] = []
        waiting: list[str] = []
        for line in (one for piece in self._pieces.feed(data, final=final) for one in lines_in(piece)):
            waiting.append(line.text)
            if line.more:
                found.append(Piece("\n".join(waiting), more=True))
                waiting.clear()
        return [*found, Piece("\n".join(waiting))] if waiting else found


def lines_in(piece: Piece) -> list[Piece]:
    """Return the lines that carriage returns make of *piece*.

    Only the last may continue.
    """
    *before, last = states(piece.text)
    return [*(Piece(state) for state in before), Piece(last, more=piece.more)]


def states(text: str) -> list[str]:
    """Return the parts between carriage returns, without earlier progress states.

    A terminal shows only the last state. Yet a text that rewrites another hides it: what is dropped is an empty state, and one whose
    letters, without digits and signs, are where those of the next one begin (``10%``, ``20%``; ``epoch 1: 5/9``, ``epoch 1: 6/9``).
    """
    if "\r" not in text:
        return [text]
    found = text.rstrip("\r").split("\r")
    letters = [_NO_LETTERS.sub("", state) for state in found]
    kept = [
        state
        for state, here, after in zip(found, letters, letters[1:], strict=False)
        if state and not (after.startswith(here) if here else not after)
    ]
    return [*kept, found[-1]]


def harmless(text: str) -> str:
    """Return *text* as one line, control characters visible, styles removed."""
    return _UNSAFE.sub(_visible, _STYLE.sub("", text))


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)  # the block "Control Pictures" has one for each
    return "␡" if code == 0x7F else f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def lines_of(text: str) -> list[str]:
    """Return the harmless lines of *text*, split where GitHub's runner would."""
    return [harmless(line) for line in _LINE_END.split(text)]


_SLOW: Final = 0.5


def duration(seconds: float) -> str:
    """Return a duration for people: ``0.4 s``, ``2 min 05 s``, ``1 h 02 min``."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def size(count: float) -> str:
    """Return a number of bytes for people, in decimal units."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.2f} GB"


def slowest(times: Iterable[tuple[str, float]]) -> str:
    """Return in one line the names and durations of half a second and more.

    Else nothing.
    """
    return ", ".join(f"{name} {duration(seconds)}" for name, seconds in times if seconds >= _SLOW)


def yaml_text(value: object) -> str:
    """Return *value* as YAML, its keys in their order; by libyaml if possible."""
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: str = yaml.dump(value, Dumper=dumper, sort_keys=False, allow_unicode=True)
    return text


def readable_yaml(value: object) -> str:
    """Return *value* as YAML for people: text of several lines is a literal block."""

    class Dumper(yaml.SafeDumper):
        pass

    def represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
        style = "|" if "\n" in text and not any(line != line.rstrip() for line in text.split("\n")) else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    Dumper.add_representer(str, represent_text)
    return str(yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=1_000_000))


#: Escape sequences of foreign text could take the terminal over.
_ESCAPES: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)
#: Characters that turn the order of what is shown (Unicode's UAX #9).
_TURNING: Final = re.compile(r"[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """Return *text* without escape sequences and control characters but the tab.

    Characters that turn its order become visible.

    Commands to GitHub's runner lose their effect, too: it obeys ``##[`` anywhere in a line (actions/runner, ``ActionCommand.cs``),
    and the command line may run in a workflow's ``run:``.
    """
    shown = _TURNING.sub(_visible, _ESCAPES.sub("", text))
    return shown.replace("##[", "##\N{ZERO WIDTH SPACE}[")


def printable_lines(text: str) -> str:
    """Return *text* made printable line by line."""
    return "\n".join(printable(line) for line in text.split("\n"))


def printable_line(text: str) -> str:
    """Return *text* made printable, on one line."""
    return printable(" ".join(text.split()))


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of equally many texts as lines with columns."""
    shown = [[printable_line(text) for text in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in shown]


_DIGITS: Final = re.compile(r"[0-9]+")
_DURATION: Final = re.compile(
    r"P(?:([0-9]{1,9})D)?(?:T(?:([0-9]{1,9})H)?(?:([0-9]{1,9})M)?(?:([0-9]{1,9})(?:\.[0-9]+)?S)?)?"
)


def whole(text: str, *, most: int = 18) -> int | None:
    """Return the number that *text* is in ASCII digits; None for any other text.

    ``int`` alone reads digits of other scripts, raises for some characters that ``str.isdigit`` calls digits, such as ``²``, and
    for more than 4300 digits.

    Args:
        most: digits; what has more is no number either. 18 fit in 64 bits.
    """
    return int(text) if len(text) <= most and _DIGITS.fullmatch(text) else None


def iso_seconds(text: str) -> int | None:
    """Return a duration of ISO 8601 such as ``PT2M`` in whole seconds.

    None for any other text, and for numbers of more than 9 digits.
    """
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
