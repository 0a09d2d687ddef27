"""Commands in comments of pull requests. Pure.

::

    /train [COMMIT]
    /compare [COMMIT]
    /promote [VERSION]

A command is the whole comment: one line of ASCII. A comment that only resembles one is refused with a reason, so that no one
takes it for a command that was obeyed; any other comment is none of ours.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from typing import Final, Literal

from aml_train.core.values import dataclass

Name = Literal["train", "compare", "promote"]
NAMES: Final[tuple[Name, ...]] = ("train", "compare", "promote")
_LINE: Final = re.compile(r"/(?P<name>train|compare|promote)(?: (?P<word>[!-~]{1,100}))?")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_VERSION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,29}")
#: How alike a word must be to count as one of ours, misspelt.
_ALIKE: Final = 0.75
#: Letters of other scripts that look like those of our words.
_LOOK: Final = str.maketrans("аеорсіӏтпмαοριτνр", "aeopciltnmaopitvp")


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command.

    Attributes:
        name: its word.
        commit: with ``train`` and ``compare``: the commit that the author names; empty for none.
        version: with ``promote``: the model's version; empty for the newest candidate.
    """

    name: Name
    commit: str = ""
    version: str = ""


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """Why a comment is not obeyed: a sentence of ours, without foreign text."""

    why: str


def parse(body: str) -> Command | Refusal | None:
    """Return the command of a comment, why it is refused, or None if it is no command."""
    if not _resembles(body):
        return None
    # GitHub's editor ends no comment with a line end, but clients of its interface may.
    text = body.removesuffix("\n").removesuffix("\r")
    if not text.isascii() or not text.isprintable():
        return Refusal(
            why="A command is one line of plain ASCII characters, and the whole comment: write nothing before or after it."
        )
    found = _LINE.fullmatch(text)
    if found is None:
        return Refusal(why=f"This is no command. Known are {USAGE}, each as the whole comment.")
    name, word = found["name"], found["word"] or ""
    if name == "promote":
        if word and not _VERSION.fullmatch(word):
            return Refusal(why="The word after <code>/promote</code> is no version of a model.")
        return Command(name="promote", version=word)
    if word and not _COMMIT.fullmatch(word):
        return Refusal(
            why=f"The word after <code>/{name}</code> is not the whole id of a commit, 40 digits in lower case."
        )
    return Command(name="train" if name == "train" else "compare", commit=word)


USAGE: Final = "<code>/train [COMMIT]</code>, <code>/compare [COMMIT]</code> and <code>/promote [VERSION]</code>"


def _resembles(body: str) -> bool:
    """Return whether the first word of a comment looks like one of our commands."""
    folded = unicodedata.normalize("NFKC", body).translate(_LOOK)
    visible = "".join(
        sign for sign in folded if unicodedata.category(sign) not in ("Cf", "Cc", "Mn") or sign.isspace()
    )
    words = visible.split(None, 1)
    if not words or words[0][0] not in "/⁄∕⧸╱":
        return False
    word = words[0][1:41].casefold()
    return bool(difflib.get_close_matches(word, NAMES, n=1, cutoff=_ALIKE))
