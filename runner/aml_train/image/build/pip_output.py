"""What pip says in a build: the package that it fetches, and the requirement that it cannot install. Pure.

Source: pip, ``_internal/resolution/resolvelib/factory.py``, ``_internal/network/download.py``, ``_internal/cli/req_command.py``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from aml_train.core.events import Progress

_COLLECTING: Final = re.compile(r"Collecting ([\w.-]+)")
#: A package, and no metadata of one, which pip fetches first.
_FETCHED: Final = re.compile(
    r"\s*(?:Downloading|Using cached|Processing) (?:\S*/)?(\w[\w.-]*?)-(\d[^-\s]*?)(?:-\S+\.whl|\.tar\.gz|\.zip)\b"
    r"(?!\.)(?: (\([\d.]+ \w+\)))?"
)
_INSTALLING: Final = "Installing collected packages: "
_NO_VERSION: Final = re.compile(
    r"Could not find a version that satisfies the requirement (?P<wanted>.+?)(?: \(from (?P<by>[\w.-]+)[^()]*\))? "
    r"\(from versions: (?P<versions>[^)]*)"
)
_CONFLICT: Final = re.compile(r"^The conflict is caused by:\n((?: +\S.*\n?)+)", re.MULTILINE)
_NO_WHEEL: Final = re.compile(
    r"(?:Failed building wheel for|Could not build wheels for|Failed to build(?: installable wheels for [\w. -]+)?)"
    r" [('\"]*([\w.-]+)"
)


class PipOutput:
    """Counts the packages of one step's output, as far as pip knows them."""

    def __init__(self) -> None:
        self._collected: set[str] = set()
        self._fetched: set[str] = set()

    def feed(self, line: str) -> Progress | None:
        """Return how far pip is, if *line* tells."""
        if found := _COLLECTING.match(line):
            self._collected.add(canonicalize_name(found[1]))
        elif found := _FETCHED.match(line):
            self._fetched.add(canonicalize_name(found[1]))
            return self._progress(" ".join(filter(None, found.groups())))
        elif line.startswith(_INSTALLING):
            return self._progress("installing them")
        return None

    def _progress(self, what: str) -> Progress:
        # What pip takes from a folder was not collected before.
        total = len(self._collected | self._fetched)
        return Progress(stage="image", label=f"packages: {what}", done=len(self._fetched), total=total, unit="")


def conflict_of(text: str) -> list[str]:
    """Return who wants what, in pip's words, if *text* tells of a conflict."""
    found = _CONFLICT.search(text)
    return [] if found is None else [line.strip() for line in found[1].splitlines()]


def fault_of(lines: Sequence[str], places: Mapping[str, str]) -> str:
    """Return which requirement pip could not install, and why; empty if its last *lines* do not say so.

    Args:
        lines: the last lines of the step.
        places: normalised name of a package → ``file:line`` that requires it; the place of others under the empty name.
    """
    text = "\n".join(lines)

    def at(requirement: str) -> str:
        name = re.match(r"[\w.-]*", requirement)
        place = places.get(canonicalize_name(name[0] if name else ""), places.get("", ""))
        return f"{place}: " if place else ""

    if found := _NO_VERSION.search(text):
        wanted, by = found["wanted"], found["by"]
        needed = f"{at(by)}{by} needs {wanted}" if by else f"{at(wanted)}{wanted}"
        if found["versions"] == "none":
            return f"{needed}: no such package, or none for the image's Python and platform"
        return f"{needed}: no such version for the image's Python; nearest {_nearest(wanted, found['versions'])}"
    if reasons := conflict_of(text):
        wishes = [line.removeprefix("The user requested ") for line in reasons]
        first = next((wish for wish, line in zip(wishes, reasons, strict=True) if wish != line), "")
        return f"{at(first)}the requirements exclude each other:\n" + "\n".join(f"  {line}" for line in reasons)
    if found := _NO_WHEEL.search(text):
        return f"{at(found[1])}{found[1]} has no wheel for the image's Python and platform, and cannot be built in it"
    return ""


def _nearest(wanted: str, listed: str) -> str:
    """Return the greatest released version of a list that is not above the wanted one, else the least."""
    try:
        known = sorted(map(Version, listed.split(", ")))
        bounds = [Version(one.version.removesuffix(".*")) for one in Requirement(wanted).specifier]
    except ValueError:
        return listed.rpartition(", ")[2]
    known = [one for one in known if not one.is_prerelease] or known
    below = [one for one in known if not bounds or one <= bounds[0]]
    return str(below[-1] if below else known[0])
