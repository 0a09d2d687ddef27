"""Printing lines of styled text: by rich on a terminal, plainly elsewhere.

A run in a workflow or a pipe prints no styles, and importing rich takes longer than many a command.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, Protocol, TextIO, cast

from aml_train.core.streams import discard

if TYPE_CHECKING:
    from rich.console import Console

Part = tuple[str, str]
"""A text with its style in rich's words; empty for none."""

#: By these, rich takes a file for a terminal, or not (https://rich.readthedocs.io/en/stable/console.html#environment-variables).
_DECIDING: Final = ("FORCE_COLOR", "TTY_COMPATIBLE")
#: Bell, backspace, vertical tab, form feed and carriage return, as in ``rich.control.strip_control_codes``.
_CONTROLS: Final = dict.fromkeys((7, 8, 11, 12, 13))


class Printer(Protocol):
    """Prints lines on a file."""

    @property
    def file(self) -> TextIO:
        """The file."""

    @property
    def terminal(self) -> Console | None:
        """The terminal that the file is; None if it is none."""

    def print(self, *parts: Part, end: str = "\n") -> None:
        """Print the text of *parts* and *end*."""

    def render(self, *parts: Part) -> str:
        """Return the text of *parts* as it is printed."""


def printer_for(file: TextIO, *, color: bool | None) -> Printer:
    """Return what prints on *file*.

    *color*: None decides by the terminal (and NO_COLOR); False never colours.
    """
    if any(name in os.environ for name in _DECIDING) or _may_be_terminal(file):
        from rich.console import Console

        console = Console(file=file, no_color=color is False or None, highlight=False, soft_wrap=True, emoji=False)
        return RichPrinter(console)
    return PlainPrinter(file)


def _may_be_terminal(file: TextIO) -> bool:
    try:
        return file.isatty()
    except (AttributeError, ValueError):
        return True


class PlainPrinter:
    """Prints text without styles, exactly as rich prints it on what is no terminal."""

    terminal: Console | None = None

    def __init__(self, file: TextIO) -> None:
        self.file = file

    def print(self, *parts: Part, end: str = "\n") -> None:
        """See :class:`Printer`; a reader that is gone ends the command, as with rich."""
        try:
            self.file.write(self.render(*parts) + end)
            self.file.flush()
        except BrokenPipeError:
            discard(self.file)
            raise SystemExit(1) from None

    def render(self, *parts: Part) -> str:
        """See :class:`Printer`."""
        text = "".join(text for text, _ in parts).translate(_CONTROLS)
        return _expanded(text) if "\t" in text else text


def _expanded(text: str) -> str:
    """Return *text* with spaces for tabs, which takes the widths of its characters."""
    from rich.text import Text

    expanded = Text(text)
    expanded.expand_tabs(8)
    return expanded.plain


class RichPrinter:
    """Prints by rich, with colours if the file is a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console

    @property
    def file(self) -> TextIO:
        """See :class:`Printer`."""
        return cast("TextIO", self._console.file)

    @property
    def terminal(self) -> Console | None:
        """See :class:`Printer`."""
        return self._console if self._console.is_terminal else None

    def print(self, *parts: Part, end: str = "\n") -> None:
        """See :class:`Printer`."""
        from rich.text import Text

        # Text objects are never read as markup: foreign output cannot style itself.
        self._console.print(Text.assemble(*parts), end=end)

    def render(self, *parts: Part) -> str:
        """See :class:`Printer`."""
        with self._console.capture() as capture:
            self.print(*parts, end="")
        return capture.get()
