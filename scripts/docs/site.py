"""The documentation's site: the repository's pages as one tree.

The pages are read on GitHub as well, so their links lead to files and folders of the repository. In the site's tree
docs/ is the root, and the pages outside of it that docs/ links to are below ``repository/``. A link to a folder leads
to its README; any other file is copied. A link to a folder without a README becomes plain text.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final

_CONFIGURATION: Final = Path("docs/zensical.toml")
_REQUIREMENTS: Final = "requirements/docs.txt"
_OUTSIDE: Final = PurePosixPath("repository")
_FENCE: Final = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"(?<!`)(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def build_site(root: Path, output: Path) -> int:
    """Build the site into *output*; return 1 if there is a warning."""
    shutil.rmtree(output, ignore_errors=True)
    pages = stage(root, output / "pages")
    settings = expanded((root / _CONFIGURATION).read_text(encoding="utf-8"), output / "pages", pages)
    (output / "zensical.toml").write_text(settings, encoding="utf-8")
    named = set(_pages_of(tomllib.loads(settings)["project"]["nav"]))
    faults = [f"{_CONFIGURATION}: `nav` lacks the page {page}" for page in sorted(set(pages) - named)]
    faults += [f"{_CONFIGURATION}: `nav` names {page}, which does not exist" for page in sorted(named - set(pages))]
    completed = subprocess.run(_zensical(root), cwd=output, env=_environment(), check=False)
    for fault in faults:
        print(fault, file=sys.stderr)
    if completed.returncode or faults:
        return 1
    print(f"The site is in {os.path.relpath(output / 'html', root)}: {len(pages)} pages.")
    return 0


def _zensical(root: Path) -> list[str]:
    """Return the command that builds strictly, in an environment of the lock file."""
    uv = Path(sys.executable).with_name("uv")
    run = [
        str(uv) if uv.exists() else "uv",
        "run",
        "--quiet",
        "--no-project",
        "--isolated",
        "--python",
        sys.executable,
    ]
    return [*run, "--with-requirements", str(root / _REQUIREMENTS), "zensical", "build", "--clean", "--strict"]


def _environment() -> dict[str, str]:
    """Return this process's environment, with pip's index for uv."""
    index = {"UV_DEFAULT_INDEX": os.environ["PIP_INDEX_URL"]} if "PIP_INDEX_URL" in os.environ else {}
    return {"UV_PYTHON_DOWNLOADS": "never", "UV_SYSTEM_CERTS": "1", **index, **os.environ}


def expanded(settings: str, folder: Path, pages: Sequence[str]) -> str:
    """Return the settings with the patterns of `nav` replaced by their pages.

    One page takes the entry's place, several are below it, and without a page there is no entry.
    """

    def entries(found: re.Match[str]) -> str:
        title, pattern = found.groups()
        matching = fnmatch.filter(pages, pattern)
        if len(matching) < 2:
            return f'{{ "{title}" = "{matching[0]}" }},' if matching else ""
        titled = (f'{{ "{_title(folder / page)}" = "{page}" }}' for page in matching)
        return f'{{ "{title}" = [{", ".join(titled)}] }},'

    return re.sub(r'\{ "([^"\n]+)" = "([^"\n]*\*[^"\n]*)" \},', entries, settings)


def _title(page: Path) -> str:
    found = re.search(r"(?m)^# (.+)$", page.read_text(encoding="utf-8"))
    return found[1].replace("`", "").replace('"', "'") if found else page.stem


def _pages_of(item: Any) -> Iterator[str]:
    match item:
        case str():
            yield item
        case dict():
            for below in item.values():
                yield from _pages_of(below)
        case _:
            for below in item:
                yield from _pages_of(below)


def stage(root: Path, target: Path) -> list[str]:
    """Write the pages and their files below *target*; return the pages' paths.

    Pages outside docs/ are followed from those inside, and from one another.
    """
    docs = root / "docs"
    waiting = [
        path.relative_to(root) for path in sorted(docs.rglob("*")) if path.is_file() and path.suffix != ".toml"
    ]
    staged: dict[Path, str] = {}
    while waiting:
        path = waiting.pop()
        if path in staged:
            continue
        staged[path] = str(place(path))
        file = target / staged[path]
        file.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix != ".md":
            shutil.copyfile(root / path, file)
            continue
        text, linked = relinked(root, path, (root / path).read_text(encoding="utf-8"))
        file.write_text(text, encoding="utf-8")
        waiting.extend(linked)
    return sorted(place for place in staged.values() if place.endswith(".md"))


def place(path: Path) -> PurePosixPath:
    """Return the place in the site of a file of the repository."""
    pure = PurePosixPath(path.as_posix())
    return pure.relative_to("docs") if pure.parts[0] == "docs" else _OUTSIDE / pure


def relinked(root: Path, page: Path, text: str) -> tuple[str, list[Path]]:
    """Return a page with links for the site, and the files that it links to."""
    linked: list[Path] = []

    def replace(found: re.Match[str]) -> str:
        mark, words, link = found.groups()
        address, _, anchor = link.partition("#")
        if not address or ":" in address:
            return found[0]
        aim = Path(os.path.normpath(page.parent / address))
        if (root / aim).is_dir():
            aim /= "README.md"
        if not (root / aim).is_file():
            return words if (root / aim).parent.is_dir() and aim.name == "README.md" else found[0]
        linked.append(aim)
        relative = os.path.relpath(place(aim), place(page).parent)
        return f"{mark}[{words}]({relative}{'#' if anchor else ''}{anchor})"

    parts, end = [], 0
    for fence in _FENCE.finditer(text):
        parts += [_LINK.sub(replace, text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join((*parts, _LINK.sub(replace, text[end:]))), linked
